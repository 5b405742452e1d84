"""The cache: `.maestro/cache/search.db`, one row for everything that was said, found by its words.

A cache and never the truth: what is damaged, of another form, or was not made here by this user is thrown away and made
anew. A project may come with a file in its place, and SQLite obeys what it opens: the user's own state folder says
which file was made here, by its number and by two random numbers in its header, and nothing else is opened.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import blake2b, sha256
from typing import NamedTuple, Self

from maestro_state.errors import MaestroError
from maestro_state.fs.handles import Folder
from maestro_state.fs.opening import open_own_file, replace_file
from maestro_state.fs.private import is_inside, open_private_folder, read_private, state_home, user_home
from maestro_state.local.project import Project
from maestro_state.search.words import split

FOLDER, FILE = "cache", "search.db"
_LOCK = "search.lock"
_BESIDE = ("-wal", "-shm", "-journal")
#: The number of this form; any other is made anew.
SCHEMA = 1

#: Seconds to wait for somebody else's change, none of which takes a tenth of that.
_BUSY_S = 60.0
#: Most bytes of pages that are kept in memory while it is changed.
_CACHE_KIB = 32 << 10

_TABLES = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID",
    "CREATE TABLE session (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, is_live INTEGER NOT NULL, "
    "is_whole INTEGER NOT NULL, stamp TEXT NOT NULL, seen TEXT NOT NULL)",
    "CREATE INDEX session_live ON session (id) WHERE is_live",
    "CREATE INDEX session_damaged ON session (id) WHERE NOT is_whole",
    "CREATE TABLE entry (place INTEGER PRIMARY KEY, session INTEGER NOT NULL, kind TEXT NOT NULL, entry TEXT NOT NULL, "
    "role TEXT, said TEXT, content TEXT NOT NULL, parts TEXT)",
    "CREATE INDEX entry_session ON entry (session)",
    "CREATE VIRTUAL TABLE words USING fts5 (content, parts, content='entry', content_rowid='place', prefix='2 3', "
    "tokenize='unicode61 remove_diacritics 2')",
)

#: Where in a database's header the two random numbers are: its user_version and its application_id.
_HEADER_BYTES, _NUMBERS = 100, ((60, 64), (68, 72))

#: Files that this process has looked into: closing a file makes SQLite lose its locks on it, so each is opened once.
_looked_into: dict[str, int] = {}
_looking = threading.Lock()

#: Bits of a place that tell apart what was said in one millisecond, and the first millisecond that has no place.
_PLACE_BITS = 20
_LAST_MS = 1 << 43


class Entry(NamedTuple):
    """One thing that was said, and can be found."""

    kind: str
    entry: str  #: id of the message, the run or the item; of a note, what it is of
    ms: int  #: when
    content: str
    role: str | None = None
    said: str | None = None  #: of a prompt or an output: the id of the message that it also is


class Known(NamedTuple):
    """What the cache has of a session."""

    number: int
    is_live: bool
    stamp: str  #: what the file system said of its archive when that was read
    seen: str  #: how far it was read from the server


class NotOurs(Exception):  # noqa: N818 - no failure: it is made anew
    """What is there was not made here, or is none of this form."""


def place_of(ms: int) -> int:
    """Return the first place of a millisecond."""
    return min(max(ms, 0), _LAST_MS - 1) << _PLACE_BITS


def ms_of(place: int) -> int:
    """Return the millisecond of a place."""
    return place >> _PLACE_BITS


class Store:
    """An open cache."""

    def __init__(self, database: sqlite3.Connection, folder: Folder | None) -> None:
        """Own both; use `open_store`. Without a folder it is in memory, and nobody else's."""
        self.database = database
        self._folder = folder
        self._process = os.getpid()
        self._number = _number_of(folder) if folder else None

    @property
    def is_lasting(self) -> bool:
        """Tell whether others see it."""
        return self._folder is not None

    def is_current(self) -> bool:
        """Tell whether this is still what is in the file's place, and this process the one that opened it."""
        if self._process != os.getpid():
            return False
        return self._folder is None or (self._number is not None and _number_of(self._folder) == self._number)

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Hold the cache against everybody else who changes it; they wait."""
        if self._folder is None:
            yield
            return
        with self._folder.locked(_LOCK):
            yield

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make changes all or none."""
        self.database.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.database.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                self.database.execute("ROLLBACK")
            raise

    def known(self) -> dict[str, Known]:
        """Return what there is of all sessions."""
        found = self.database.execute("SELECT id, number, is_live, stamp, seen FROM session")
        return {one: Known(number, bool(is_live), stamp, seen) for one, number, is_live, stamp, seen in found}

    def known_live(self) -> dict[str, Known]:
        """Return what there is of sessions that were live when they were last read."""
        found = self.database.execute("SELECT id, number, is_live, stamp, seen FROM session WHERE is_live")
        return {one: Known(number, bool(is_live), stamp, seen) for one, number, is_live, stamp, seen in found}

    def damaged(self) -> list[str]:
        """Return the sessions of which something could not be read."""
        return [row[0] for row in self.database.execute("SELECT id FROM session WHERE NOT is_whole ORDER BY id")]

    def count(self, table: str) -> int:
        """Return how many sessions or entries there are."""
        return int(self.database.execute(f"SELECT count(*) FROM {table}").fetchone()[0])  # noqa: S608 - our own word

    def get(self, name: str) -> str:
        """Return something noted; empty when it never was."""
        found = self.database.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return str(found[0]) if found else ""

    def note(self, name: str, value: str) -> None:
        """Note something."""
        self.database.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))

    def put(self, session_id: str, *, is_live: bool, is_whole: bool, stamp: str = "", seen: str = "") -> int:
        """Note how far a session is known; return its number."""
        values = (is_live, is_whole, stamp, seen)
        row = self.database.execute("SELECT number FROM session WHERE id = ?", (session_id,)).fetchone()
        if row is None:
            insert = "INSERT INTO session (id, is_live, is_whole, stamp, seen) VALUES (?, ?, ?, ?, ?)"
            return int(self.database.execute(insert, (session_id, *values)).lastrowid or 0)
        update = "UPDATE session SET is_live = ?, is_whole = ?, stamp = ?, seen = ? WHERE number = ?"
        self.database.execute(update, (*values, row[0]))
        return int(row[0])

    def entries(self, number: int) -> dict[tuple[str, str], int]:
        """Return the places of what a session said, by kind and entry."""
        found = self.database.execute("SELECT kind, entry, place FROM entry WHERE session = ?", (number,))
        return {(kind, entry): place for kind, entry, place in found}

    def add(self, rows: Iterable[tuple[int, Entry]]) -> None:
        """Add what sessions said; in the order of time it costs the least."""
        for number, row in rows:
            digest = blake2b(f"{number} {row.kind} {row.entry}".encode(), digest_size=4).digest()
            place = place_of(row.ms) + int.from_bytes(digest) % (1 << _PLACE_BITS)
            parts = split(row.content)
            values = (number, row.kind, row.entry, row.role, row.said, row.content, parts)
            while not self.database.execute(
                "INSERT OR IGNORE INTO entry VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (place, *values)
            ).rowcount:
                place += 1
            self.database.execute(
                "INSERT INTO words (rowid, content, parts) VALUES (?, ?, ?)", (place, row.content, parts)
            )

    def remove(self, places: Iterable[int]) -> None:
        """Remove what was said in some places."""
        for place in places:
            self.database.execute(
                "INSERT INTO words (words, rowid, content, parts) "
                "SELECT 'delete', place, content, parts FROM entry WHERE place = ?",
                (place,),
            )
            self.database.execute("DELETE FROM entry WHERE place = ?", (place,))

    def clear(self, number: int) -> None:
        """Remove everything that a session said."""
        self.remove(self.entries(number).values())

    def forget(self, session_id: str) -> None:
        """Remove a session."""
        found = self.database.execute("SELECT number FROM session WHERE id = ?", (session_id,)).fetchone()
        if found:
            self.clear(found[0])
            self.database.execute("DELETE FROM session WHERE number = ?", found)

    def shed(self) -> None:
        """Leave nothing of what was removed in the files beside it."""
        with suppress(sqlite3.Error):
            self.database.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Close it. Repeatable."""
        if self._process != os.getpid():
            return  # the parent's
        with suppress(sqlite3.Error):
            self.database.close()
        if self._folder is not None:
            self._folder.close()

    def __enter__(self) -> Self:
        """Use as a context manager."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()


