"""How a tool's call ended, as its parser read it, and what its counters mean for one call."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
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


def delta(usage: Usage, cumulative: Collection[str], earlier: Iterable[Usage], before: Usage | None = None) -> Usage:
    """Return this call's share of counters that a tool keeps over its whole session.

    `earlier` are the calls recorded before (of any tool session), `before` the one this call went on from: a session
    that was forked off has taken the counters over.
    """
    counters = {name: value for name in cumulative if (value := getattr(usage, name)) is not None}
    if not counters:
        return usage
    same = [one for one in earlier if one.tool_session and one.tool_session == usage.tool_session]
    stood = _stood(same, cumulative) if same or before is None else _stood([before], cumulative)
    # A counter that went back was started anew: then all of it is this call's.
    shares = {name: now - stood[name] if now >= stood[name] else now for name, now in counters.items()}
    return msgspec.structs.replace(usage, counters=counters, **shares)


def _stood(calls: Sequence[Usage], names: Collection[str]) -> dict[str, float]:
    """Return where counters stood after these calls; those that did not say it are added up."""
    stood: dict[str, float] = {}
    for name in names:
        said = [one.counters[name] for one in calls if one.counters and name in one.counters]
        stood[name] = max(said) if said else sum(getattr(one, name) or 0 for one in calls)
    return stood
