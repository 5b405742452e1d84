"""Following one run to its end, and seeing to it that it has one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

from maestro_state.clock import from_iso
from maestro_state.errors import NotFound, Refused, SessionNotFound
from maestro_state.live.claims import AsyncClaims
from maestro_state.live.records import AsyncRecords
from maestro_state.live.server import AsyncServer
from maestro_state.models.message import Event
from maestro_state.models.run import OPEN, Run
from maestro_state.models.worker import Waiting
from maestro_state.state.calls import events as event_ops
from maestro_state.state.calls import runs as ops

Events = list[Event]
Numbers = list[str]

#: How often a follower of a quiet run asks whether it is still being carried out, in milliseconds.
POLL_MS = 1_000


class AsyncRunFollower:
    """Follows runs, and recovers those whose worker is gone."""

    def __init__(self, server: AsyncServer, claims: AsyncClaims, sessions: AsyncRecords) -> None:
        self._server = server
        self._claims = claims
        self._sessions = sessions

    async def follow(self, session_id: str, run: Run, cursor: str | None) -> AsyncIterator[Event]:
        """Yield the events of a run until it has ended, from its start or after `cursor`."""
        after = cursor or f"{from_iso(run.created_at) - 1}"
        while True:
            page = await self._page(session_id, after)
            for event in page:
                after = event.id
                if event.data.get("run") == run.id:
                    yield event
                    if event.type == "run.finished":
                        return
                elif event.type == "session.aborted":
                    return
            if not page:
                if not await self._is_open(session_id, run.id):
                    if not await self._page(session_id, after, wait=False):
                        return
                    continue
                await self._recover(session_id, run.id)

    async def ends(self, session_id: str, run_ids: Sequence[str]) -> AsyncIterator[str]:
        """Yield which of these runs is over, each when it is."""
        # Before they are read: what ends after that comes after this event.
        try:
            after: str = await self._server.fetch(event_ops.last_id(self._server.terms, session_id))
        except NotFound:  # the server has let go of the session: everything in it is over
            for run_id in run_ids:
                yield run_id
            return
        waited, page = set(run_ids), Events()
        while waited:
            ended = {str(event.data.get("run")) for event in page if event.type == "run.finished"}
            # First, and while nothing happens, as when one is lost or the session is frozen, each is read.
            for run_id in sorted(waited & ended if page else waited):
                if await self._is_open(session_id, run_id):
                    await self._recover(session_id, run_id)
                else:
                    waited.remove(run_id)
                    yield run_id
            page = await self._page(session_id, after) if waited else page
            after = page[-1].id if page else after

    async def open_runs(self, session_id: str) -> Numbers:
        """Return the numbers of the runs that are not over; without one it is noticed whether the session is."""
        found: Numbers = []
        with suppress(SessionNotFound):  # unless the disk has it
            found = await self._server.fetch(ops.read_open(self._server.terms, session_id))
        if not found:
            await self._sessions.source(session_id)
        return found

    async def waiting(self, session_id: str, run_id: str) -> Waiting:
        """Return what a run that waits needs."""
        return await self._claims.waiting(session_id, run_id)

    async def _page(self, session_id: str, after: str, *, wait: bool = True) -> Events:
        terms, page = self._server.terms, ops.OUTPUT_PAGE
        command = event_ops.read_after(terms, session_id, after, POLL_MS if wait else None, page)
        if wait:
            reply = await self._server.connection.block(*command, block_ms=POLL_MS)
        else:
            reply = await self._server.connection.call(*command)
        return event_ops.merge(terms, session_id, reply, page)

    async def _is_open(self, session_id: str, run_id: str) -> bool:
        """Tell whether a run's record says that it is not over; as it is shown it may only seem so."""
        try:
            run: Run = await self._server.fetch(ops.read_run(self._server.terms, session_id, run_id))
        except NotFound:
            return False  # the server has let go of the session: everything in it is over
        return run.status in OPEN

    async def _recover(self, session_id: str, run_id: str) -> None:
        try:
            await self._claims.recover_run(session_id, run_id)
        except Refused:
            return  # the session was frozen meanwhile: the next poll shows it
