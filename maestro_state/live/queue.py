"""The queue workers wait on: on the state server, or on one of its own where that is set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from maestro_state.errors import ConfigError
from maestro_state.live.server import AsyncServer
from maestro_state.net import connect_async, parse_url
from maestro_state.state.calls import queue as queueing


class AsyncQueue:
    """Wakes workers, and tells how many there are."""

    def __init__(self, server: AsyncServer, queue_url: str | None, *, is_cluster: bool) -> None:
        self._server = server
        self._own: AsyncServer | None = None
        if queue_url:
            address = replace(parse_url(queue_url), setting="MAESTRO_QUEUE_URL")
            self._own = AsyncServer(connect_async(address), server.terms, server.now_ms)
        self._is_cluster = is_cluster

    async def enqueue(self, session_id: str, run_id: str, fence: int) -> bool:
        """Wake a worker for a run; False when its job waits there already."""
        call = queueing.enqueue_run(self._server.terms, session_id, run_id, fence, self._server.now_ms())
        added: bool = await self._queue.run(call)
        return added

    async def enqueue_finalization(self, session_id: str, attempt: int = 0) -> bool:
        """Wake a worker to archive a session that has ended; False when its job waits there already."""
        call = queueing.enqueue_finalization(self._server.terms, session_id, attempt, self._server.now_ms())
        added: bool = await self._queue.run(call)
        return added

    async def enqueue_sending(self, ref: str, token: str, attempt: int) -> None:
        """Wake a worker to send what it has archived under a reference."""
        await self._queue.run(queueing.enqueue_sending(self._server.terms, ref, token, attempt, self._server.now_ms()))

    async def withdraw_sending(self, token: str, attempt: int) -> None:
        """Take back a job of sending that no worker has taken."""
        await self._queue.run(queueing.withdraw_sending(self._server.terms, token, attempt))

    async def finalization_status(self, session_id: str, attempt: int = 0) -> str | None:
        """Return how far the job of archiving a session is, in RQ's words; None when it is gone."""
        terms = self._server.terms
        query = queueing.job_status(terms, queueing.finalization_id(terms, session_id, attempt))
        status: str | None = await self._queue.fetch(query)
        return status

    async def ahead(self, session_id: str, run_id: str, fence: int) -> int | None:
        """Count the jobs that are taken before a run's; None when it does not wait."""
        query = queueing.jobs_ahead(self._server.terms, session_id, run_id, fence)
        found: int | None = await self._queue.fetch(query)
        return found

    async def waiting(self) -> int:
        """Count the jobs that no worker has taken yet."""
        count: int = await self._queue.fetch(queueing.waiting_jobs(self._server.terms))
        return count

    async def workers(self) -> int:
        """Count the workers that listen now."""
        names = await self._queue.fetch(queueing.worker_names(self._server.terms))
        return sum(await self._queue.connection.calls([("EXISTS", name) for name in names]))

    async def has_worker_of(self, holders: Sequence[str]) -> bool:
        """Tell whether a worker lives that can get an environment from one of these."""
        names = await self._queue.fetch(queueing.worker_names(self._server.terms))
        theirs = [name for name in names if name.endswith(tuple(f"-{holder}".encode() for holder in holders))]
        return any(await self._queue.connection.calls([("EXISTS", name) for name in theirs]))

    @property
    def _queue(self) -> AsyncServer:
        if self._own is not None:
            return self._own
        if self._is_cluster:
            raise ConfigError(
                "runs need a queue, and RQ does not work on Redis Cluster",
                hint="set MAESTRO_QUEUE_URL to a plain or Sentinel server",
            )
        return self._server

    async def close(self) -> None:
        """Close the connection to the queue's own server."""
        if self._own is not None:
            await self._own.close()
