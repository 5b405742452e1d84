"""Opening the cache: the one that was made here by this user, or a new one.

A project may come with a file in its place, and SQLite obeys what it opens: the user's own state folder says which
file was made here, by its number and by two random numbers in its header, and nothing else is opened.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256

from maestro_state.errors import MaestroError
from maestro_state.fs.handles import Folder
from maestro_state.fs.opening import open_own_file, replace_file
from maestro_state.fs.private import is_inside, open_private_folder, read_private, state_home, user_home
from maestro_state.local.project import Project
from maestro_state.search.store import FILE, LOCK, TABLES, WAIT_S, Store, is_private, number_of

FOLDER = "cache"
_BESIDE = ("-wal", "-shm", "-journal")
#: All files of a cache.
FILES = (FILE, *(FILE + end for end in _BESIDE))
#: The number of this form; any other is made anew.
SCHEMA = 2

#: Seconds to wait for somebody else's change, none of which takes a tenth of that.
_BUSY_S = 60.0
#: What is removed is overwritten; no more pages are kept in memory than 32 MiB.
_PRAGMAS = ("trusted_schema = OFF", "synchronous = NORMAL", "cache_size = -32768", "secure_delete = ON")

#: Where in a database's header the two random numbers are: its user_version and its application_id.
_HEADER_BYTES, _NUMBERS = 100, ((60, 64), (68, 72))

#: Files that this process has looked into: closing a file makes SQLite lose its locks on it, so each is opened once.
_looked_into: dict[str, int] = {}
_looking = threading.Lock()


class NotOurs(Exception):
    """What is there was not made here, or is none of this form."""


def open_store(project: Project, environment: Mapping[str, str], *, anew: bool = False) -> Store:
    """Open the project's cache, made if there is none of ours, or told to; in memory where nothing can be written."""
    try:
        folder = project.folder(FOLDER, create=True)
    except (OSError, MaestroError):
        return in_memory()
    try:
        return Store(_opened(folder, project.path, environment, anew=anew), folder)
    except (OSError, MaestroError, sqlite3.OperationalError):
        folder.close()
        return in_memory()
    except BaseException:
        folder.close()
        raise


def in_memory() -> Store:
    """Make a cache that is nobody else's and gone with its process."""
    database = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    for table in TABLES:
        database.execute(table)
    return Store(database, None)


def _opened(folder: Folder, root: str, environment: Mapping[str, str], *, anew: bool) -> sqlite3.Connection:
    records = _records(root, environment)
    if not anew:
        with suppress(NotOurs):
            return _open_own(folder, root, records)
    with folder.locked(LOCK, wait_s=WAIT_S):
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
        if sorted(filter(None, found)) != sorted(TABLES):
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
    try:
        for pragma in _PRAGMAS:
            database.execute(f"PRAGMA {pragma}")
    except sqlite3.DatabaseError as error:
        database.close()
        raise (error if _is_busy(error) else NotOurs) from error
    return database


def _make(folder: Folder, root: str, records: str | None) -> sqlite3.Connection:
    """Make an empty cache; the lock is held. Those who have the old one open keep what they have."""
    _looked_into.pop(root, None)
    for name in FILES:
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
        for table in TABLES:
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
    if number := number_of(folder):
        _looked_into[root] = number


def _is_made_here(folder: Folder, root: str, records: str) -> bool:
    """Tell whether all files have the mode that they get here, and the first one the numbers that it got."""
    for name in FILES[1:]:
        found = folder.status(name)
        if found is not None and not is_private(found):
            return False
    with _looking:
        number = number_of(folder)
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


def _mark(folder: Folder) -> bytes:
    """Return what tells the file that was made here from every other; OSError when it is not private to us."""
    handle, _ = open_own_file(folder.descriptor, FILE, os.O_RDONLY)
    try:
        status, header = os.fstat(handle), os.read(handle, _HEADER_BYTES)
    finally:
        os.close(handle)
    if not is_private(status):
        raise OSError(0, "not private")
    numbers = b"".join(header[start:end] for start, end in _NUMBERS)
    return b"%d %d %s\n" % (SCHEMA, status.st_ino, numbers.hex().encode())


def _name(root: str) -> str:
    return sha256(os.fsencode(root)).hexdigest()
