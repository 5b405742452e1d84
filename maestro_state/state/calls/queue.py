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
from maestro_state.models.worker import Waiting
from maestro_state.state.calls.replies import is_ok, text
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


def run_job_id(terms: Terms, run: Waiting, profile: str) -> str:
    """Return the id of the job of one attempt at a run, for workers of one profile. It ends with the run's turn, by
    which the script puts it in its place.
    """
    names = (run.session_id, run.run_id, run.fence, *([profile] if profile else []), run.turn_ms)
    return job_id_of(terms, *names)


def enqueue_run(terms: Terms, run: Waiting, profile: str, now_ms: int) -> Call:
    """Put the job of one attempt at a run where workers of a profile wait; answers False when it is there already, or
    was taken just now by a worker that may still claim the run. Repeatable.
    """
    names = (run.session_id, run.run_id)
    return _enqueue(terms, run_job_id(terms, run, profile), EXECUTE_RUN, names, now_ms, profile)


def withdraw_run(terms: Terms, run: Waiting, profile: str) -> Call:
    """Take back a job that workers of another profile need not take any more. Repeatable."""
    return _withdraw(terms, run_job_id(terms, run, profile), profile)


def finalization_id(terms: Terms, session_id: str, attempt: int) -> str:
    """Return the id of the job of one attempt at archiving a session that has ended."""
    return job_id_of(terms, session_id, "archive", attempt)


def enqueue_finalization(terms: Terms, session_id: str, attempt: int, now_ms: int, profile: str = "") -> Call:
    """Have a worker archive a session that has ended; answers False when that waits already. Repeatable."""
    job_id = finalization_id(terms, session_id, attempt)
    return _enqueue(terms, job_id, FINALIZE_SESSION, (session_id, str(attempt)), now_ms, profile)


def enqueue_sending(terms: Terms, ref: str, token: str, attempt: int, now_ms: int, profile: str = "") -> Call:
    """Have a worker send what it has archived under a reference, to whoever waits at a token."""
    return _enqueue(terms, _sending_id(terms, token, attempt), SEND_ARCHIVE, (ref, token), now_ms, profile)


def withdraw_sending(terms: Terms, token: str, attempt: int, profile: str = "") -> Call:
    """Take such a job back; answers False when a worker has taken it. Repeatable."""
    return _withdraw(terms, _sending_id(terms, token, attempt), profile)


def _withdraw(terms: Terms, job_id: str, profile: str) -> Call:
    keys = terms.keys.queue(job_id, profile)
    return Call(load("withdraw_job"), keys, (job_id,), is_ok)


def _sending_id(terms: Terms, token: str, attempt: int) -> str:
    return job_id_of(terms, "send", token, attempt)


def _enqueue(terms: Terms, job_id: str, function: str, names: tuple[str, str], now_ms: int, profile: str = "") -> Call:
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
    return Call(load("enqueue_job"), terms.keys.queue(job_id, profile), args, is_ok)


def job_status(terms: Terms, job_id: str) -> Query:
    """Ask how far a job is, in RQ's words; None when there is no such job any more: it is done."""
    return Query(("HGET", terms.keys.queue(job_id)[0], "status"), lambda reply: None if reply is None else text(reply))


def jobs_ahead(terms: Terms, run: Waiting, profile: str) -> Query:
    """Ask how many jobs workers of a profile take before that of a run; None when it does not wait there."""
    job_id = run_job_id(terms, run, profile)
    key = terms.keys.queue(job_id, profile)[1]
    return Query(("LPOS", key, job_id), lambda reply: None if reply is None else int(reply))


def waiting_jobs(terms: Terms) -> Query:
    """Ask how many jobs wait for any worker."""
    return Query(("LLEN", terms.keys.queue("")[1]), int)


def routed_jobs(terms: Terms, profile: str) -> Query:
    """Read what waits for workers of a profile: of each job what it is called wherever it waits."""

    def read(reply: list[bytes]) -> list[str]:
        return [text(job_id).partition(f"_{profile}_")[0] for job_id in reply]

    return Query(("LRANGE", terms.keys.routed(profile), 0, -1), read)


def worker_names(terms: Terms) -> Query:
    """Read the keys of the workers that said they listen; whether one still lives, its key says."""
    # Only handed back to the server, and so not decoded: whoever can write there can write any bytes.
    return Query(("SMEMBERS", terms.keys.queue_workers), list)
