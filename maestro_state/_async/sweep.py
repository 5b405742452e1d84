"""One pass over what is due: sessions whose time is over, changes that are not on disk, what the index has lost.

Costs what there is to do, not how many sessions there are. One at a time across a team: whoever holds the lease, which
a holder that died loses by itself. Everything done here is safe to be done twice at once all the same.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from maestro_state._async.expiry import AsyncExpiry
from maestro_state._async.flush import AsyncFlush
from maestro_state._async.queue import AsyncQueue
from maestro_state._async.server import AsyncServer
from maestro_state.archive.places import Places
from maestro_state.connection import is_forbidden
from maestro_state.errors import ArchiveElsewhere, MaestroError, NotReplicated, ServerUnavailable, SessionNotFound
from maestro_state.names import is_session_id
from maestro_state.ops import archiving, leases
from maestro_state.ops import index as index_ops
from maestro_state.states import FROZEN, LIVE

#: Sessions looked at in one pass, at most of each kind; the next pass goes on.
BATCH = 5000
#: Keys of the server looked at in one pass for sessions the index has lost.
SCAN_COUNT = 500

#: Ends the runs whose owner is gone and returns their ids as `session/run`.
AsyncRecoverer = Callable[[AsyncServer], Any]


class Failure(msgspec.Struct, frozen=True):
    """A session, or the queue, that could not be looked after."""

    id: str
    reason: str


class SweepReport(msgspec.Struct, kw_only=True):
    """What a sweep did."""

    checkpointed: list[str] = []
    finalized: list[str] = []
    archived: list[str] = []
    recovered_runs: list[str] = []
    errors: list[Failure] = []
    waiting: list[str] = []  #: ended sessions left to a worker that can reach their folder
    repaired: list[str] = []  #: sessions put back into the index, or leftovers taken away
    busy: str | None = None  #: who is sweeping, when it is somebody else


class _LeaseLostError(Exception):
    """Somebody else took over, because we were silent for too long."""


class AsyncSweep:
    """The one who looks after everybody's sessions."""

    def __init__(
        self,
        server: AsyncServer,
        places: Places,
        *,
        horizon_ms: int,
        can_scan: bool,
        queue: AsyncQueue | None = None,
    ) -> None:
        """Take how long before its end a session is frozen, whether the server's keys can be walked through, and the
        queue of those who may reach a folder that this one cannot.
        """
        self._server = server
        self._queue = queue
        self._places = places
        self._flush = AsyncFlush(server, places)
        self._expiry = AsyncExpiry(server, places)
        self._horizon_ms = horizon_ms
        self._can_scan = can_scan
        self._holder = f"{os.uname().nodename}:{os.getpid()}:{secrets.token_hex(4)}"
        self._renewed_ms = 0

    async def sweep(self, recoverers: Sequence[AsyncRecoverer] = (), *, thorough: bool = False) -> SweepReport:
        """Do one pass; a report with `busy` when somebody else is at it.

        A `thorough` one looks at every session of the server for changes that the index has lost, as before a stop.
        """
        report = SweepReport()
        now_ms = await self._server.fetch(archiving.read_time())
        lease = await self._server.run(leases.take_lease(self._server.terms, leases.SWEEP, self._holder, now_ms))
        if lease.fence is None:
            report.busy = lease.holder
            return report
        self._renewed_ms = now_ms
        cursor = lease.cursor
        try:
            for recover in recoverers:
                report.recovered_runs += await recover(self._server)
            if self._can_scan:
                cursor = await self._repair_index(report, cursor, lease, thorough=thorough)
            await self._finish_due(report, lease)
            await self._write_dirty(report, lease)
            await self._finish_forgotten(report, lease)
            self._sweep_leftovers(report)
        except _LeaseLostError:
            report.busy = "somebody who took over"
            return report
        except BaseException:
            with suppress(ServerUnavailable):  # what went wrong is said; a lease that was not left runs out
                await self._leave(lease, cursor)
            raise
        await self._leave(lease, cursor)
        return report

    async def _leave(self, lease: leases.Lease, cursor: str) -> None:
        await self._server.run(leases.leave_lease(self._server.terms, leases.SWEEP, lease, cursor))

    def _sweep_leftovers(self, report: SweepReport) -> None:
        home = self._places.own
        try:
            report.repaired += home.sweep_leftovers()
        except MaestroError as error:  # a disk that is away must not keep the lease from being left
            report.errors.append(Failure(home.path, str(error)))

    async def _beat(self, lease: leases.Lease) -> int:
        """Return the server's time, and keep the lease."""
        now_ms: int = await self._server.fetch(archiving.read_time())
        if now_ms - self._renewed_ms > leases.LEASE_MS[leases.SWEEP] // 5:
            call = leases.take_lease(self._server.terms, leases.SWEEP, self._holder, now_ms, lease.fence or "0")
            if (await self._server.run(call)).fence is None:
                raise _LeaseLostError
            self._renewed_ms = now_ms
        return now_ms

    async def _finish_due(self, report: SweepReport, lease: leases.Lease) -> None:
        terms = self._server.terms
        until_ms = await self._beat(lease) + self._horizon_ms
        for session_id in await self._server.fetch(archiving.due_sessions(terms, until_ms, BATCH)):
            now_ms = await self._beat(lease)
            try:
                word = await self._expiry.freeze_live(session_id, now_ms, self._horizon_ms)
            except NotReplicated as error:  # frozen all the same; the next pass writes it
                report.errors.append(Failure(session_id, str(error)))
                continue
            if word == "NOT_FOUND":
                await self._freeze_archived(report, session_id, now_ms)
                await self._server.run(index_ops.forget_session(terms, session_id))
            elif word == "OK" and await self._written(report, session_id):
                report.finalized.append(session_id)

    async def _freeze_archived(self, report: SweepReport, session_id: str, now_ms: int) -> None:
        """Freeze a session that the server let go of before anybody came to freeze it there."""
        try:
            if await self._expiry.freeze_archived(session_id, now_ms):
                report.finalized.append(session_id)
        except ServerUnavailable:
            raise
        except MaestroError as error:
            report.errors.append(Failure(session_id, str(error)))

    async def _finish_forgotten(self, report: SweepReport, lease: leases.Lease) -> None:
        """Freeze what only this checkout remembers: its time was over while there was no server, or another one."""
        try:
            rows = [row.id for row in self._places.project.index() if row.state in LIVE]
        except MaestroError:
            return  # an index that cannot be read is told of by doctor
        if not rows:
            return
        known = await self._server.fetch(index_ops.known_sessions(self._server.terms, rows))
        for session_id in (one for one in rows if one not in known):
            await self._freeze_archived(report, session_id, await self._beat(lease))

    async def _write_dirty(self, report: SweepReport, lease: leases.Lease) -> None:
        terms = self._server.terms
        seen = {*report.finalized, *(failure.id for failure in report.errors)}
        for session_id in await self._server.fetch(archiving.dirty_sessions(terms, BATCH)):
            if session_id not in seen:
                await self._beat(lease)
                state = await self._written(report, session_id)
                if state:
                    (report.archived if state in FROZEN else report.checkpointed).append(session_id)

    async def _written(self, report: SweepReport, session_id: str) -> str | None:
        """Write one session to disk; return its state, or None with the reason in the report."""
        try:
            return (await self._flush.flush(session_id)).state
        except SessionNotFound:
            await self._server.run(index_ops.forget_session(self._server.terms, session_id))
        except NotReplicated as error:  # it is on disk; the others must be too, now more than ever
            report.errors.append(Failure(session_id, str(error)))
        except ServerUnavailable:
            raise
        except MaestroError as error:
            if not (isinstance(error, ArchiveElsewhere) and await self._left_to_others(report, session_id, error)):
                report.errors.append(Failure(session_id, str(error)))
        return None

    async def _left_to_others(self, report: SweepReport, session_id: str, error: ArchiveElsewhere) -> bool:
        """Leave an ended session to the workers; one that still changes is checkpointed where its project is."""
        terms = self._server.terms
        state = await self._server.connection.call("HGET", terms.keys.of_session(session_id, "session"), "state")
        if self._queue is None or state is None or state.decode() not in FROZEN:
            return False
        try:
            await self._queue.enqueue_finalization(session_id)
        except MaestroError:
            return False
        await self._server.run(archiving.defer_archive(terms, session_id, str(error)))
        report.waiting.append(session_id)
        return True

    async def _repair_index(self, report: SweepReport, cursor: str, lease: leases.Lease, *, thorough: bool) -> str:
        """Look at a few more sessions of the server, or at all of them; return where to go on."""
        cursor = await self._repair(report, "0" if thorough else cursor)
        while thorough and cursor != "0":
            await self._beat(lease)
            cursor = await self._repair(report, cursor)
        return cursor

    async def _repair(self, report: SweepReport, cursor: str) -> str:
        """Put sessions back that the index has lost, or whose changes it does not know; return where to go on.

        Whoever made a change indexes it, and may have been killed before that.
        """
        terms, call = self._server.terms, self._server.connection.call
        pattern = terms.keys.of_session("*", "session")
        try:
            cursor_reply, keys = await call("SCAN", cursor, "MATCH", pattern, "COUNT", SCAN_COUNT)
        except ServerUnavailable as error:
            if is_forbidden(error):
                return "0"  # a terminal's account: the next sweep of a worker's looks there
            raise
        found = [key.decode().rpartition("{")[2].rstrip("}") for key in keys if key.endswith(b"}")]
        ids = [session_id for session_id in found if is_session_id(session_id)]
        for session_id in await self._unknown(ids) if ids else []:
            summary = await self._server.fetch(index_ops.read_summary(terms, session_id))
            if summary:
                await self._server.run(index_ops.index_session(terms, index_ops.entry_of(session_id, summary)))
                report.repaired.append(session_id)
        return str(cursor_reply.decode() if isinstance(cursor_reply, bytes) else cursor_reply)

    async def _unknown(self, ids: list[str]) -> list[str]:
        """Return those of some sessions that the index does not have, or has as written when they are not."""
        terms = self._server.terms
        progress = [archiving.read_progress(terms, session_id) for session_id in ids]
        known, waiting, *found = await self._server.connection.calls(
            [
                ("HMGET", terms.keys.of_index("summaries"), *ids),
                ("ZMSCORE", terms.keys.of_index("dirty"), *ids),
                *(query.command for query in progress),
            ]
        )
        rows = zip(ids, known, waiting, progress, found, strict=True)
        return [
            session_id
            for session_id, row, since, query, reply in rows
            if row is None or (since is None and not query.read(reply).is_done)
        ]