def open_store(project: Project, environment: Mapping[str, str], *, anew: bool = False) -> Store:
    """Open the project's cache, made if there is none of ours, or told to; in memory where nothing can be written."""
    try:
        folder = project.folder(FOLDER, create=True)
    except (OSError, MaestroError):
        return _in_memory()
    try:
        return Store(_opened(folder, project.path, environment, anew=anew), folder)
    except (OSError, MaestroError, sqlite3.OperationalError):
        folder.close()
        return _in_memory()
    except BaseException:
        folder.close()
        raise


def is_there(project: Project) -> bool:
    """Tell whether there is a cache: who only takes something out of it makes none."""
    try:
        with project.folder(FOLDER) as folder:
            return folder.status(FILE) is not None
    except (OSError, MaestroError):
        return False


def _in_memory() -> Store:
    database = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    for table in _TABLES:
        database.execute(table)
    return Store(database, None)


def _opened(folder: Folder, root: str, environment: Mapping[str, str], *, anew: bool) -> sqlite3.Connection:
    records = _records(root, environment)
    if not anew:
        with suppress(NotOurs):
            return _open_own(folder, root, records)
    with folder.locked(_LOCK):
        if not anew:
            with suppress(NotOurs):  # somebody else was faster
                return _open_own(folder, root, records)
        return _make(folder, root, records)


