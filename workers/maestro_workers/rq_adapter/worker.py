"""The worker: RQ's, made safe and patient. `python -m maestro_workers.rq_adapter.worker --project ROOT`.

It runs jobs in its own process: a tool is a child process already, and a second fork would only cost time and hide
from the tool that its worker died. One run at a time; more at once are more workers (`maestro_workers.pool`).

SIGTERM and SIGINT let the run that is under way end, SIGTERM within the grace period; asked again, or by SIGQUIT, it
leaves at once. SIGUSR1 lets one go that has nothing to do.
"""

from __future__ import annotations

import argparse
import os
import re
import secrets
import signal
import socket
import sys
import time
import warnings
from collections.abc import Sequence
from contextlib import suppress
from copy import copy
from datetime import UTC, datetime
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoPermissionError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError
from rq import Queue
from rq.exceptions import StopRequested
from rq.job import Job
from rq.serializers import JSONSerializer
from rq.timeouts import BaseDeathPenalty

from maestro_state.errors import ConfigError, MaestroError, ServerUnavailable
from maestro_state.fs.kernel import keep_memory, keep_private
from maestro_state.local.embedded.paths import socket_address
from maestro_state.local.logs import configure_logs, get_logger
from maestro_state.net.queue_client import queue_client, stop_waiting
from maestro_state.net.url import Address, parse_url
from maestro_state.state.calls.queue import EXECUTE_RUN
from maestro_workers import jobs
from maestro_workers.guard import Guard
from maestro_workers.heartbeat import Signs
from maestro_workers.rq_adapter.job import SafeJob, SafeQueue, is_wrong_type
from maestro_workers.rq_adapter.registries import OwnRegistries
from maestro_workers.run import Workshop
from maestro_workers.stack.channel import Channel
from maestro_workers.stack.usage import SERVICE_CLIENT
from maestro_workers.survivors import end_survivors

if TYPE_CHECKING:
    from maestro_state.local.settings import Settings

#: Seconds a worker waits for a job before it looks after open runs again.
LOOK_S = 1
#: Seconds after which a worker that says nothing more counts as gone.
ALIVE_S = 10
#: Bytes of freed memory that a worker keeps: the pieces of a fast run's output come and go by the megabyte.
KEPT_BYTES = 32 << 20
#: Seconds between two rounds of RQ's own upkeep.
UPKEEP_S = 60
#: Seconds RQ keeps a job as started without a sign of life.
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
    ) -> None:
        """Listen on one queue. With two, RQ loses the job of a worker that is killed between taking and starting it."""
        if not isinstance(queue_name, str) or not _QUEUE_NAME.fullmatch(queue_name):
            raise ConfigError(f"a worker listens on exactly one queue, and {queue_name!r} is not the name of one")
        client = queue_client(address)
        queue = SafeQueue(queue_name, connection=client, serializer=JSONSerializer, job_class=SafeJob)
        with warnings.catch_warnings():
            # A worker's account may not list everybody's connections, which RQ would read its own address from.
            warnings.filterwarnings("ignore", "CLIENT LIST command not supported")
            super().__init__(
                [queue],
                name=name,
                connection=client,
                job_class=SafeJob,
                queue_class=SafeQueue,
                serializer=JSONSerializer,
                log_job_description=False,
                maintenance_interval=UPKEEP_S,
                worker_ttl=ALIVE_S,
            )
        self._workshop = workshop
        self._tended_at = 0.0
        self._job: Job | None = None
        self._no_retry = queue_client(address, retries=False)
        self._signs: Signs | None = None
        self._leaving: str | None = None
        self._grace_s = grace_s
        self._ends_at: float | None = None
        self._channel = channel
        workshop.on_beat = self._beat

    @property
    def dequeue_timeout(self) -> int:
        """Wait a short time for jobs: between two waits, open runs are looked after."""
        return LOOK_S

    def heartbeat(self, timeout: int | None = None, pipeline: Any = None) -> None:
        """Say that this worker lives, for a short time only: the count of workers is to be true."""
        timeout = min(timeout or ALIVE_S, ALIVE_S)
        if pipeline is not None:
            super().heartbeat(timeout, pipeline=pipeline)
            return
        # RQ asks twice, and the tool waits for both answers.
        with self.connection.pipeline(transaction=False) as both:
            super().heartbeat(timeout, pipeline=both)
            both.execute()

    def get_heartbeat_ttl(self, job: Job) -> int:
        """Keep a job as started until the next sign of life is long overdue."""
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
        """Do RQ's own upkeep; what a stranger wrote into its registries must not end every worker in turn."""
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
        if now < self._tended_at + LOOK_S / 2:
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
            self._end_signs()
            if self._channel is not None:
                self._channel.say_free()

    def handle_execution_ended(self, job: Job, queue: Queue, heartbeat_ttl: int) -> None:
        """End the signs first: one that came after RQ has cleaned up would bring the job's keys back."""
        self._end_signs()
        if self._stop_requested:
            stop_waiting(self.connection)  # RQ would tell a queue that is away how the job ended, for ever
        super().handle_execution_ended(job, queue, heartbeat_ttl)

    def _beat(self) -> str | None:
        """Return why to stop, if told to; the first beat of a run starts its signs."""
        # Not before: the guard may have to be forked anew until the tool is started, and then there must be no thread.
        if self._signs is None and self._job is not None:
            # RQ's own way to give a sign, with a client that fails where RQ's would wait for its server for ever.
            twin = copy(self)
            twin.connection = self._no_retry
            self._signs = Signs(partial(self._sign, twin, self._job))
        if self._ends_at is not None and time.monotonic() >= self._ends_at:
            self._leave_now()
        return self._leaving

    def _sign(self, twin: RunWorker, job: Job) -> None:
        """Give RQ a sign of life, and look after others' runs whether that works or not."""
        if self._leaving is None:
            try:
                twin.maintain_heartbeats(job)
            finally:
                self.tend()

    def _end_signs(self) -> None:
        if self._signs is not None:
            self._signs.end()
            self._signs = None

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
            self._channel.say_free()  # only now: one that is let go must hear it

    def _on_term(self, number: int, frame: FrameType | None) -> None:
        """Take no new run; the one that is under way gets the grace period. Asked again, leave now."""
        del number, frame
        if self._stop_requested or not self._workshop.is_at_work:
            self._leave_now()
        else:
            _log.info("worker_leaving", grace_s=self._grace_s)
            self._ends_at = time.monotonic() + self._grace_s
        self._leave()

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        """Leave after the run that is under way; asked again, leave now."""
        del number, frame
        if self._stop_requested:
            self._leave_now()
        self._leave()

    def _on_quit(self, number: int, frame: FrameType | None) -> None:
        """Leave now: the run that is under way ends, and says why."""
        del number, frame
        self._leave_now()
        self._leave()

    def _on_retire(self, number: int, frame: FrameType | None) -> None:
        """Leave when there is nothing to do: not in the middle of taking a job, which would then have to be found."""
        del number, frame
        self._stop_requested = True

    def _leave_now(self) -> None:
        self._leaving = "stopped"
        stop_waiting(self.connection)

    @property
    def is_leaving(self) -> bool:
        """Say whether this worker was told to leave."""
        return bool(self._stop_requested)

    def _leave(self) -> None:
        self._stop_requested = True
        if self._job is None:
            raise StopRequested

    def teardown(self) -> None:
        """Say goodbye if there is a server to say it to."""
        stop_waiting(self.connection)
        with suppress(RedisConnectionError, RedisTimeoutError):
            super().teardown()  # type: ignore[no-untyped-call]
        self._no_retry.close()
        self._workshop.close()


