"""Calls on the lease of the one sweeper."""

from __future__ import annotations

from typing import Any

import msgspec

from maestro_state.ops.replies import text
from maestro_state.ops.terms import Terms
from maestro_state.scripts import Call, load

#: How long a sweeper that says nothing keeps others out, in milliseconds.
LEASE_MS = 30_000
#: How long the server remembers the number of the last one.
KEEP_MS = 7 * 24 * 3600 * 1000


class Lease(msgspec.Struct, frozen=True):
    """The right to sweep; without a fence it is somebody else's."""

    fence: str | None
    cursor: str = "0"
    holder: str = ""


def take_lease(terms: Terms, holder: str, server_ms: int, fence: str = "0") -> Call:
    """Take the lease, or keep it: then `fence` is the number it came with."""

    def read(reply: list[Any]) -> Lease:
        if text(reply[0]) == "OK":
            return Lease(text(reply[1]), text(reply[2]), holder)
        return Lease(None, holder=text(reply[1]) if len(reply) > 1 else "")

    return Call(load("take_lease"), terms.keys.sweep, (holder, server_ms, LEASE_MS, fence, KEEP_MS), read)


def leave_lease(terms: Terms, lease: Lease, cursor: str) -> Call:
    """Let the next one in."""
    args = (lease.holder, lease.fence, cursor)
    return Call(load("leave_lease"), terms.keys.sweep, args, lambda reply: text(reply[0]))
