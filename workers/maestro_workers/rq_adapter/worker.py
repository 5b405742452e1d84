"""RQ's worker, made safe, and able to wait for a server that is away.

It runs jobs in its own process: a tool is a child process already, and a second fork would only cost time and hide
from the tool that its worker died. One run at a time; more at once are more workers (`maestro_workers.pool`).

SIGTERM and SIGINT let the run that is under way end, SIGTERM within the grace period; asked again, or by SIGQUIT, it
exits at once. SIGUSR1 stops one that has nothing to do.
"""

from __future__ import annotations

import re
import signal
import time
from contextlib import suppress
from copy import copy
from datetime import UTC, datetime
from functools import partial
from types import FrameType
from typing import Any

from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError
from rq import Queue
from rq.exceptions import StopRequested
from rq.job import Job
from rq.serializers import JSONSerializer
from rq.timeouts import BaseDeathPenalty

from maestro_state.errors import ConfigError
from maestro_state.local.logs import get_logger
from maestro_state.vocabulary import EXECUTE_RUN
from maestro_workers.heartbeat import Heartbeat
from maestro_workers.orphans import end_survivors
from maestro_workers.pool.channel import Channel
from maestro_workers.rq_adapter.client import Address, queue_client, stop_waiting
from maestro_workers.rq_adapter.job import SafeJob, SafeQueue, is_wrong_type, routed_queue
from maestro_workers.rq_adapter.registries import OwnRegistries
from maestro_workers.run import Workshop

#: Seconds a worker waits for a job before it looks after open runs again.
POLL_S = 1
#: Seconds after which a worker that says nothing more counts as gone.
ALIVE_S = 10
#: Seconds between two rounds of RQ's own upkeep.
UPKEEP_S = 60
#: Seconds RQ keeps a job as started without a heartbeat.
JOB_LEASE_S = 60

#: Names of queues are namespaces: no comma, blank or list that RQ could take for several.
_QUEUE_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)

_log = get_logger("maestro.worker")
_security = get_logger("maestro.security")


class _NoPenalty(BaseDeathPenalty):
    """RQ's timeout by SIGALRM would end the Python code and not the tool; a run has its own."""

    def setup_death_penalty(self) -> None:
        """Do nothing."""

    def cancel_death_penalty(self) -> None:
        """Do nothing."""


