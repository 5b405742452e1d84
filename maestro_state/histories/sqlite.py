"""Databases that tools keep their histories in: read so that not a byte, nor a file beside them, is written."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from urllib.parse import quote

from maestro_state.errors import FileCorrupt
from maestro_state.histories.lines import stamped
from maestro_state.histories.values import Stamped


def database(path: str) -> Stamped:
    """Return a database with what tells whether it has changed."""
    log = f"{path}-wal"
    return stamped(path, *([log] if os.path.exists(log) else []))


def is_database(path: str) -> bool:
    """Tell whether a file is one of SQLite's."""
    try:
        with open(path, "rb") as file:
            return file.read(16) == b"SQLite format 3\0"
    except OSError:
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
            with closing(sqlite3.connect(copy)) as connection:
                connection.row_factory = sqlite3.Row
                yield connection
    except sqlite3.Error as error:
        raise FileCorrupt(f"{path} cannot be read: {error}") from error


def _open(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(f"file:{quote(path)}?mode=ro&immutable=1", uri=True)
    connection.row_factory = sqlite3.Row
    return connection


def tables(connection: sqlite3.Connection) -> set[str]:
    """Return the names of the tables."""
    return {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
