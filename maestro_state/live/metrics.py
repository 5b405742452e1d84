"""Metrics: how a namespace stands, and what was counted in it. Asking costs what changed since, not what there is."""

from __future__ import annotations

from typing import Any

from maestro_state.errors import ConfigError, DamagedRecord, NotFound
from maestro_state.live.queue import AsyncQueue
from maestro_state.live.server import AsyncServer
from maestro_state.models.metrics import MetricValues
from maestro_state.state.calls import checkpoints, leases
from maestro_state.state.calls import ledger as ledger_ops
from maestro_state.state.calls import metrics as ops
from maestro_state.state.calls import runs as run_ops
from maestro_state.state.calls.claims import read_status
from maestro_state.state.calls.index import recount_states, running_sessions
from maestro_state.state.scripts import Query


class AsyncMetrics:
    """What `/metrics` tells."""

    def __init__(self, server: AsyncServer, queue: AsyncQueue) -> None:
        """Take the server, and the queue of its workers."""
        self._server = server
        self._queue = queue

    async def read(self) -> MetricValues:
        """Read all of them."""
        terms, now_ms = self._server.terms, self._server.now_ms()
        shards = len(terms.keys.shards)
        *of_shards, damaged, counters, schedule, (told, until_ms) = await self._fetch(
            [
                *ops.count_states(terms),
                *checkpoints.count_dirty(terms)[:shards],
                *ops.oldest_dirty(terms),
                ops.count_damaged(terms),
                ledger_ops.read_counters(terms),
                leases.read_lease(terms, leases.SCHEDULE),
                ops.read_tally(terms),
            ]
        )
        states, dirty = ops.all_states(of_shards[:shards]), sum(of_shards[shards : 2 * shards])
        oldest = min((one for one in of_shards[2 * shards :] if one is not None), default=None)
        workers, waiting = await self._helpers()
        return MetricValues(
            sessions=states,
            messages=await self._messages(told, until_ms, now_ms),
            counters=counters,
            unarchived_s=0.0 if oldest is None else max(0, now_ms - oldest) / 1000,
            dirty=dirty,
            swept_s=schedule.swept_at / 1000 if schedule.swept_at else None,
            damaged=damaged,
            workers=workers,
            queue_length=waiting,
        )

    async def _fetch(self, queries: list[Query]) -> list[Any]:
        """Read everything at once; each apart where one is damaged, and what can be counted anew is."""
        try:
            return await self._server.fetch_all(queries)
        except DamagedRecord:
            terms = self._server.terms
            await self._server.run_all([*recount_states(terms), ops.tally_messages(terms, 0, 0)])
            return [await self._server.fetch(query) for query in queries]

    async def _helpers(self) -> tuple[int, int]:
        """Return how many workers listen, and how much waits for one: jobs, or runs where no worker there fits them,
        for which no job waits anywhere. Those are what a worker is started for.
        """
        try:
            workers, jobs = await self._queue.workers(), await self._queue.waiting()
        except ConfigError:
            return 0, 0  # a cluster without a queue: nobody works there, and nothing waits
        return workers, max(jobs, await self._pending())

    async def _pending(self) -> int:
        """Count the runs that no worker has begun; costs what there are of sessions with open runs."""
        terms = self._server.terms
        found = await self._server.fetch_all(running_sessions(terms))
        ids = [*dict.fromkeys(one for part in found for one in part)]
        opened = await self._readable([run_ops.read_open(terms, one) for one in ids])
        runs = [(one, run_id) for one, numbers in zip(ids, opened, strict=True) for run_id in numbers or ()]
        return (await self._readable([read_status(terms, *run) for run in runs])).count("pending")

    async def _readable(self, queries: list[Query]) -> list[Any]:
        """Read everything at once; each apart where one is gone or damaged, which is None then."""
        try:
            return await self._server.fetch_all(queries)
        except (DamagedRecord, NotFound):
            return [await self._or_none(query) for query in queries]

    async def _or_none(self, query: Query) -> Any:
        try:
            return await self._server.fetch(query)
        except (DamagedRecord, NotFound):
            return None

    async def _messages(self, told: int, until_ms: int, now_ms: int) -> int:
        """Add the messages of sessions that were active since this was last asked: they are not counted when they are
        added, which is done by the thousand and must stay one call.
        """
        terms = self._server.terms
        since_ms = max(0, until_ms - ops.OVERLAP_MS)
        ids, last_ms = ops.oldest_of(await self._server.fetch_all(ops.active_sessions(terms, since_ms)))
        if not ids:
            return told
        new = sum(await self._server.run_all([ops.tell_messages(terms, session_id) for session_id in ids]))
        # With more to come, the next time goes on behind the last of these.
        until_ms = now_ms if len(ids) < ops.TOLD_MAX else last_ms + ops.OVERLAP_MS
        total: int = await self._server.run(ops.tally_messages(terms, new, until_ms))
        return total
