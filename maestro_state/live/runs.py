"""Runs that were asked for: read, list, follow to the end, cancel. Starting one is the room's above."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from maestro_state.errors import NotFound, NotReplicated, Refused, RunIsOver, RunNotFound, WorkFailed
from maestro_state.live.queue import AsyncQueue
from maestro_state.live.records import AsyncRecords
from maestro_state.live.server import AsyncServer
from maestro_state.models.message import Event
from maestro_state.models.run import Run, SentItem
from maestro_state.state.calls import contents as contents_ops
from maestro_state.state.calls import runs as ops

if TYPE_CHECKING:
    from maestro_state.live.run_following import AsyncRunFollower

#: What `list` returns; inside the class, `list` is the verb.
RunList = list[Run]
Events = list[Event]
Sent = list[SentItem]


class AsyncLiveRuns:
    """The runs of a session, from the side that asked for them."""

    def __init__(self, server: AsyncServer, sessions: AsyncRecords, queue: AsyncQueue, max_output_bytes: int) -> None:
        self._server = server
        self._sessions = sessions
        self._queue = queue
        self._max_output_bytes = max_output_bytes

    @cached_property
    def _follower(self) -> AsyncRunFollower:
        from maestro_state.live.claims import AsyncClaims
        from maestro_state.live.run_following import AsyncRunFollower

        return AsyncRunFollower(self._server, AsyncClaims(self._server, self._queue), self._sessions)

    async def list(self, ref: str | None = None) -> RunList:
        """List every run, oldest first."""
        session_id = await self._sessions.resolve(ref)
        query = contents_ops.read_shown_runs(self._server.terms, session_id, self._server.now_ms())
        found: RunList = await self._server.fetch_shown(query)
        # Without runs it has none, is only on disk, or is not there.
        return found or await (await self._sessions.source(session_id)).runs()

    async def read(self, run_id: str = "last", ref: str | None = None) -> Run:
        """Return one run; `last` is the newest successful one with output, else the newest one.

        One whose owner's heartbeat has stopped is shown as what it will be found to be, not as running.
        """
        session_id = await self._sessions.resolve(ref)
        number = await self._last(session_id) if run_id == "last" else ops.check_run_id(run_id)
        query = ops.read_shown_run(self._server.terms, session_id, number, self._server.now_ms())
        try:
            found: Run = await self._server.fetch_shown(query)
        except NotFound:
            found = await self._archived_run(session_id, number)
        return found

    async def _archived_run(self, session_id: str, number: str) -> Run:
        source = await self._sessions.source(session_id)
        for run in await source.runs() if source.archived else []:
            if run.id == number:
                return run
        raise RunNotFound(session_id, number)

    async def _last(self, session_id: str) -> str:
        last = await self._server.fetch(ops.read_last_output(self._server.terms, session_id))
        if last is None:
            last = await (await self._sessions.source(session_id)).last_output()
        if last is not None:
            return str(last["run_id"])
        found = [run for run in await self.list(session_id) if run.status != "dry"]
        if not found:
            raise RunNotFound(session_id, "last")
        return found[-1].id

    async def prompt(self, run: Run, ref: str | None = None) -> bytes:
        """Return the prompt of a run, byte for byte."""
        return await (await self._sessions.source(ref)).prompt(run)

    async def sent(self, run_id: str, ref: str | None = None) -> Sent:
        """Return what a run was sent of the context: ids and digests."""
        return await (await self._sessions.source(ref)).sent_context(ops.check_run_id(run_id))

    async def activity(self, run_id: str, ref: str | None = None) -> Events:
        """Return what a run's agent did so far: calls of its tools, files it changed, tries, refusals."""
        return await (await self._sessions.source(ref)).activity(ops.check_run_id(run_id))

    async def chunks(self, run_id: str, ref: str | None = None) -> AsyncIterator[bytes]:
        """Yield what a run printed so far, in pieces that fit into memory whatever its size."""
        number = ops.check_run_id(run_id)
        source = await self._sessions.source(ref)
        async for piece in source.output(number):
            yield piece

    async def output(self, run_id: str, ref: str | None = None) -> bytes:
        """Return what a run printed so far, byte for byte; refuse more than a run may print."""
        parts, left = list[bytes](), self._max_output_bytes
        async for chunk in self.chunks(run_id, ref):
            parts.append(chunk)
            left -= len(chunk)
            if left < 0:
                raise WorkFailed(
                    f"the output of run {run_id} has more than {self._max_output_bytes} bytes",
                    hint=f"maestro show {run_id} prints it piece by piece",
                )
        return b"".join(parts)

    async def follow(self, run: Run, ref: str | None = None, *, cursor: str | None = None) -> AsyncIterator[Event]:
        """Yield the events of a run until it has ended, from its start or after `cursor`.

        Whoever follows also sees to it that a run whose worker is gone is ended, and one that waits has a job.
        """
        session_id = await self._sessions.resolve(ref)
        async for event in self._follower.follow(session_id, run, cursor):
            yield event

    async def wait(self, run: Run, ref: str | None = None) -> Run:
        """Return a run when it has ended."""
        session_id = await self._sessions.resolve(ref)
        async for _ in self.follow(run, session_id):
            pass
        return await self.read(run.id, session_id)

    async def wait_each(self, run_ids: Sequence[str] = (), ref: str | None = None) -> AsyncIterator[Run]:
        """Yield each of these runs when it is over; without names, of those open now. RunNotFound before any wait."""
        session_id = await self._sessions.resolve(ref)
        named = run_ids or await self._follower.open_runs(session_id)
        numbers = [(await self.read(number, session_id)).id for number in named]
        async for number in self._follower.ends(session_id, numbers):
            yield await self.read(number, session_id)

    async def wait_all(self, run_ids: Sequence[str] = (), ref: str | None = None) -> RunList:
        """Return these runs when all of them are over; without names, those open now."""
        return [run async for run in self.wait_each(run_ids, ref)]

    async def cancel(self, run_id: str | None = None, ref: str | None = None) -> Run:
        """Cancel a run (default: the newest open one); a running one ends as soon as its worker hears of it."""
        session_id = await self._sessions.resolve(ref)
        if run_id is None or run_id == "last":
            open_runs = await self._follower.open_runs(session_id)
            if not open_runs:
                raise Refused(f"session {session_id} has no open run to cancel", hint="maestro runs")
            number = max(open_runs, key=int)
        else:
            number = ops.check_run_id(run_id)
        call = ops.cancel_run(self._server.terms, self._server.stamp(), session_id, number)
        await self._server.change(session_id, call)
        return await self.read(number, session_id)

    async def settle(self, ref: str | None = None, *, cancel: bool = False) -> RunList:
        """Wait until no run of a session is open, canceling them if told; returns those that were."""
        session_id = await self._sessions.resolve(ref)
        ended: RunList = []
        while open_runs := await self._follower.open_runs(session_id):
            if cancel:
                for number in open_runs:
                    await self._cancel_quietly(session_id, number)
            ended.append(await self.wait(await self.read(open_runs[0], session_id), session_id))
        return ended

    async def _cancel_quietly(self, session_id: str, number: str) -> None:
        try:
            await self.cancel(number, session_id)
        except (RunIsOver, NotReplicated):
            return  # it ended by itself meanwhile; or the freeze that follows says that replicas are missing

    async def ahead(self, run_id: str, ref: str | None = None) -> int | None:
        """Count what is taken before a run that waits for a free worker; None for one that does not wait."""
        session_id = await self._sessions.resolve(ref)
        return await self._queue.ahead(await self._follower.waiting(session_id, ops.check_run_id(run_id)))

    async def waits_for(self, run_id: str, ref: str | None = None) -> str | None:
        """Say what a run waits for that no worker has which is there; None while one of them can carry it out."""
        present = await self._queue.present()
        if not present:
            return None
        from maestro_state.tools.worker_matching import queues_for, waits_for

        session_id = await self._sessions.resolve(ref)
        needs = (await self._follower.waiting(session_id, ops.check_run_id(run_id))).needs
        return None if needs.holders or queues_for(needs, present) else waits_for(needs)

    async def workers(self) -> int:
        """Count the workers that listen for runs now."""
        return await self._queue.workers()