def addresses(root: str, settings: Settings) -> tuple[str, Address]:
    """Return where the state is, and where the queue."""
    state = settings.redis_url or f"unix://{socket_address(root)}"
    # Named outright: a worker never starts the embedded server, which may have been stopped on purpose.
    return state, parse_url(settings.queue_url or state)


def check_rights(root: str, settings: Settings) -> None:
    """Raise when the account may not carry out runs: a terminal's may not."""
    _, address = addresses(root, settings)
    client = queue_client(address)
    try:
        with client.pipeline(transaction=True) as transaction:
            transaction.time()
            transaction.execute()
    except NoPermissionError as error:
        raise ServerUnavailable(
            f"user {address.username} of the queue's server may not carry out runs: {error}",
            hint="use a worker's account (maestro acl --worker NAME)",
        ) from error
    finally:
        client.close()


def work(root: str, *, burst: bool = False, client_name: str | None = None, channel: Channel | None = None) -> int:
    """Work in this process until told to leave; with `burst`, until nothing waits. Returns the exit status."""
    from dataclasses import replace

    from maestro_state import Maestro

    with Maestro(root) as maestro:
        settings, root = maestro.settings, str(maestro.project.root)
    configure_logs(settings.log_level)
    keep_private()  # the tools are this user's too, and the address of the server has its password
    keep_memory(KEPT_BYTES)
    state_url, address = addresses(root, settings)
    address = replace(address, client_name=client_name or address.client_name)
    workshop = Workshop(root, state_url, client_name, Guard(alone=True), channel)
    jobs.equip(workshop)
    # RQ names its connection after the worker: the stack's own must be known by it.
    # Whose environments it can get is part of its name: workers of other machines leave those runs to it.
    mark = channel.holder if channel is not None else secrets.token_hex(3)
    name = f"{client_name or settings.namespace}@{socket.gethostname()}-{os.getpid()}-{mark}"
    grace_s = settings.stop_grace_seconds
    worker = RunWorker(settings.namespace, workshop, address, name=name, grace_s=grace_s, channel=channel)
    worker.work(burst=burst, logging_level="WARNING")
    # RQ's worker also comes back from what it did not expect; whoever keeps it running must know the difference.
    return 0 if burst or worker.is_leaving else 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Work for the project named on the command line."""
    parser = argparse.ArgumentParser(prog="maestro_workers.rq_adapter.worker", description="Carry out runs.")
    parser.add_argument("--project", required=True, help="root folder of the project")
    parser.add_argument("--burst", action="store_true", help="leave when nothing waits")
    parser.add_argument("--service", action="store_true", help="started by the embedded stack")
    options = parser.parse_args(arguments)
    try:
        return work(options.project, burst=options.burst, client_name=SERVICE_CLIENT if options.service else None)
    except MaestroError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code


if __name__ == "__main__":
    raise SystemExit(main())
