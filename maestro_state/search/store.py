"""The cache: `.maestro/cache/search.db`, one row for everything that was said, found by its words.

A cache and never the truth: `opening` throws away what is damaged, of another form, or was not made here.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from typing import NamedTuple, Self

from maestro_state.fs.handles import Folder
from maestro_state.search.words import split

FILE = "search.db"
LOCK = "search.lock"
#: Seconds to wait for whoever changes the cache: what one holds it for takes less, unless it was stopped meanwhile.
WAIT_S = 20.0
#: Under which name it is noted when all archives were scanned.
SCAN = "scan"

TABLES = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID",
    """CREATE TABLE session (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, is_live INTEGER NOT NULL,
       is_whole INTEGER NOT NULL, stamp TEXT NOT NULL, seen TEXT NOT NULL)""",
    "CREATE INDEX session_live ON session (id) WHERE is_live",
    "CREATE INDEX session_damaged ON session (id) WHERE NOT is_whole",
    """CREATE TABLE entry (place INTEGER PRIMARY KEY, session INTEGER NOT NULL, kind TEXT NOT NULL,
       entry TEXT NOT NULL, role TEXT, said TEXT, content TEXT NOT NULL, parts TEXT)""",
    "CREATE INDEX entry_session ON entry (session)",
    """CREATE VIRTUAL TABLE words USING fts5 (content, parts, content='entry', content_rowid='place', prefix='2 3',
       tokenize='unicode61 remove_diacritics 2')""",
)

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
        self._number = number_of(folder) if folder else None

    @property
    def is_lasting(self) -> bool:
        """Tell whether others see it."""
        return self._folder is not None

    def is_current(self) -> bool:
        """Tell whether this is still what is in the file's place, and this process the one that opened it."""
        if self._process != os.getpid():
            return False
        return self._folder is None or (self._number is not None and number_of(self._folder) == self._number)

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Hold the cache against everybody else who changes it; they wait. TimeoutError where one does not let go."""
        if self._folder is None:
            yield
            return
        with self._folder.locked(LOCK, wait_s=WAIT_S):
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

    def forget(self, session_id: str) -> bool:
        """Remove a session; tell whether it was there."""
        found = self.database.execute("SELECT number FROM session WHERE id = ?", (session_id,)).fetchone()
        if found:
            self.clear(found[0])
            self.database.execute("DELETE FROM session WHERE number = ?", found)
        return bool(found)

    def erase(self, session_ids: Iterable[str]) -> None:
        """Remove sessions, and every word that only they had: for what was deleted, and must be found by nobody."""
        known = [session_id for session_id in session_ids if self.forget(session_id)]
        if known:
            # The index only notes that a row is gone; its words stay in the file until all are put in one place.
            self.optimize()

    def optimize(self) -> None:
        """Have all words in one place: takes a tenth of what reading them took."""
        self.database.execute("INSERT INTO words (words) VALUES ('optimize')")

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


def number_of(folder: Folder) -> int | None:
    found = folder.status(FILE)
    return found.st_ino if found is not None and is_private(found) else None


def is_private(status: os.stat_result) -> bool:
    is_own = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and status.st_nlink == 1
    return is_own and not status.st_mode & 0o177
