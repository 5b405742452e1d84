"""RQ's worker without the keys that all of its workers on a server share.

RQ keeps the names of all queues, workers and groups in one set each, and one key that suspends every worker. On a
team's server any account that reaches them can stop everybody (`SET rq:queues x`), so none does: what is needed of
them is kept by namespace, the rest is left out.
"""

from __future__ import annotations

from datetime import UTC, datetime

from rq.registry import clean_registries
from rq.worker import SimpleWorker
from rq.worker_registration import WORKERS_BY_QUEUE_KEY, get_keys


class OwnRegistries(SimpleWorker):
    """A worker of one queue that touches keys of that queue only."""

    @property
    def redis_workers_keys(self) -> str:  # type: ignore[override]
        """Return the set of this queue's workers, in the place of the one of all workers."""
        return str(WORKERS_BY_QUEUE_KEY % self.queues[0].name)

    def check_for_suspension(self, burst: bool) -> None:
        """Never wait: the key that suspends is everybody's."""

    def run_maintenance_tasks(self) -> None:
        """Do RQ's upkeep but for groups, which are everybody's and which no job of ours is in."""
        self.clean_registries()

    def clean_registries(self) -> None:
        """Do what RQ does for its queues, one at a time among all workers."""
        for queue in self.queues:
            if queue.acquire_maintenance_lock():
                clean_registries(queue, self._exc_handlers)
                self._forget_lost_workers()
                queue.intermediate_queue.cleanup(self, queue)
                queue.release_maintenance_lock()  # type: ignore[no-untyped-call]
        self.last_cleaned_at = datetime.now(UTC)  # type: ignore[assignment]  # RQ says None and means a time

    def _forget_lost_workers(self) -> None:
        """Take workers out of the set whose own key has run out."""
        keys = sorted(get_keys(self.queues[0]))
        with self.connection.pipeline(transaction=False) as questions:
            for key in keys:
                questions.exists(key)
            found = questions.execute()
        lost = [key for key, is_there in zip(keys, found, strict=True) if not is_there]
        if lost:
            self.connection.srem(self.redis_workers_keys, *lost)
