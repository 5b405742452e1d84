"""Keeping the cache up to date: archives that came, went or changed are read again, and no others.

An archive costs one stat of its manifest, and where there are thousands not even that at every search: one that came or
went shows in the number of folders beside it, and all are scanned again when that is a small part of the time since.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from maestro_state.errors import MaestroError, SessionNotFound
from maestro_state.fs.handles import Folder
from maestro_state.mirror.home import Home
from maestro_state.mirror.layouts.session import MANIFEST, SESSION
from maestro_state.models.names import is_session_id
from maestro_state.search.entries import Reading, Seen, Source, read_all
from maestro_state.search.store import SCAN, Entry, Known, Store

#: Told how many sessions of how many were read.
Progress = Callable[[int, int], None]
#: Opens an archived session.
Opener = Callable[[str], Source]

#: Sessions, and characters, whose entries are put into the cache together, in the order of time.
_BATCH, _BATCH_CHARACTERS = 500, 32 << 20

#: Sessions read at once after which the index is put in order: searches are up to twice as fast then.
_MANY = 1000

#: All archives are scanned when that takes less than this part of the time since the last scan, or next to nothing.
_SHARE, _NOTHING_NS = 50, 1_000_000
#: What other programs write beside session.json; they have no manifest that changes with everything.
_FOREIGN = (SESSION, "", "runs", "context/items", "messages.jsonl")


class Scan(NamedTuple):
    """When all archives were scanned, what that took, and what the folder of sessions said of itself."""

    at_ns: int = 0
    took_ns: int = 0
    folder: str = ""


class CatchingUp:
    """Brings the cache of one home up to date."""

    def __init__(self, store: Store, home: Home, opener: Opener) -> None:
        """Take the cache, the archives, and what opens one of them."""
        self._store = store
        self._home = home
        self._open = opener

    def archives(self, live: Collection[str], progress: Progress | None = None) -> None:
        """Read the archives that came or changed, but those of live sessions; forget what is gone."""
        if self._store.known_live().keys() <= set(live) and not self._is_due():
            return
        with self._store.changing():
            known, began = self._store.known(), time.time_ns()
            folder, stamps = self._stamps()
            took = time.time_ns() - began
            wanted = [one for one in stamps if one not in live and _differs(known.get(one), stamps[one])]
            gone = [one for one in known if one not in stamps and one not in live]
            self._forget(gone)
            self._read(wanted, stamps, known, progress)
            if len(wanted) >= _MANY:
                self._store.optimize()
            with self._store.transaction():
                self._store.note(SCAN, f"{began} {took} {folder}")

    def _is_due(self) -> bool:
        noted = self._store.get(SCAN).split(" ", 2)
        scan = Scan(int(noted[0]), int(noted[1]), noted[2]) if len(noted) == 3 else Scan()
        since = time.time_ns() - scan.at_ns
        if scan.took_ns < _NOTHING_NS or since < 0 or since > scan.took_ns * _SHARE:
            return True
        try:
            with self._home.sessions() as folder:
                return _folder_stamp(folder) != scan.folder
        except FileNotFoundError:
            return True

    def _stamps(self) -> tuple[str, dict[str, str]]:
        """Stat every archive."""
        try:
            with self._home.sessions() as folder:
                at = _folder_stamp(folder)
                ids = filter(is_session_id, folder.name_set())
                return at, {one: stamp for one in ids if (stamp := _archive_stamp(folder, one))}
        except FileNotFoundError:
            return "", {}

    def _forget(self, gone: list[str]) -> None:
        if gone:
            with self._store.transaction():
                self._store.erase(gone)
            self._store.shed()

    def _read(
        self, wanted: list[str], stamps: dict[str, str], known: dict[str, Known], progress: Progress | None
    ) -> None:
        done = 0
        for batch in self._batches(wanted):
            with self._store.transaction():
                rows: list[tuple[int, Entry]] = []
                for session_id, reading in batch:
                    if session_id in known:
                        self._store.clear(known[session_id].number)
                    is_whole = not reading.unreadable
                    number = self._store.put(session_id, is_live=False, is_whole=is_whole, stamp=stamps[session_id])
                    rows += ((number, entry) for entry in reading.entries)
                # The index writes what it has whenever a place comes before the last one.
                rows.sort(key=lambda row: row[1].ms)
                self._store.add(rows)
            done += len(batch)
            if progress:
                progress(done, len(wanted))

    def _batches(self, wanted: list[str]) -> Iterator[list[tuple[str, Reading]]]:
        batch: list[tuple[str, Reading]] = []
        room = _BATCH_CHARACTERS
        for session_id in wanted:
            try:
                reading = read_all(self._open(session_id))
            except SessionNotFound:
                continue  # gone just now
            except (MaestroError, OSError):
                # Not tried again before it changes; named by every search.
                reading = Reading([], Seen(), [""])
            batch.append((session_id, reading))
            room -= sum(len(row.content) for row in reading.entries)
            if len(batch) >= _BATCH or room < 0:
                yield batch
                batch, room = [], _BATCH_CHARACTERS
        if batch:
            yield batch


def _differs(known: Known | None, stamp: str) -> bool:
    return known is None or known.is_live or known.stamp != stamp


def _stamp(status: os.stat_result) -> str:
    return f"{status.st_mtime_ns} {status.st_size} {status.st_ino}"


def _archive_stamp(folder: Folder, session_id: str) -> str:
    """Return what tells an archive from its successor: its manifest's stamp, or those of another program's files."""
    try:
        return _stamp(os.stat(f"{session_id}/{MANIFEST}", dir_fd=folder.descriptor, follow_symlinks=False))
    except OSError:
        found = []
        for name in _FOREIGN:
            try:
                found.append(_stamp(os.stat(f"{session_id}/{name}", dir_fd=folder.descriptor, follow_symlinks=False)))
            except OSError:
                found.append("-")
        return "" if set(found) == {"-"} else ",".join(found)


def _folder_stamp(folder: Folder) -> str:
    """Return how many folders there are in the folder of sessions; where that is not counted, when it changed."""
    status = os.fstat(folder.descriptor)
    return str(status.st_nlink if status.st_nlink > 1 else status.st_mtime_ns)