def _open_own(folder: Folder, root: str, records: str | None) -> sqlite3.Connection:
    if records is None or not os.path.isdir(records) or not _is_made_here(folder, root, records):
        raise NotOurs
    database = _connect(folder)
    try:
        found = [row[0] for row in database.execute("SELECT sql FROM sqlite_schema WHERE name NOT GLOB 'words_*'")]
        if sorted(filter(None, found)) != sorted(_TABLES):
            raise NotOurs
    except sqlite3.DatabaseError as error:
        database.close()
        raise (error if _is_busy(error) else NotOurs) from error
    except NotOurs:
        database.close()
        raise
    return database


def _is_busy(error: sqlite3.DatabaseError) -> bool:
    return isinstance(error, sqlite3.OperationalError) and "lock" in str(error)


def _connect(folder: Folder) -> sqlite3.Connection:
    path = os.path.join(os.path.realpath(folder.path), FILE)
    database = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
    for pragma in ("trusted_schema = OFF", "synchronous = NORMAL", f"cache_size = -{_CACHE_KIB}", "secure_delete = ON"):
        database.execute(f"PRAGMA {pragma}")
    return database


def _make(folder: Folder, root: str, records: str | None) -> sqlite3.Connection:
    """Make an empty cache; the lock is held. Those who have the old one open keep what they have."""
    _looked_into.pop(root, None)
    for name in (FILE, *(FILE + end for end in _BESIDE)):
        found = folder.status(name)
        if found is not None and stat.S_ISDIR(found.st_mode):
            folder.move(name, f"{name}.{os.urandom(4).hex()}")
        elif found is not None:
            folder.remove(name)
    if folder.status(".gitignore") is None:
        folder.replace(".gitignore", b"*\n", mode=0o644, durable=False)
    os.close(folder.open_own(FILE)[0])
    numbers = [int.from_bytes(os.urandom(4)) >> 1 for _ in _NUMBERS]
    database = _connect(folder)
    try:
        database.execute(f"PRAGMA user_version = {numbers[0]}")
        database.execute(f"PRAGMA application_id = {numbers[1]}")
        for table in _TABLES:
            database.execute(table)
        database.execute("PRAGMA journal_mode = WAL")
    finally:
        database.close()  # before its header is looked at: see _looked_into
    if records is not None:
        _note(folder, root, records)
    return _connect(folder)


def _records(root: str, environment: Mapping[str, str]) -> str | None:
    """Return where it is noted which caches were made here; None when whoever brings the project could bring it."""
    place, home = state_home(environment), user_home(environment)
    if place is None or (is_inside(place, root) and not is_inside(home or "/", root)):
        return None
    return os.path.join(place, "maestro", "search")


def _note(folder: Folder, root: str, records: str) -> None:
    handle = open_private_folder(records)
    try:
        replace_file(handle, _name(root), _mark(folder), durable=False)
    finally:
        os.close(handle)
    if number := _number_of(folder):
        _looked_into[root] = number


def _is_made_here(folder: Folder, root: str, records: str) -> bool:
    """Tell whether all files have the mode that they get here, and the first one the numbers that it got."""
    for name in (FILE + end for end in _BESIDE):
        found = folder.status(name)
        if found is not None and not _is_private(found):
            return False
    with _looking:
        number = _number_of(folder)
        if number is not None and _looked_into.get(root) == number:
            return True
        try:
            handle = open_private_folder(records)
            try:
                is_ours = read_private(handle, _name(root)) == _mark(folder)
            finally:
                os.close(handle)
        except OSError:
            return False
        if is_ours and number is not None:
            _looked_into[root] = number
        return is_ours


def _number_of(folder: Folder) -> int | None:
    found = folder.status(FILE)
    return found.st_ino if found is not None and _is_private(found) else None


def _is_private(status: os.stat_result) -> bool:
    is_own = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and status.st_nlink == 1
    return is_own and not status.st_mode & 0o177


def _mark(folder: Folder) -> bytes:
    """Return what tells the file that was made here from every other; OSError when it is not private to us."""
    handle, _ = open_own_file(folder.descriptor, FILE, os.O_RDONLY)
    try:
        status, header = os.fstat(handle), os.read(handle, _HEADER_BYTES)
    finally:
        os.close(handle)
    if not _is_private(status):
        raise OSError(0, "not private")
    numbers = b"".join(header[start:end] for start, end in _NUMBERS)
    return b"%d %d %s\n" % (SCHEMA, status.st_ino, numbers.hex().encode())


def _name(root: str) -> str:
    return sha256(os.fsencode(root)).hexdigest()
