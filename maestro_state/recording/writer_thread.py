"""The thread that writes what recorders hand over, in their order; whoever records never waits for a server.

What cannot be written because the server is away is kept and tried again. What is refused for another reason, or does
not fit into memory, is left out, counted and logged: an agent does not fail because nobody takes notes.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from typing import Any
from weakref import WeakSet, WeakValueDictionary

from maestro_state.api.maestro import Maestro
from maestro_state.errors import ServerUnavailable
from maestro_state.models.claim import BEAT_MS
from maestro_state.net.fork import let_go_in_child
from maestro_state.recording.entries import Entry, Left, Said
from maestro_state.recording.session_writer import SessionWriter

log = logging.getLogger("maestro_state.record")

#: What is kept for a server that is away, in entries and in bytes of about their size.
KEPT, KEPT_BYTES = 10_000, 64_000_000
#: Messages written in one step.
_TOGETHER = 100
#: Seconds between two tries while the server is away, and that the end of a block or of the program waits for it.
_PAUSE_S, FLUSH_S = 0.5, 10.0
#: Seconds without anything to do after which the thread ends; the next entry begins another.
_IDLE_S = 10.0


class Writer:
    """One thread and what waits for it."""

    def __init__(self, open_maestro: Callable[[], Maestro], *, is_own: bool) -> None:
        """Begin nothing yet; a Maestro of its own is closed when there is nothing to do for long."""
        self._open_maestro, self._is_own = open_maestro, is_own
        self.forget()
        let_go_in_child(self)
        _writers.add(self)

    def forget(self) -> None:
        """Have nothing: what a forked child's parent has not written yet, the parent writes."""
        self._changed = threading.Condition()
        self._waiting: deque[Entry] = deque()
        self._bytes = 0
        self._given = self._done = 0
        self._is_away = False
        self._thread: threading.Thread | None = None
        self._under_way: list[Entry] = []
        self._apart = 0
        self._told: set[str] = set()
        self.lost = 0  #: entries that were left out

    def put(self, entry: Entry) -> None:
        """Hand an entry over."""
        if sys.is_finalizing():  # other threads stand still, maybe with our lock: nothing can be waited for
            self._leave_out(entry, "the program is over")
            return
        with self._changed:
            is_full = len(self._waiting) >= KEPT or self._bytes + entry.size > KEPT_BYTES
            if is_full and isinstance(entry, Said):
                self._leave_out(entry, "too many entries wait for a server that is away")
                return
            self._waiting.append(entry)
            self._bytes += entry.size
            self._given += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="maestro-record", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def flush(self, timeout_s: float | None = None, *, waits_for_server: bool = True) -> bool:
        """Wait until everything handed over so far is written, or not if the server is known to be away and that is
        not to be waited for; tell whether it is.
        """
        if sys.is_finalizing():
            return self._done >= self._given
        with self._changed:
            until = self._given

            def is_over() -> bool:
                return self._done >= until or (self._is_away and not waits_for_server)

            self._changed.wait_for(is_over, timeout_s)
            return self._done >= until

    @property
    def unwritten(self) -> int:
        """How many entries wait."""
        with self._changed:
            return self._given - self._done

    def _serve(self) -> None:
        sessions: SessionWriter | None = None
        beaten_s = time.monotonic()
        while (entries := self._next(sessions)) is not None:
            try:
                if sessions is None:
                    sessions = SessionWriter(self._open_maestro())
                if entries:
                    sessions.write(entries)
                if sessions.has_open_runs and time.monotonic() - beaten_s >= BEAT_MS / 1000:
                    beaten_s = time.monotonic()
                    sessions.beat()
            except ServerUnavailable as error:
                self._pause(error)
                continue
            except Exception as error:  # noqa: BLE001 - whatever it is, an agent must not fail of it
                if len(entries) > 1:  # which of them it is shows when each is written by itself
                    self._under_way, self._apart = [], len(entries)
                    continue
                with self._changed:
                    for entry in entries:
                        self._leave_out(entry, f"{type(error).__name__}: {error}")
            self._written(len(entries))
        if sessions is not None and self._is_own:
            sessions.close()

    def _next(self, sessions: SessionWriter | None) -> list[Entry] | None:
        """Return what is to be written in one step, the same again until it is; nothing when an open run needs a
        heartbeat first; None when there was nothing to do for long.
        """
        has_open_runs = sessions is not None and sessions.has_open_runs
        with self._changed:
            self._changed.wait_for(lambda: self._waiting, BEAT_MS / 1000 if has_open_runs else _IDLE_S)
            if not self._waiting and not has_open_runs:
                self._thread = None
                return None
            if not self._under_way:
                self._under_way = self._step(sessions)
            return self._under_way

    def _step(self, sessions: SessionWriter | None) -> list[Entry]:
        found: list[Entry] = []
        for entry in self._waiting:
            is_alone = bool(self._apart) or sessions is None or isinstance(entry, Left) or sessions.begins_run(entry)
            if found and (is_alone or entry.target is not found[0].target):
                break
            found.append(entry)
            if is_alone or len(found) >= _TOGETHER:
                break
        return found

    def _written(self, count: int) -> None:
        with self._changed:
            for _ in range(count):
                entry = self._waiting.popleft()
                self._bytes -= entry.size
            self._done += count
            self._apart = max(0, self._apart - count)
            self._under_way = []
            self._is_away = False
            self._changed.notify_all()

    def _pause(self, error: ServerUnavailable) -> None:
        with self._changed:
            if not self._is_away:
                log.warning("the server is away, entries are kept until it is back: %s", error)
            self._is_away = True
            self._changed.notify_all()
        time.sleep(_PAUSE_S)

    def _leave_out(self, entry: Entry, reason: str) -> None:
        self.lost += 1
        if reason not in self._told:
            self._told.add(reason)
            what = entry.role if isinstance(entry, Said) else "the end of a block"
            log.warning("not recorded (%s): %s", what, reason)


_writers: WeakSet[Writer] = WeakSet()
_shared: WeakValueDictionary[Hashable, Writer] = WeakValueDictionary()
_sharing = threading.Lock()


def writer_for(project: str | os.PathLike[str] | None, maestro: Any, settings: dict[str, Any]) -> Writer:
    """Return the writer of a project, or of a Maestro that was given: one however many recorders there are."""
    if maestro is not None:
        blocking = getattr(maestro, "blocking", maestro)
        return _one(id(blocking), lambda: Writer(lambda: blocking, is_own=False))
    place = os.path.abspath(project if project is not None else os.getcwd())
    name = (place, os.environ.get("MAESTRO_SESSION"), repr(sorted(settings.items())))
    return _one(name, lambda: Writer(lambda: Maestro(place, **settings), is_own=True))


def _one(name: Hashable, make: Callable[[], Writer]) -> Writer:
    with _sharing:
        found = _shared.get(name)
        if found is None:
            found = _shared[name] = make()
        return found


@atexit.register
def _finish() -> None:
    """Write what is left when the program ends; tell what could not be."""
    ends_at = time.monotonic() + FLUSH_S
    for writer in list(_writers):
        if not writer.flush(max(0.0, ends_at - time.monotonic()), waits_for_server=False):
            log.warning("%d entries were not recorded: the server is away", writer.unwritten)
