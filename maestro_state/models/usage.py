"""What runs consumed, added up: by day, tool, model, session or user. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import fsum

import msgspec

from maestro_state.errors import InvalidValue
from maestro_state.models.ledger import Budget

#: What stands in the place of a name that nobody told.
UNKNOWN = "unknown"
#: Digits of a cost that are kept: sums of what tools tell are not longer than what they are made of.
_DIGITS = 9


class Consumed(msgspec.Struct, frozen=True, gc=False):
    """One run, as far as it is counted."""

    session: str
    user: str
    tool: str
    model: str
    created_ms: int
    tokens_input: int
    tokens_output: int
    cost: float | None  #: None where its tool does not tell


class UsageRow(msgspec.Struct, frozen=True):
    """What some runs consumed together."""

    key: str
    runs: int
    tokens_input: int
    tokens_output: int
    cost: float
    runs_without_cost: int  #: how many of them did not tell what they cost


class UsageTotal(msgspec.Struct, frozen=True):
    """What all runs consumed together."""

    runs: int
    tokens_input: int
    tokens_output: int
    cost: float
    runs_without_cost: int


class UsageReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """What `maestro usage` tells."""

    by: str
    rows: list[UsageRow]
    total: UsageTotal
    skipped: list[str] = []  #: sessions that could not be read
    budgets: list[Budget] = []  #: what may be consumed, and is left


def _day(run: Consumed) -> str:
    """Return the day a run was asked for, by the clock on this machine's wall."""
    import time

    return time.strftime("%Y-%m-%d", time.localtime(run.created_ms // 1000))


#: What runs can be added up by.
BY: dict[str, Callable[[Consumed], str]] = {
    "day": _day,
    "tool": lambda run: run.tool or UNKNOWN,
    "model": lambda run: run.model or UNKNOWN,
    "session": lambda run: run.session,
    "user": lambda run: run.user or UNKNOWN,
}


def check_by(by: str) -> str:
    """Return what to add up by; refuse anything else."""
    if by not in BY:
        raise InvalidValue(f"usage is added up by {', '.join(BY)}, not by '{by[:40]}'")
    return by


def tally(runs: Iterable[Consumed], by: str, skipped: list[str], budgets: Iterable[Budget] = ()) -> UsageReport:
    """Add runs up: days in their order, anything else with the most expensive first."""
    key, groups = BY[check_by(by)], dict[str, list[Consumed]]()
    for run in runs:
        groups.setdefault(key(run), []).append(run)
    rows = [UsageRow(name, *_sums(found)) for name, found in groups.items()]
    if by == "day":
        rows.sort(key=lambda row: row.key)
    else:
        rows.sort(key=lambda row: (-row.cost, -row.tokens_input - row.tokens_output, -row.runs, row.key))
    everything = [run for found in groups.values() for run in found]
    return UsageReport(by, rows, UsageTotal(*_sums(everything)), skipped, [*budgets])


def _sums(runs: list[Consumed]) -> tuple[int, int, int, float, int]:
    costs = [run.cost for run in runs if run.cost is not None]
    return (
        len(runs),
        sum(run.tokens_input for run in runs),
        sum(run.tokens_output for run in runs),
        round(fsum(costs), _DIGITS),
        len(runs) - len(costs),
    )
