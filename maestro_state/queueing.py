"""Waking a worker: a run's job in the form in which RQ keeps jobs. The only seam to RQ on the asking side. Pure.

RQ is the wake-up, not the truth: a job carries nothing but the names of a run, and what may be done with that run is
decided where its record is. The job is written in one script instead of by RQ itself because importing RQ costs
three times what a whole command does; a test has RQ's own worker take such a job.
"""

from __future__ import annotations

import zlib
from datetime import UTC, datetime
from typing import Any

import msgspec

from maestro_state.ops.replies import text
from maestro_state.ops.terms import Terms
from maestro_state.scripts import Call, Query, load

#: Functions a job may name: a wire format, never renamed while old jobs may wait.
EXECUTE_RUN = "workers.jobs.execute_run"

#: How long a job may be out of the queue before its run, still not claimed, gets another, in milliseconds. From taking
#: a job to claiming its run a worker needs a hundredth of it.
TAKEN_MS = 2_000
#: How long a job that no worker takes is kept, in milliseconds; the sweeper puts it there again.
JOB_LIFE_MS = 7 * 24 * 3600 * 1000
#: How long RQ keeps a job that failed, in seconds. One that succeeded is not kept: the run says it all.
FAILURE_TTL_S = 3600


def job_id_of(terms: Terms, session_id: str, run_id: str, fence: int) -> str:
    """Return the id of the job of one attempt: letters, digits, `_` and `-` only."""
    return f"{terms.keys.namespace.replace('.', '-')}_{session_id}_{run_id}_{fence}"


def enqueue_run(terms: Terms, session_id: str, run_id: str, fence: int, now_ms: int) -> Call:
    """Put the job of a run where workers wait for it; answers False when it is there already, or was taken
    just now by a worker that may still claim the run. Repeatable.
    """
    job_id = job_id_of(terms, session_id, run_id, fence)
    moment = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    payload = msgspec.json.encode([EXECUTE_RUN, None, [session_id, run_id], {}])
    fields: dict[str, Any] = {
        "data": zlib.compress(payload),
        "created_at": moment,
        "enqueued_at": moment,
        "origin": terms.keys.namespace,
        "status": "queued",
        # -1: the run has its own timeout, which knows how to end a tool.
        "timeout": -1,
        "result_ttl": 0,
        "failure_ttl": FAILURE_TTL_S,
    }
    args = (job_id, now_ms, TAKEN_MS, JOB_LIFE_MS, *(part for pair in fields.items() for part in pair))
    return Call(load("enqueue_run"), terms.keys.queue(job_id), args, lambda reply: text(reply[0]) == "OK")


def worker_names(terms: Terms) -> Query:
    """Read the keys of the workers that said they listen; whether one still lives, its key says."""
    return Query(("SMEMBERS", terms.keys.queue_workers), lambda reply: [text(one) for one in reply])
