"""Calls on leases: who does something for the whole team, until when, and what the next one goes on from.

One for being the scheduler who is in charge; one for what a pass over the sessions does once for all of them; and one
for each shard of the index, whose sessions a pass writes to disk: anybody may make a pass by hand at any time, and
several at once share the shards. Times are the server's: machines of a team need not agree on theirs.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

from maestro_state.models.lease import Lease
from maestro_state.state.calls.replies import is_ok, text, word_of
from maestro_state.state.calls.terms import Terms
from maestro_state.state.scripts import Call, Query, load

#: What there is a lease for, beside the shards.
SWEEP = "sweep"
SCHEDULE = "schedule"
#: How long a holder that says nothing keeps others out, in milliseconds. A sweeper speaks between two sessions, and one
#: may be large; a scheduler has a thread for it.
LEASE_MS = {SWEEP: 30_000, SCHEDULE: 15_000}
#: A sweeper of a shard also speaks between two sessions.
_SHARD = f"{SWEEP}-"
#: How long the server remembers the last holder and the notes, in milliseconds.
KEEP_MS = 90 * 24 * 3600 * 1000

#: How far a note may be ahead of the server's clock, in milliseconds, for it to have been read before that was written.
AHEAD_MS = 60_000

#: What is noted: a pass over the sessions, a cleanup of the disk, and where to go on looking for lost sessions.
SWEPT = "swept_at"
CLEANED = "cleaned_at"
CURSOR = "cursor"


def _noted(fence: str | None, holder: str, fields: dict[str, str]) -> Lease:
    # All that is noted are whole numbers; what is none was written by nobody of ours.
    notes = {name: value for name, value in fields.items() if value.isascii() and value.isdigit() and len(value) < 20}
    return Lease(fence, holder, int(notes.get(SWEPT, 0)), int(notes.get(CLEANED, 0)), notes=notes)


def is_due(done_ms: int, now_ms: int, every_ms: int) -> bool:
    """Tell whether what was done then is to be done again.

    Also when it was done in a time to come: the server's clock went back, which may be by days.
    """
    return now_ms - done_ms >= every_ms or done_ms - now_ms > AHEAD_MS


def of_shard(number: int) -> str:
    """Return what the lease of a shard is for."""
    return f"{_SHARD}{number:02d}"


def lease_ms(task: str) -> int:
    """Return how long a holder that says nothing keeps others out, in milliseconds."""
    return LEASE_MS[SWEEP if task.startswith(_SHARD) else task]


def take_lease(terms: Terms, task: str, holder: str, server_ms: int, fence: str = "0") -> Call:
    """Take a lease, or keep it: then `fence` is the number it came with."""

    def read(reply: list[Any]) -> Lease:
        if text(reply[0]) == "OK":
            return _noted(text(reply[1]), holder, _fields(reply[2]))
        return Lease(None, text(reply[1]), left_ms=int(reply[2])) if len(reply) > 1 else Lease(None)

    args = (holder, fence, server_ms, lease_ms(task), KEEP_MS)
    return Call(load("take_lease"), terms.keys.lease(task), args, read)


def release_lease(terms: Terms, task: str, lease: Lease, notes: dict[str, str] | None = None) -> Call:
    """Let the next one in; with `notes`, tell it what to go on from."""
    args = (lease.holder, lease.fence, *chain.from_iterable((notes or {}).items()))
    return Call(load("release_lease"), terms.keys.lease(task), args, word_of)


def note_upkeep(terms: Terms, field: str, server_ms: int, fence: str = "0") -> Call:
    """Remember that something was done; answers False when the lease was lost meanwhile."""
    args = (field, server_ms, fence, KEEP_MS, AHEAD_MS)
    return Call(load("note_upkeep"), terms.keys.lease(SCHEDULE), args, is_ok)


def read_lease(terms: Terms, task: str) -> Query:
    """Read who had a lease last, and what was noted."""

    def read(reply: list[bytes]) -> Lease:
        fields = _fields(reply)
        return _noted(fields.get("fence"), fields.get("holder", ""), fields)

    return Query(("HGETALL", terms.keys.lease(task)[0]), read)


def _fields(flat: list[bytes]) -> dict[str, str]:
    shown = (one.decode(errors="replace") for one in flat)
    return dict(zip(shown, shown, strict=True))
