"""Archiving a session that has ended: by a worker if one is there, else by whoever ended it.

A worker has everything loaded and may reach a team's disk; but nothing may depend on there being one. Whoever ended
the session waits a moment for it, then does the work itself: two at once do not collide, the second finds it done.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from maestro_state._sync.queue import Queue
from maestro_state._sync.server import Server
from maestro_state.errors import ArchiveElsewhere, MaestroError, SessionNotFound
from maestro_state.mirror.home import Home
from maestro_state.mirror.places import Places
from maestro_state.mirror.view import open_view
from maestro_state.state.calls import checkpoints as archiving
from maestro_state.state.calls.checkpoints import Progress
from maestro_state.state.scripts import Query
from maestro_state.upkeep.checkpoint import Checkpoints

#: Seconds a job may wait to be taken before its asker does the work; workers that are busy with runs take none.
UNTAKEN_S = 0.3
#: Seconds the worker that took it gets. One that died holds nothing: its lock goes with it.
TAKEN_S = 10.0
#: Seconds to wait for a worker where only a worker can reach the folder.
ELSEWHERE_S = 30.0

#: First and longest pause between two polls, in seconds.
_POLL_S = 0.002
_POLL_MAX_S = 0.05

#: Told what is being done, for people who wait.
Told = Callable[[str], None]


class Finalizer:
    """Has ended sessions archived."""

    def __init__(self, server: Server, places: Places, queue: Queue) -> None:
        self._server = server
        self._places = places
        self._queue = queue

    def hand_over(self, session_id: str) -> bool:
        """Leave a session to the workers; False when the queue cannot be reached: then the sweeper finds it."""
        try:
            self._queue.enqueue_finalization(session_id)
        except MaestroError:
            return False
        return True

    def finalize(self, session_id: str, told: Told | None = None) -> None:
        """Return when the archive of an ended session is verified.

        Where this checkout is the session's own it has a copy too, wherever else the worker wrote one. Raises
        ArchiveFailed when nobody can write it: the server keeps the session.
        """
        query = archiving.read_progress(self._server.terms, session_id)
        progress: Progress = self._server.fetch(query)
        home = self._reachable(session_id, progress)
        if self._has_workers() and self.hand_over(session_id):
            if told:
                told("a worker archives it")
            progress = self._wait(session_id, query, can_do_it=home is not None)
        if home is None:
            if not progress.is_done:
                raise _nobody(session_id, progress)
        elif not (progress.is_done and _holds(home, session_id, progress)):
            if told:
                told("archiving")
            Checkpoints(self._server, self._places).checkpoint(session_id)

    def _reachable(self, session_id: str, progress: Progress) -> Home | None:
        try:
            return self._places.of(session_id, progress.project)
        except ArchiveElsewhere:
            return None

    def _has_workers(self) -> bool:
        try:
            return self._queue.workers() > 0
        except MaestroError:
            return False  # no queue, or none that can be reached: nothing is lost by that

    def _wait(self, session_id: str, query: Query, *, can_do_it: bool) -> Progress:
        """Poll until it is archived, or waiting makes no more sense."""
        started, pause_s = time.monotonic(), _POLL_S
        while True:
            time.sleep(pause_s)
            progress: Progress = self._server.fetch(query)
            waited = time.monotonic() - started
            if progress.is_done or waited >= (TAKEN_S if can_do_it else ELSEWHERE_S):
                return progress
            if can_do_it and (progress.waits or (waited >= UNTAKEN_S and not self._is_under_way(session_id))):
                break
            pause_s = min(pause_s * 2, _POLL_MAX_S)
        last: Progress = self._server.fetch(query)  # it may just have been done
        return last

    def _is_under_way(self, session_id: str) -> bool:
        """Tell whether a worker is at it: not one that has not begun, nor one that has given up."""
        try:
            return self._queue.finalization_status(session_id) == "started"
        except MaestroError:
            return False


def _holds(home: Home, session_id: str, progress: Progress) -> bool:
    """Tell whether a home has everything of a session; one that the server let go of was on a disk before."""
    try:
        with open_view(home, session_id) as view:
            manifest = view.manifest
    except SessionNotFound:
        return progress.last_id is None
    return manifest is not None and progress.last_id in (None, manifest.last_id)


def _nobody(session_id: str, progress: Progress) -> ArchiveElsewhere:
    why = f" ({progress.waits})" if progress.waits else ""
    return ArchiveElsewhere(
        f"session {session_id} has ended, and no worker that can reach its folder has archived it yet{why}",
        hint="the server keeps it until one has: maestro worker or maestro sweep where its project is",
    )
