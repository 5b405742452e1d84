"""Calls on the schedule: whose turn it is to keep house for the team, and when that was last done.

Times are the server's: machines of a team need not agree on theirs.
"""

from __future__ import annotations

from typing import Any

import msgspec

from maestro_state.ops.replies import text
from maestro_state.ops.terms import Terms
from maestro_state.scripts import Call, Query, load

#: How long a scheduler that says nothing keeps others out, in milliseconds.
LEASE_MS = 15_000
#: How long the server remembers when things were last done, in milliseconds.
KEEP_MS = 90 * 24 * 3600 * 1000

#: What is noted: a pass over the sessions, and a cleanup of the disk.
SWEPT = "swept_at"
CLEANED = "cleaned_at"


class Turn(msgspec.Struct, frozen=True):
    """The right to keep house; without a fence it is somebody else's, for `left_ms` more at most."""

    fence: str | None
    holder: str = ""
    swept_at: int = 0  #: server time in milliseconds, 0 for never
    cleaned_at: int = 0
    left_ms: int = 0


def take_turn(terms: Terms, holder: str, server_ms: int, fence: str = "0") -> Call:
    """Take the turn, or keep it: then `fence` is the number it came with."""

    def read(reply: list[Any]) -> Turn:
        word, *rest = (text(part) for part in reply)
        if word == "OK":
            return Turn(rest[0], holder, int(rest[1]), int(rest[2]))
        return Turn(None, rest[0], left_ms=int(rest[1])) if rest else Turn(None)

    return Call(load("take_turn"), terms.keys.schedule, (holder, fence, server_ms, LEASE_MS, KEEP_MS), read)


def leave_turn(terms: Terms, turn: Turn) -> Call:
    """Let the next one in."""
    return Call(load("leave_turn"), terms.keys.schedule, (turn.holder, turn.fence), lambda reply: text(reply[0]))


def note_upkeep(terms: Terms, field: str, server_ms: int, fence: str = "0") -> Call:
    """Remember that something was done; answers False when the turn was lost meanwhile."""
    args = (field, server_ms, fence, KEEP_MS)
    return Call(load("note_upkeep"), terms.keys.schedule, args, lambda reply: text(reply[0]) == "OK")


def read_schedule(terms: Terms) -> Query:
    """Read when things were last done, and who had the turn last."""

    def read(reply: list[bytes | None]) -> Turn:
        holder, fence, swept_at, cleaned_at = reply
        return Turn(text(fence) if fence else None, text(holder or ""), int(swept_at or 0), int(cleaned_at or 0))

    return Query(("HMGET", terms.keys.schedule[0], "holder", "fence", SWEPT, CLEANED), read)


def server_time() -> Query:
    """Ask what time it is."""
    return Query(("TIME",), lambda reply: int(reply[0]) * 1000 + int(reply[1]) // 1000)
