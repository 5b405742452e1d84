"""Waking a worker: a job in the form in which RQ keeps jobs. The only seam to RQ on the asking side. Pure.

RQ is the wake-up, not the truth: a job carries nothing but names, and what may be done with what they name is decided
where its record is. The job is written in one script instead of by RQ itself because importing RQ costs three times
what a whole command does; a test has RQ's own worker take such a job.
"""

from __future__ import annotations

import zlib
from datetime import UTC, datetime
from typing import Any

import msgspec

from maestro_state.models.schema import SCHEMA
from maestro_state.state.calls.replies import text
from maestro_state.state.calls.terms import Terms
from maestro_state.state.scripts import Call, Query, load
from maestro_state.vocabulary import EXECUTE_RUN, FINALIZE_SESSION, SEND_ARCHIVE

#: How long a job may be out of the queue before its run, still not claimed, gets another, in milliseconds. From taking
#: a job to claiming its run a worker needs a hundredth of it.
TAKEN_MS = 2_000
#: How long a job that no worker takes is kept, in milliseconds; the sweeper puts it there again.
JOB_LIFE_MS = 7 * 24 * 3600 * 1000
#: How long RQ keeps a job that failed, in seconds. One that succeeded is not kept: the record says it all.
FAILURE_TTL_S = 3600


def job_id_of(terms: Terms, *names: object) -> str:
    """Return the id of a job: letters, digits, `_` and `-` only. The same names are the same job."""
    return "_".join((terms.keys.job_prefix, *map(_plain, names)))


def _plain(name: object) -> str:
    """Return a name in letters that job ids may have: of one with letters of another script, its digest."""
    text = str(name)
    if text.isascii():
        return text
    from hashlib import sha256  # 5 ms that plain names do without

    return sha256(text.encode()).hexdigest()


def enqueue_run(terms: Terms, session_id: str, run_id: str, fence: int, now_ms: int) -> Call:
    """Put the job of one attempt at a run where workers wait; answers False when it is there already, or was taken
    just now by a worker that may still claim the run. Repeatable.
    """
    return _enqueue(terms, job_id_of(terms, session_id, run_id, fence), EXECUTE_RUN, (session_id, run_id), now_ms)


def finalization_id(terms: Terms, session_id: str, attempt: int) -> str:
    """Return the id of the job of one attempt at archiving a session that has ended."""
    return job_id_of(terms, session_id, "archive", attempt)


def enqueue_finalization(terms: Terms, session_id: str, attempt: int, now_ms: int) -> Call:
    """Have a worker archive a session that has ended; answers False when that waits already. Repeatable."""
    job_id = finalization_id(terms, session_id, attempt)
    return _enqueue(terms, job_id, FINALIZE_SESSION, (session_id, str(attempt)), now_ms)


def enqueue_sending(terms: Terms, ref: str, token: str, attempt: int, now_ms: int) -> Call:
    """Have a worker send what it has archived under a reference, to whoever waits at a token."""
    return _enqueue(terms, _sending_id(terms, token, attempt), SEND_ARCHIVE, (ref, token), now_ms)


def withdraw_sending(terms: Terms, token: str, attempt: int) -> Call:
    """Take such a job back; answers False when a worker has taken it. Repeatable."""
    job_id = _sending_id(terms, token, attempt)
    return Call(load("withdraw_job"), terms.keys.queue(job_id), (job_id,), lambda reply: text(reply[0]) == "OK")


def _sending_id(terms: Terms, token: str, attempt: int) -> str:
    return job_id_of(terms, "send", token, attempt)


def _enqueue(terms: Terms, job_id: str, function: str, names: tuple[str, str], now_ms: int) -> Call:
    moment = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    fields: dict[str, Any] = {
        "data": zlib.compress(msgspec.json.encode([function, None, names, {}])),
        "created_at": moment,
        "enqueued_at": moment,
        "origin": terms.keys.namespace,
        "status": "queued",
        "schema": SCHEMA,
        # -1: a run has its own timeout, which knows how to end a tool.
        "timeout": -1,
        "result_ttl": 0,
        "failure_ttl": FAILURE_TTL_S,
    }
    args = (job_id, now_ms, TAKEN_MS, JOB_LIFE_MS, *(part for pair in fields.items() for part in pair))
    return Call(load("enqueue_job"), terms.keys.queue(job_id), args, lambda reply: text(reply[0]) == "OK")


def job_status(terms: Terms, job_id: str) -> Query:
    """Ask how far a job is, in RQ's words; None when there is no such job any more: it is done."""
    return Query(("HGET", terms.keys.queue(job_id)[0], "status"), lambda reply: None if reply is None else text(reply))


def jobs_ahead(terms: Terms, session_id: str, run_id: str, fence: int) -> Query:
    """Ask how many jobs are taken before that of a run; None when it does not wait in the queue."""
    job_id = job_id_of(terms, session_id, run_id, fence)
    return Query(("LPOS", terms.keys.queue(job_id)[1], job_id), lambda reply: None if reply is None else int(reply))


def waiting_jobs(terms: Terms) -> Query:
    """Ask how many jobs wait."""
    return Query(("LLEN", terms.keys.queue("")[1]), int)


def worker_names(terms: Terms) -> Query:
    """Read the keys of the workers that said they listen; whether one still lives, its key says."""
    # Only handed back to the server, and so not decoded: whoever can write there can write any bytes.
    return Query(("SMEMBERS", terms.keys.queue_workers), list)
