"""RQ's job, taken with suspicion: whoever can write to the queue's server can write a job.

A job is taken only if it names an allowed function with two names and nothing else. That is decided from a few
short fields, before anything is unpacked far, imported or called: RQ itself imports whatever function, callback or
serialised object a job names.
"""

from __future__ import annotations

import json
import re
import time
import zlib
from collections.abc import Callable
from typing import Any, NoReturn

from redis import Redis
from redis.exceptions import NoPermissionError, ResponseError
from rq.exceptions import DequeueTimeout, NoSuchJobError
from rq.intermediate_queue import IntermediateQueue
from rq.job import Job
from rq.queue import Queue

from maestro_state.errors import NewerFormat
from maestro_state.local.logs import get_logger
from maestro_state.models.names import is_parcel_token, is_sent_reference, is_session_id
from maestro_state.models.schema import check
from maestro_state.vocabulary import EXECUTE_RUN, FINALIZE_SESSION, SEND_ARCHIVE
from maestro_workers.jobs import execute_run, finalize_session, send_archive

#: Function names that jobs may carry, and what they mean. Nothing is ever imported by name.
ALLOWED: dict[str, Callable[..., Any]] = {
    EXECUTE_RUN: execute_run,
    FINALIZE_SESSION: finalize_session,
    SEND_ARCHIVE: send_archive,
}

#: How the function names of earlier versions begin.
_EARLIER = "workers.jobs."

#: Largest payload, packed and unpacked, in bytes: the names of a run are a tenth of it.
PAYLOAD_BYTES = 2048

#: Fields of a job that are read at all.
_READ = ("data", "created_at", "enqueued_at", "origin", "status", "timeout", "result_ttl", "failure_ttl", "schema")
#: Fields that would have RQ import, call or contact something.
_FORBIDDEN = (
    "success_callback_name", "failure_callback_name", "stopped_callback_name", "webhooks", "result", "exc_info",
    "dependency_id", "dependency_ids", "repeats_left", "retries_left", "meta",
)  # fmt: skip

#: Seconds after which a worker that has a list of its own reads what is for everybody.
SHARED_S = 1.0

_JOB_ID = re.compile(rb"[A-Za-z0-9_-]{1,256}")


_RUN = re.compile(r"[0-9]{4,9}", re.ASCII)
_ATTEMPT = re.compile(r"[0-9]{1,3}", re.ASCII)
#: What each of the two names a function is given is, and what it must look like.
_NAMES: dict[str, tuple[tuple[str, Callable[[str], object]], tuple[str, Callable[[str], object]]]] = {
    EXECUTE_RUN: (("session", is_session_id), ("run", _RUN.fullmatch)),
    FINALIZE_SESSION: (("session", is_session_id), ("attempt", _ATTEMPT.fullmatch)),
    SEND_ARCHIVE: (("reference", is_sent_reference), ("token", is_parcel_token)),
}
_log = get_logger("maestro.security")


def is_wrong_type(error: ResponseError) -> bool:
    """Tell whether the server refused because a key is of another type than it should be: nobody of ours made it."""
    return "WRONGTYPE" in str(error)


class SafeQueue(Queue):
    """A queue whose job ids are looked at before RQ makes anything of them: an odd one would end its worker."""

    @property
    def redis_queues_keys(self) -> str:  # type: ignore[override]
        """Return where RQ notes which queues there are: of this namespace only, RQ's own set is everybody's."""
        return f"rq:queues:{self.name}"

    @classmethod
    def take(cls, connection: Redis, queue_key: str, timeout: int | None) -> Any:
        """Take the next job id, as RQ does."""
        return super().lmove(connection, queue_key, timeout)

    @classmethod
    def lists(cls, queue_key: str) -> tuple[str, ...]:
        """Return the lists that whoever puts runs into the queue can write."""
        return (queue_key,)

    @classmethod
    def _taken(cls, connection: Redis, queue_key: str, timeout: int | None) -> Any:
        while True:
            try:
                return cls.take(connection, queue_key, timeout)
            except ResponseError as error:
                odd = [key for key in cls.lists(queue_key) if connection.type(key) not in (b"list", b"none")]
                if not odd or not is_wrong_type(error):
                    raise
                # Nothing waits in it; whoever looks after runs that wait puts their jobs into the list that it becomes.
                connection.delete(*odd)
                _log.error("queue_dropped", keys=odd, reason="it was no list")

    @classmethod
    def lmove(cls, connection: Redis, queue_key: str, timeout: int | None) -> Any:
        """Take the next job id; one that is none is said in the log and passed over, as is a list that is none."""
        while (taken := cls._taken(connection, queue_key, timeout)) is not None:
            job_id: bytes = taken[1]
            if _JOB_ID.fullmatch(job_id):
                break
            connection.lrem(IntermediateQueue(queue_key, connection).key, 1, job_id)  # type: ignore[arg-type]
            _log.error("job_refused", job=repr(job_id[:40]), reason="its id is not one")
        return taken


