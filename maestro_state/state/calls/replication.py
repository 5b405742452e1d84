"""Which changes replicas must have before they count as done, and how that is asked for. Pure.

Replication is asynchronous: what a server acknowledged is gone when it fails before a replica has it. For messages
that loss is bounded by the replica's lag; what was frozen or ended (a session, a run, a work session, a discussion) and
an archive that was marked must not come undone. What the next sweep does again by itself is not waited for. Behind such
a change a barrier is written and waited for, all on one connection: when it breaks, the change is repeated too, on
whichever server is the master then.
"""

from __future__ import annotations

from typing import Any

from maestro_state.errors import NotReplicated
from maestro_state.state.calls.terms import Terms
from maestro_state.state.scripts import Call

#: Scripts whose change must not come undone.
LASTING = frozenset({
    "finalize_session", "abort_session", "expire_session", "finish_run", "cancel_run", "mark_archived", "end_work",
    "finish_discussion",
})  # fmt: skip
#: How long replicas get to confirm, in milliseconds.
CONFIRM_MS = 5_000
#: Life of the barrier, in milliseconds.
BARRIER_MS = 60_000


def confirmation(terms: Terms, call: Call) -> tuple[tuple[Any, ...], ...]:
    """Return the commands to send behind the call. The write makes WAIT wait even if the call was a repeat."""
    barrier = terms.keys.barrier(call.keys[0])
    return ("SET", barrier, "", "PX", BARRIER_MS), ("WAIT", terms.wait_replicas, CONFIRM_MS)


def shortfall(terms: Terms, confirmed: int) -> NotReplicated | None:
    """Return what is wrong when too few replicas confirmed."""
    if confirmed >= terms.wait_replicas:
        return None
    return NotReplicated(confirmed, terms.wait_replicas, CONFIRM_MS)
