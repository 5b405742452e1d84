"""Calls on seats: who may have only so many runs open at once takes one before asking for a run.

A seat is there until somebody who finds none left sees that its run is over, and one that was never given a run for a
minute: whoever is killed on the way keeps nobody out for longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from maestro_state.state.calls.replies import text, word_of
from maestro_state.state.calls.terms import Terms
from maestro_state.state.scripts import Call, load

#: How long a seat is kept for a run that is being asked for, in milliseconds.
LEASE_MS = 60_000
#: How long seats are kept after the last one was taken, in milliseconds: longer than a run may take.
KEEP_MS = 40 * 24 * 3600 * 1000


def ticket_of(idempotency_key: str) -> str:
    """Return the ticket of a call: letters and digits, whatever the key is."""
    return _digest(idempotency_key)


def take_seat(terms: Terms, ticket: str, most: int, now_ms: int, gone: Sequence[str] = ()) -> Call:
    """Take a seat, after giving those up whose runs are over; answers the seats when none is left."""

    def read(reply: list[Any]) -> list[str]:
        return [] if text(reply[0]) == "OK" else [text(one) for one in reply[1]]

    return Call(load("take_seat"), _keys(terms), (ticket, now_ms, LEASE_MS, most, KEEP_MS, *gone), read)


def name_seat(terms: Terms, ticket: str, run: str, now_ms: int) -> Call:
    """Say which run a seat is for; without one it is given up."""
    return Call(load("name_seat"), _keys(terms), (ticket, run, now_ms, KEEP_MS), word_of)


def run_in(seat: str) -> tuple[str, str] | None:
    """Return the session and number of a seat's run; None for one that has none yet."""
    name, has_run, _ = seat.partition(" ")
    session_id, _, run_id = name.partition("/")
    return (session_id, run_id) if has_run else None


def _keys(terms: Terms) -> tuple[str, ...]:
    return terms.keys.seat(_digest(terms.user))


def _digest(name: str) -> str:
    from hashlib import sha256  # 5 ms that reading does without

    return sha256(name.encode()).hexdigest()[:24]
