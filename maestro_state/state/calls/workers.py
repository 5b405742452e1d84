"""Calls on the list of workers. Times are the server's: clocks of a team's machines differ."""

from __future__ import annotations

import re

import msgspec

from maestro_state.models.undecodable import UNDECODABLE
from maestro_state.models.worker import Worker
from maestro_state.state.calls.replies import is_ok
from maestro_state.state.calls.terms import Terms
from maestro_state.state.scripts import Call, Query, load

#: How long a worker that says nothing more is listed, in milliseconds.
ALIVE_MS = 10_000
#: Workers listed at most.
WORKERS_MAX = 4096
#: Names of lists become parts of keys and of jobs' ids.
_PROFILE = re.compile(r"(?:[0-9a-f]{8})?", re.ASCII)


def announce_worker(terms: Terms, worker: Worker, now_ms: int) -> Call:
    """Note what a worker has, for as long as it counts; False when there are too many."""
    args = (worker.id, msgspec.json.encode(worker), now_ms, ALIVE_MS, WORKERS_MAX)
    return Call(load("announce_worker"), terms.keys.worker, args, is_ok)


def sign_off(terms: Terms, worker_id: str) -> Query:
    """Take a worker off the list."""
    return Query(("HDEL", terms.keys.worker[0], worker_id), int)


def read_present(terms: Terms) -> Query:
    """Read when each worker last said what it has, and that; what is no such row is passed over."""

    def read(reply: list[bytes]) -> list[tuple[int, Worker]]:
        return [row for row in map(_row, reply[1::2]) if row is not None]

    return Query(("HGETALL", terms.keys.worker[0]), read)


def _row(stored: bytes) -> tuple[int, Worker] | None:
    seen, _, values = stored.partition(b" ")
    try:
        found = msgspec.json.decode(values, type=Worker)
        return (int(seen), found) if _PROFILE.fullmatch(found.queue) else None
    except (ValueError, *UNDECODABLE):
        return None


def living(rows: list[tuple[int, Worker]], now_ms: int) -> list[Worker]:
    """Return the workers that count now, by host and how long they are there."""
    found = [worker for seen_ms, worker in rows if now_ms - seen_ms <= ALIVE_MS]
    return sorted(found, key=lambda worker: (worker.host, worker.since, worker.id))
