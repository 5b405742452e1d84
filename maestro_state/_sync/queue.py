# Generated from maestro_state/live by `make generate`. Do not edit.
"""The queue workers wait on: on the state server, or on one of its own where that is set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from maestro_state.errors import ConfigError
from maestro_state._sync.server import Server
from maestro_state.net import connect, parse_url
from maestro_state.state.calls import queue as queueing


class Queue:
    """Wakes workers, and tells how many there are."""

    def __init__(self, server: Server, queue_url: str | None, *, is_cluster: bool) -> None:
        self._server = server
        self._own: Server | None = None
        if queue_url:
            address = replace(parse_url(queue_url), setting="MAESTRO_QUEUE_URL")
            self._own = Server(connect(address), server.terms, server.now_ms)
        self._is_cluster = is_cluster

    def enqueue(self, session_id: str, run_id: str, fence: int) -> bool:
        """Wake a worker for a run; False when its job waits there already."""
        call = queueing.enqueue_run(self._server.terms, session_id, run_id, fence, self._server.now_ms())
        added: bool = self._queue.run(call)
        return added

    def enqueue_finalization(self, session_id: str, attempt: int = 0) -> bool:
        """Wake a worker to archive a session that has ended; False when its job waits there already."""
        call = queueing.enqueue_finalization(self._server.terms, session_id, attempt, self._server.now_ms())
        added: bool = self._queue.run(call)
        return added

    def enqueue_sending(self, ref: str, token: str, attempt: int) -> None:
        """Wake a worker to send what it has archived under a reference."""
        self._queue.run(queueing.enqueue_sending(self._server.terms, ref, token, attempt, self._server.now_ms()))

    def withdraw_sending(self, token: str, attempt: int) -> None:
        """Take back a job of sending that no worker has taken."""
        self._queue.run(queueing.withdraw_sending(self._server.terms, token, attempt))

    def finalization_status(self, session_id: str, attempt: int = 0) -> str | None:
        """Return how far the job of archiving a session is, in RQ's words; None when it is gone."""
        terms = self._server.terms
        query = queueing.job_status(terms, queueing.finalization_id(terms, session_id, attempt))
        status: str | None = self._queue.fetch(query)
        return status

    def ahead(self, session_id: str, run_id: str, fence: int) -> int | None:
        """Count the jobs that are taken before a run's; None when it does not wait."""
        query = queueing.jobs_ahead(self._server.terms, session_id, run_id, fence)
        found: int | None = self._queue.fetch(query)
        return found

    def waiting(self) -> int:
        """Count the jobs that no worker has taken yet."""
        count: int = self._queue.fetch(queueing.waiting_jobs(self._server.terms))
        return count

    def workers(self) -> int:
        """Count the workers that listen now."""
        names = self._queue.fetch(queueing.worker_names(self._server.terms))
        return sum(self._queue.connection.calls([("EXISTS", name) for name in names]))

    def has_worker_of(self, holders: Sequence[str]) -> bool:
        """Tell whether a worker lives that can get an environment from one of these."""
        names = self._queue.fetch(queueing.worker_names(self._server.terms))
        theirs = [name for name in names if name.endswith(tuple(f"-{holder}".encode() for holder in holders))]
        return any(self._queue.connection.calls([("EXISTS", name) for name in theirs]))

    @property
    def _queue(self) -> Server:
        if self._own is not None:
            return self._own
        if self._is_cluster:
            raise ConfigError(
                "runs need a queue, and RQ does not work on Redis Cluster",
                hint="set MAESTRO_QUEUE_URL to a plain or Sentinel server",
            )
        return self._server

    def close(self) -> None:
        """Close the connection to the queue's own server."""
        if self._own is not None:
            self._own.close()
