"""How a tool's call ended, as its parser read it, and what its counters mean for one call."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

import msgspec

from maestro_state.models.run import Activity, Usage

#: The counter of all tokens a tool's models said in its session, where the tool tells.
SAID_IN_ALL = "said_in_all"

SUCCESS = "success"
ERROR = "error"


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The end of one call."""

    status: str  #: success or error
    error: str | None = None  #: what went wrong, in one line
    usage: Usage = Usage()  #: as the tool told; `delta` makes this call's share of it
    text: str = ""  #: what a last line without newline still had to say
    trouble: str | None = None  #: what it was still trying to get over when it ended
    last_words: str = ""  #: the last line of stderr that says something to people
    denied: tuple[str, ...] = ()  #: what it was refused permission for


class Parser(Protocol):
    """Reads one call's stdout as it comes. Never raises on what a tool prints; its memory is bounded."""

    @property
    def so_far(self) -> Usage:
        """What the tool has consumed until now, as far as it told: for people who watch, not for the books."""

    def feed(self, data: bytes) -> list[str]:
        """Take the next bytes and return the texts for people in them."""

    def hear(self, data: bytes) -> None:
        """Take the next bytes of stderr."""

    def take_activities(self) -> list[Activity]:
        """Return what the agent did since this was asked last."""

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
    # Some versions of a tool go on counting, others start anew: the count of all it ever said tells which this is.
    everything = (usage.counters or {}).get(SAID_IN_ALL)
    same = [one for one in earlier if one.tool_session and one.tool_session == usage.tool_session]
    stood = _stood(same if same or before is None else [before], {*cumulative, SAID_IN_ALL})
    if everything is not None and everything < stood[SAID_IN_ALL] + (usage.tokens_output or 0):
        stood = dict.fromkeys(stood, 0)
    # A counter that went back was started anew: then all of it is this call's.
    shares = {name: now - stood[name] if now >= stood[name] else now for name, now in counters.items()}
    return msgspec.structs.replace(usage, counters=(usage.counters or {}) | counters, **shares)


def _stood(calls: Sequence[Usage], names: Collection[str]) -> dict[str, float]:
    """Return where counters stood after these calls; those that did not say it are added up."""
    stood: dict[str, float] = {}
    for name in names:
        said = [one.counters[name] for one in calls if one.counters and name in one.counters]
        stood[name] = max(said) if said else sum(getattr(one, name, None) or 0 for one in calls)
    return stood
