"""How a tool's call ended, as its parser read it, and what its counters mean for one call."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Protocol

import msgspec

from maestro_state.contents import Usage

SUCCESS = "success"
ERROR = "error"


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The end of one call."""

    status: str  #: success or error
    error: str | None = None  #: what went wrong, in one line
    usage: Usage = Usage()  #: as the tool told; `delta` makes this call's share of it
    text: str = ""  #: what a last line without newline still had to say


class Parser(Protocol):
    """Reads one call's stdout as it comes. Never raises on what a tool prints; its memory is bounded."""

    @property
    def so_far(self) -> Usage:
        """What the tool has consumed until now, as far as it told: for people who watch, not for the books."""

    def feed(self, data: bytes) -> list[str]:
        """Take the next bytes and return the texts for people in them."""

    def end(self, exit_code: int | None, stderr: bytes = b"") -> Outcome:
        """Judge the whole call; `exit_code` is None when the tool was killed, `stderr` is its tail."""


def delta(usage: Usage, cumulative: Collection[str], earlier: Iterable[Usage]) -> Usage:
    """Return this call's share of counters that a tool keeps over its whole session.

    `earlier` are the shares recorded before (of any tool session): their sum is where the counters stood.
    """
    before = [one for one in earlier if one.tool_session and one.tool_session == usage.tool_session]
    changes: dict[str, float] = {}
    for name in cumulative:
        if (now := getattr(usage, name)) is not None:
            # A counter that went back was started anew: then all of it is this call's.
            stood = sum(getattr(one, name) or 0 for one in before)
            changes[name] = now - stood if now >= stood else now
    return msgspec.structs.replace(usage, **changes) if changes else usage