def routed_queue(routed: str) -> type[SafeQueue]:
    """Return the queue of workers that wait on a list of their own, of jobs that only workers like them can do.

    RQ's queue of the namespace holds what any worker may do, or what was asked for when nobody was there: it is read
    when nothing waits in the list, and once a second also while something does. What is taken is where RQ expects it.
    """

    class RoutedQueue(SafeQueue):
        """A queue with a list beside it."""

        read_s = float("-inf")

        @classmethod
        def lists(cls, queue_key: str) -> tuple[str, ...]:
            """Return the queue, and the list beside it."""
            return (queue_key, routed)

        @classmethod
        def take(cls, connection: Redis, queue_key: str, timeout: int | None) -> Any:
            """Take the next job id from the list or the queue; DequeueTimeout when there is none in time."""
            if time.monotonic() >= cls.read_s + SHARED_S and (taken := cls._shared(connection, queue_key)) is not None:
                return taken
            taking = IntermediateQueue(queue_key, connection).key
            found = connection.lmove(routed, taking) if timeout is None else connection.blmove(routed, taking, timeout)
            if found is not None:
                return queue_key, found
            taken = cls._shared(connection, queue_key)
            if taken is None and timeout is not None:
                raise DequeueTimeout(timeout, queue_key)
            return taken

        @classmethod
        def _shared(cls, connection: Redis, queue_key: str) -> Any:
            cls.read_s = time.monotonic()
            return super().take(connection, queue_key, None)

    return RoutedQueue


class SafeJob(Job):
    """A job that can only be one of ours."""

    def refresh(self) -> None:
        """Read the job; one that is not ours is said in the log and treated as if it were not there."""
        lengths = self.connection.pipeline(transaction=False)
        for name in (*_READ, *_FORBIDDEN):
            lengths.hstrlen(self.key, name)
        try:
            sizes = dict(zip((*_READ, *_FORBIDDEN), lengths.execute(), strict=True))
        except NoPermissionError:
            # Any account that puts runs into the queue can name what is none of this namespace's.
            self._refuse("its key is beyond this worker's account")
        except ResponseError as error:
            if not is_wrong_type(error):
                raise
            self._refuse("its key is not a job's")
        if not any(sizes.values()):
            raise NoSuchJobError(f"No such job: {self.id}")
        present = [name for name in _FORBIDDEN if sizes[name]]
        if present:
            self._refuse(f"it carries {present[0]}")
        large = [name for name in _READ if sizes[name] > PAYLOAD_BYTES]
        if large:
            self._refuse(f"its {large[0]} is {sizes[large[0]]} bytes")
        values = self.connection.hmget(self.key, _READ)
        pairs = zip(_READ, values, strict=True)
        found: dict[bytes, Any] = {name.encode(): value for name, value in pairs if value is not None}
        self._check_schema(found.pop(b"schema", None))
        found[b"data"] = self._checked(found.get(b"data", b""))
        try:
            self.restore(found)
        except (ValueError, TypeError, KeyError) as error:
            self._refuse(f"its fields are not RQ's ({type(error).__name__})")

    def _check_schema(self, number: bytes | None) -> None:
        """Leave a job of a newer form to a newer worker: its run waits, and is requeued."""
        try:
            check(f"job {self.id}", number)
        except (NewerFormat, ValueError) as error:
            self._refuse(str(error))

    def _checked(self, packed: bytes) -> bytes:
        """Return the payload if it is an allowed function with two names, unpacked with a limit."""
        try:
            payload = zlib.decompressobj().decompress(packed, PAYLOAD_BYTES)
            name, instance, arguments, options = json.loads(payload)
            if isinstance(name, str) and name.startswith(_EARLIER):
                self._drop(name)
            if name not in ALLOWED or instance is not None or options:
                self._refuse(f"it names {str(name)[:80]!r}, which is not allowed")
            first, second = arguments
        except (zlib.error, ValueError, TypeError, RecursionError):
            self._refuse("its payload is not a function and two names")
        for (word, is_one), given in zip(_NAMES[name], (first, second), strict=True):
            if not isinstance(given, str) or not is_one(given):
                self._refuse(f"its {word} is not one")
        return payload

    def _drop(self, name: str) -> NoReturn:
        """Remove a job of an earlier version: whoever looks after its run or session asks again, by today's name."""
        self.connection.delete(self.key)
        self._refuse(f"it names {name[:80]!r}, as an earlier version did; it is asked for again")

    def _refuse(self, reason: str) -> NoReturn:
        _log.error("job_refused", job=self.id, reason=reason)
        raise NoSuchJobError(f"Refused job: {self.id}")

    def perform(self) -> Any:
        """Carry it out; unlike RQ's, without taking from the job's key the time it has to live."""
        self._result = self._execute()
        return self._result

    @property
    def func(self) -> Callable[..., Any]:
        """Return the function by its place in the list, not by importing its name."""
        return ALLOWED[str(self.func_name)]
