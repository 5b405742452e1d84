"""Freezing what is over, whoever notices it first and however late: on the server, on disk, and in the index.

The server is asked first, by the later of its own clock and the record's. What it has let go of is frozen on disk.
"""

from __future__ import annotations

from contextlib import suppress

from maestro_state._sync.server import Server
from maestro_state.errors import ArchiveElsewhere, MaestroError, NotFound, Refused, SessionNotFound
from maestro_state.local.project import IndexRow
from maestro_state.mirror import expiry
from maestro_state.mirror.home import Home
from maestro_state.mirror.places import Places
from maestro_state.mirror.reader import ArchivedSession
from maestro_state.models.session import Session
from maestro_state.state.calls import checkpoints as archiving
from maestro_state.state.calls import claims, runs
from maestro_state.state.calls import index as index_ops
from maestro_state.state.calls import sessions as session_ops
from maestro_state.upkeep.archive_lock import once_unlocked
from maestro_state.upkeep.checkpoint import Checkpoints

#: Sessions that a list freezes, at most of each kind; the sweep does the rest.
NOTICED_MAX = 20


class Expiry:
    """Freezes sessions whose time is over."""

    def __init__(self, server: Server, places: Places) -> None:
        self._server = server
        self._places = places

    def freeze(self, session_id: str, *, by_record: bool = False) -> bool:
        """Freeze a session if its time is over, and have it on disk; tell whether it was.

        What could not be written the sweep writes. `by_record` alone, without what the server counted, only who goes on
        in a fork.
        """
        now_ms = self._server.fetch(archiving.read_time())
        try:
            word = self.freeze_live(session_id, now_ms, by_record=by_record)
            if word == "NOT_FOUND":
                return self.freeze_archived(session_id, now_ms) is not None
        except MaestroError:
            return False
        with suppress(MaestroError):  # a folder that cannot be reached from here: it is frozen all the same
            if word == "OK":
                Checkpoints(self._server, self._places).checkpoint(session_id)
        return word == "OK"

    def freeze_listed(self, over: list[str], kept: list[str]) -> bool:
        """Freeze some that a list shows, live ones and those that only the disk has; tell whether one was over."""
        frozen = False
        for session_id in over[:NOTICED_MAX]:
            frozen |= self.freeze(session_id)
        server_ms = self._server.fetch(archiving.read_time())
        for session_id in kept[:NOTICED_MAX]:
            with suppress(MaestroError):  # a list shows what there is; the sweep says what is wrong with it
                frozen |= self.freeze_archived(session_id, server_ms) is not None
        return frozen

    def freeze_live(self, session_id: str, now_ms: int, horizon_ms: int = 0, *, by_record: bool = False) -> str:
        """Freeze a session on the server if its time is over, or nearly; words: OK, ALIVE, BAD_STATE, NOT_FOUND."""
        terms = self._server.terms
        # Of the server's clock and ours the earlier one: set ahead by mistake, neither ends anything.
        now_ms = min(now_ms, self._server.now_ms())
        expiring = archiving.expire_session(terms, session_id, now_ms, horizon_ms, by_record=by_record)
        found = self._server.run(expiring)
        if found.word == "BAD_STATE" and self._have_ended(session_id):
            found = self._server.run(expiring)
        if found.summary:
            self._server.index(index_ops.entry_of(session_id, found.summary))
        return str(found.word)

    def _have_ended(self, session_id: str) -> bool:
        """End the runs whose owner is gone; tell whether there was one, and it was the last that kept the session."""
        terms, verdicts = self._server.terms, []
        try:
            for run_id in self._server.fetch(runs.read_open(terms, session_id)):
                call = claims.recover_run(terms, session_id, run_id, self._server.now_ms())
                verdict, summary = self._server.run(call)
                if summary:
                    self._server.index(index_ops.entry_of(session_id, summary))
                verdicts.append(verdict)
        except (NotFound, Refused):
            return False  # frozen or gone meanwhile
        return bool(verdicts) and not {"alive", "suspect"} & {*verdicts}

    def freeze_archived(self, session_id: str, server_ms: int) -> Session | None:
        """Freeze what only the disk has, if its time is over; of the two clocks the earlier one decides."""
        try:
            home, _ = self._places.find(session_id)
        except SessionNotFound:
            return None
        now_ms = min(server_ms, self._server.now_ms())
        if not expiry.is_over(ArchivedSession(home, session_id).record(), now_ms) or not self._is_ours(
            home, session_id
        ):
            return None
        if self._server.fetch(session_ops.has_session(self._server.terms, session_id)):
            return None
        frozen = once_unlocked(lambda: expiry.freeze(home, session_id, now_ms))
        if frozen and home.path == self._places.own.path:
            self._places.project.index_refresh(IndexRow.of(frozen))
        return frozen

    def _is_ours(self, home: Home, session_id: str) -> bool:
        """Tell whether this is where the session is archived: a clone of somebody's repository is not."""
        project = expiry.project_of(home, session_id)
        try:
            return project is not None and self._places.of(session_id, project).path == home.path
        except ArchiveElsewhere:
            return False
