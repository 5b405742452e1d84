"""Databases that tools keep their histories in: read so that not a byte, nor a file beside them, is written."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from urllib.parse import quote

from maestro_state.errors import FileCorrupt, MaestroError
from maestro_state.histories.lines import open_history, stamped
from maestro_state.histories.values import Broken, Stamped, Step


def database(path: str) -> Stamped:
    """Return a database with what tells whether it has changed."""
    log = f"{path}-wal"
    return stamped(path, *([log] if os.path.exists(log) else []))


def is_database(path: str) -> bool:
    """Tell whether a file is one of SQLite's."""
    try:
        with open_history(path) as file:
            return file.read(16) == b"SQLite format 3\0"
    except (MaestroError, OSError):
        return False


@contextmanager
def reading(path: str) -> Iterator[sqlite3.Connection]:
    """Open a database to read from; FileCorrupt where it is none.

    SQLite may make files beside one that has a log, even for readers: a copy of such a one is read instead.
    """
    log = f"{path}-wal"
    try:
        if not (os.path.exists(log) and os.path.getsize(log)):
            with closing(_open(path)) as connection:
                yield connection
            return
        with tempfile.TemporaryDirectory(prefix="maestro-import-") as folder:
            copy = os.path.join(folder, "history.db")
            shutil.copyfile(log, f"{copy}-wal")  # the log first: what it lacks then is in the database
            shutil.copyfile(path, copy)
            with closing(_prepared(sqlite3.connect(copy))) as connection:
                yield connection
    except (sqlite3.Error, UnicodeDecodeError) as error:  # what SQLite says of a damage quotes it
        reason = str(error) if isinstance(error, sqlite3.Error) else "the database is damaged"
        raise FileCorrupt(f"{path} cannot be read: {reason}") from error


def _open(path: str) -> sqlite3.Connection:
    return _prepared(sqlite3.connect(f"file:{quote(path)}?mode=ro&immutable=1", uri=True))


def _prepared(connection: sqlite3.Connection) -> sqlite3.Connection:
    connection.row_factory = sqlite3.Row
    connection.text_factory = partial(str, encoding="utf-8", errors="replace")
    return connection


def until_damaged(steps: Iterable[Step]) -> Iterator[Step]:
    """Yield what a conversation tells, as far as its database can be read, and where that ends."""
    number = 1
    try:
        for step in steps:
            yield step
            number += 1
    except (sqlite3.Error, UnicodeDecodeError):
        yield Broken(number, "the database is damaged here")


def text_in(value: object) -> str | None:
    """Return a text; None where something else is in its place: SQLite keeps whatever it is given."""
    return value if isinstance(value, str) and value else None


def tables(connection: sqlite3.Connection) -> set[str]:
    """Return the names of the tables."""
    return {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
