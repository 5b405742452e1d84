"""Calls on leases: who does something for the whole team, until when, and what the next one goes on from.

There are two: one for a pass over the sessions, which anybody may make by hand at any time, and one for being the
scheduler, who makes those passes by the clock. Times are the server's: machines of a team need not agree on theirs.
"""

from __future__ import annotations

from typing import Any

from maestro_state.models.lease import Lease
from maestro_state.state.calls.replies import text
from maestro_state.state.calls.terms import Terms
from maestro_state.state.scripts import Call, Query, load

#: What there is a lease for.
SWEEP = "sweep"
SCHEDULE = "schedule"
#: How long a holder that says nothing keeps others out, in milliseconds. A sweeper speaks between two sessions, and one
#: may be large; a scheduler has a thread for it.
LEASE_MS = {SWEEP: 30_000, SCHEDULE: 15_000}
#: How long the server remembers the last holder and the notes, in milliseconds.
KEEP_MS = 90 * 24 * 3600 * 1000

#: What is noted: a pass over the sessions, a cleanup of the disk, and where to go on looking for lost sessions.
SWEPT = "swept_at"
CLEANED = "cleaned_at"
CURSOR = "cursor"


def _noted(fence: str | None, holder: str, fields: dict[str, str]) -> Lease:
    swept_at, cleaned_at = int(fields.get(SWEPT, 0)), int(fields.get(CLEANED, 0))
    return Lease(fence, holder, swept_at, cleaned_at, fields.get(CURSOR, "0"))


def take_lease(terms: Terms, task: str, holder: str, server_ms: int, fence: str = "0") -> Call:
    """Take a lease, or keep it: then `fence` is the number it came with."""

    def read(reply: list[Any]) -> Lease:
        if text(reply[0]) == "OK":
            return _noted(text(reply[1]), holder, _fields(reply[2]))
        return Lease(None, text(reply[1]), left_ms=int(reply[2])) if len(reply) > 1 else Lease(None)

    args = (holder, fence, server_ms, LEASE_MS[task], KEEP_MS)
    return Call(load("take_lease"), terms.keys.lease(task), args, read)


def release_lease(terms: Terms, task: str, lease: Lease, cursor: str | None = None) -> Call:
    """Let the next one in; with a `cursor`, tell it where to go on."""
    notes = () if cursor is None else (CURSOR, cursor)
    args = (lease.holder, lease.fence, *notes)
    return Call(load("release_lease"), terms.keys.lease(task), args, lambda reply: text(reply[0]))


def note_upkeep(terms: Terms, field: str, server_ms: int, fence: str = "0") -> Call:
    """Remember that something was done; answers False when the lease was lost meanwhile."""
    args = (field, server_ms, fence, KEEP_MS)
    return Call(load("note_upkeep"), terms.keys.lease(SCHEDULE), args, lambda reply: text(reply[0]) == "OK")


def read_lease(terms: Terms, task: str) -> Query:
    """Read who had a lease last, and what was noted."""

    def read(reply: list[bytes]) -> Lease:
        fields = _fields(reply)
        return _noted(fields.get("fence"), fields.get("holder", ""), fields)

    return Query(("HGETALL", terms.keys.lease(task)[0]), read)


def _fields(flat: list[bytes]) -> dict[str, str]:
    return {text(name): text(value) for name, value in zip(flat[::2], flat[1::2], strict=True)}