class RunWorker(OwnRegistries):
    """RQ's worker for runs."""

    job_class = SafeJob
    queue_class = SafeQueue
    death_penalty_class = _NoPenalty

    def __init__(
        self,
        queue_name: str,
        workshop: Workshop,
        address: Address,
        *,
        name: str,
        grace_s: float = 0.0,
        channel: Channel | None = None,
        routed: str | None = None,
    ) -> None:
        """Listen on one queue; with two, RQ loses the job of a worker that is killed between taking and starting it.

        With `routed`, a list of jobs for workers like this one, it waits there, and reads the queue now and then.
        """
        if not isinstance(queue_name, str) or not _QUEUE_NAME.fullmatch(queue_name):
            raise ConfigError(f"a worker listens on exactly one queue, and {queue_name!r} is not the name of one")
        client = queue_client(address)
        kind = SafeQueue if routed is None else routed_queue(routed)
        queue = kind(queue_name, connection=client, serializer=JSONSerializer, job_class=SafeJob)
        super().__init__(
            [queue],
            name=name,
            connection=client,
            job_class=SafeJob,
            queue_class=kind,
            serializer=JSONSerializer,
            log_job_description=False,
            maintenance_interval=UPKEEP_S,
            worker_ttl=ALIVE_S,
        )
        self._workshop = workshop
        self._tended_at = 0.0
        self._job: Job | None = None
        self._no_retry = queue_client(address, retries=False)
        self._heartbeat: Heartbeat | None = None
        self._stop_reason: str | None = None
        self._grace_s = grace_s
        self._ends_at: float | None = None
        self._channel = channel
        workshop.on_beat = self._beat

    def _set_ip_address(self, connection: Redis) -> None:
        """Name the connection, and have no address: RQ reads that from the list of all connections, which a worker's
        account may not see, and which redis-py cannot read where the path of the socket has a line break.
        """
        self.ip_address = "unknown"
        with suppress(ResponseError):
            connection.client_setname(self.name)

    @property
    def dequeue_timeout(self) -> int:
        """Wait a short time for jobs: between two waits, open runs are looked after."""
        return POLL_S

    def heartbeat(self, timeout: int | None = None, pipeline: Any = None) -> None:
        """Say that this worker lives, for a short time only: the count of workers is to be true."""
        timeout = min(timeout or ALIVE_S, ALIVE_S)
        if pipeline is not None:
            self._sign(timeout, pipeline)
            return
        # RQ asks twice, and the tool waits for both answers.
        with self.connection.pipeline(transaction=False) as both:
            self._sign(timeout, both)
            both.execute()

    def _sign(self, timeout: int, pipeline: Any) -> None:
        super().heartbeat(timeout, pipeline=pipeline)
        # RQ signs a worker in when it starts. One that was silent for a while, because its server was away or the
        # machine slept, was taken off the list by another's upkeep, and nobody would count it for the rest of its life.
        pipeline.sadd(self.redis_workers_keys, self.key)

    def get_heartbeat_ttl(self, job: Job) -> int:
        """Keep a job as started until the next heartbeat is long overdue."""
        del job
        return JOB_LEASE_S

    @property
    def should_run_maintenance_tasks(self) -> bool:
        """Come by on every turn; what is due is decided there."""
        return True

    def run_maintenance_tasks(self) -> None:
        """Look after the runs of lost workers, and now and then do RQ's own upkeep."""
        if self._stop_requested and self._job is None:
            raise StopRequested  # the one place between two jobs where no job can be in hand
        self.tend()
        if self.last_cleaned_at is None or OwnRegistries.should_run_maintenance_tasks.fget(self):
            self._upkeep()

    def _upkeep(self) -> None:
        """Do RQ's own upkeep; what an untrusted client wrote into its registries must not end every worker in turn."""
        try:
            super().run_maintenance_tasks()
        except (ResponseError, ValueError) as error:
            if isinstance(error, ResponseError) and not is_wrong_type(error):
                raise
            self.last_cleaned_at = datetime.now(UTC)  # type: ignore[assignment]  # RQ says None and means a time
            _security.error("upkeep_refused", reason=f"a key of RQ's is not what it should be ({type(error).__name__})")

    def tend(self) -> None:
        """End runs whose worker is gone; wake workers for those without a job."""
        now = time.monotonic()
        if now < self._tended_at + POLL_S / 2:
            return
        self._tended_at = now
        recovered = self._workshop.maestro.claims.recover()
        for session_id, run_id in recovered:
            _log.warning("run_recovered", session=session_id, run=run_id)
        if recovered:
            end_survivors()  # its worker and guard may both have been killed
        self._workshop.requeue.tend(self._workshop.maestro)

    def execute_job(self, job: Job, queue: Queue) -> None:
        """Carry out a run in this process."""
        self._job = job
        if self._channel is not None:
            self._channel.say_busy()
            if job.func_name == EXECUTE_RUN:
                self._channel.ask(*job.args)  # two names: checked when the job was read
        try:
            super().execute_job(job, queue)
        except (RedisConnectionError, RedisTimeoutError) as error:
            if not self._stop_requested:
                raise
            # The run's record is what counts, and it is on the state server.
            _log.warning("queue_not_told", job=job.id, reason=str(error))
            raise StopRequested from error
        finally:
            self._job = None
            self._end_heartbeat()
            if self._channel is not None:
                self._channel.say_free()

    def handle_execution_ended(self, job: Job, queue: Queue, heartbeat_ttl: int) -> None:
        """End the heartbeat first: one that came after RQ has cleaned up would bring the job's keys back."""
        self._end_heartbeat()
        if self._stop_requested:
            stop_waiting(self.connection)  # RQ would tell a queue that is away how the job ended, for ever
        super().handle_execution_ended(job, queue, heartbeat_ttl)

    def _beat(self) -> str | None:
        """Return why to stop, if told to; the first beat of a run starts the heartbeat that RQ hears."""
        # Not before: the guard may have to be forked anew until the tool is started, and then there must be no thread.
        if self._heartbeat is None and self._job is not None:
            # RQ's own heartbeat, with a client that fails where RQ's would wait for its server for ever.
            twin = copy(self)
            twin.connection = self._no_retry
            self._heartbeat = Heartbeat(partial(self._tell_rq, twin, self._job))
        if self._ends_at is not None and time.monotonic() >= self._ends_at:
            self._stop_now()
        return self._stop_reason

    def _tell_rq(self, twin: RunWorker, job: Job) -> None:
        """Give RQ its heartbeat, and look after others' runs whether that works or not."""
        if self._stop_reason is None:
            try:
                twin.maintain_heartbeats(job)
            finally:
                self.tend()

    def _end_heartbeat(self) -> None:
        if self._heartbeat is not None:
            self._heartbeat.end()
            self._heartbeat = None

    def subscribe(self) -> None:
        """Take no orders by publish: runs are canceled where they are recorded."""

    def unsubscribe(self) -> None:
        """Nothing was subscribed to."""

    def _install_signal_handlers(self) -> None:
        signal.signal(signal.SIGTERM, self._on_term)
        signal.signal(signal.SIGINT, self._on_interrupt)
        signal.signal(signal.SIGQUIT, self._on_quit)
        signal.signal(signal.SIGUSR1, self._on_retire)
        if self._channel is not None:
            self._channel.say_free()  # only now: one that is told to stop must hear it

    def _on_term(self, number: int, frame: FrameType | None) -> None:
        """Take no new run; the one that is under way gets the grace period. Asked again, stop now."""
        del number, frame
        # Noted first: the second request may interrupt this one as soon as the log tells of it.
        is_second, self._stop_requested = self._stop_requested, True
        if is_second or not self._workshop.is_at_work:
            self._stop_now()
        else:
            self._ends_at = time.monotonic() + self._grace_s
            _log.info("worker_stopping", grace_s=self._grace_s)
        self._stop()

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        """Stop after the run that is under way; asked again, now."""
        del number, frame
        if self._stop_requested:
            self._stop_now()
        self._stop()

    def _on_quit(self, number: int, frame: FrameType | None) -> None:
        """Stop now: the run that is under way ends, and says why."""
        del number, frame
        self._stop_now()
        self._stop()

    def _on_retire(self, number: int, frame: FrameType | None) -> None:
        """Stop when there is nothing to do: not in the middle of taking a job, which would then have to be found."""
        del number, frame
        self._stop_requested = True

    def _stop_now(self) -> None:
        self._stop_reason = "stopped"
        stop_waiting(self.connection)

    @property
    def is_stopping(self) -> bool:
        """Say whether this worker was told to stop."""
        return bool(self._stop_requested)

    def _stop(self) -> None:
        self._stop_requested = True
        if self._job is None:
            raise StopRequested

    def teardown(self) -> None:
        """Sign off if there is a server to tell."""
        stop_waiting(self.connection)
        with suppress(RedisConnectionError, RedisTimeoutError):
            super().teardown()  # type: ignore[no-untyped-call]
        self._no_retry.close()
        self._workshop.close()
