"""What was consumed and what may be, as values: budgets, and what one run came to. Pure."""

from __future__ import annotations

from typing import Literal

import msgspec

from maestro_state.errors import InvalidValue
from maestro_state.models.run import Run, Usage

Scope = Literal["everyone", "user", "session"]
Period = Literal["day", "total"]
Unit = Literal["tokens", "cost"]
#: Everybody's first, which is how they are listed.
SCOPES: tuple[Scope, ...] = ("everyone", "user", "session")
PERIODS: tuple[Period, ...] = ("day", "total")
UNITS: tuple[Unit, ...] = ("tokens", "cost")

#: Money is added up in billionths of a dollar, as whole numbers: sums of fractions drift.
NANO = 1_000_000_000
#: Largest limit, and the most one run counts as, in tokens and in dollars: sums stay whole numbers everywhere.
TOKENS_MAX, COST_MAX = 10**15, 1_000_000.0
_COUNTS = ("tokens_input", "tokens_output", "tokens_cache_read", "tokens_cache_write", "tokens_reasoning")


class BudgetName(msgspec.Struct, frozen=True):
    """Whose budget of what: there is one limit for each."""

    scope: Scope
    period: Period
    unit: Unit
    name: str = ""  #: of the user or session


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """A limit, and how much of it is gone."""

    scope: Scope
    name: str  #: of the user or session; nothing for everyone
    period: Period
    unit: Unit
    limit: float  #: tokens, or US dollars
    spent: float
    left: float  #: never below 0
    set_by: str
    set_at: str


class Over(msgspec.Struct, frozen=True):
    """A budget of which nothing is left."""

    name: BudgetName
    spent: int  #: tokens, or billionths of a dollar
    limit: int


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """What one run came to, as it was counted."""

    session_id: str
    run_id: str
    tool: str  #: a name of the catalogue, or `other`
    status: str
    seconds: float | None  #: how long it took; None when it was never begun
    waited: float | None  #: seconds from asking to beginning
    tokens: dict[str, int]  #: by kind; no token is of two kinds
    cost: float | None


def amount(value: float, unit: Unit) -> int:
    """Return tokens or dollars as the whole number that is added up."""
    return round(value * NANO) if unit == "cost" else round(value)


def plain(value: int, unit: Unit) -> float:
    """Return what an amount is in dollars, or as tokens."""
    return value / NANO if unit == "cost" else value


def check_limit(value: float, unit: Unit) -> int:
    """Return a limit as an amount; refuse what is none."""
    most = COST_MAX if unit == "cost" else TOKENS_MAX
    if not 0 <= value <= most or (unit == "tokens" and value != int(value)):
        allowed = f"from 0 to {most:.0f} US dollars" if unit == "cost" else f"a whole number from 0 to {most:.0f}"
        raise InvalidValue(f"{value} is no limit of {unit}", hint=f"{allowed}; 0 lets nothing be run")
    return amount(value, unit)


def check_payer(user: str) -> str:
    """Return a user's name, as settings allow it; refuse anything else."""
    if not user.isprintable() or not 0 < len(user) <= 128:
        raise InvalidValue(f"{user[:40]!r} is not a user's name", hint="1 to 128 printable characters: maestro config")
    return user


def in_words(value: int, unit: Unit) -> str:
    """Say an amount for people: dollars with the cents, and more digits where cents say nothing."""
    if unit == "tokens":
        return f"{value:,} tokens"
    dollars = value / NANO
    return f"${dollars:.2f}" if not dollars or dollars >= 0.1 else f"${dollars:.4f}"


def whose(name: BudgetName) -> str:
    """Say whose budget it is, and of when."""
    of = {"everyone": "everybody's budget", "user": f"the budget of {name.name}"}
    words = of.get(name.scope, f"the budget of session {name.name}")
    return f"{words} for today" if name.period == "day" else words


def used_up(over: Over) -> str:
    """Say which budget is used up, with the sum."""
    unit = over.name.unit
    spent, limit = in_words(over.spent, unit), in_words(over.limit, unit)
    return f"{whose(over.name)} is used up: {spent} of {limit}"


def sound(usage: Usage | None) -> Usage | None:
    """Return what a run says it consumed as amounts that can be added up.

    A record is its session's, and whoever may write there may write anything: nobody takes back what was consumed.
    """
    if usage is None:
        return None
    told = {name: count for name in _COUNTS if (count := getattr(usage, name)) is not None}
    tokens = {name: min(max(0, count), TOKENS_MAX) for name, count in told.items()}
    cost = None if usage.cost is None else min(max(0.0, usage.cost), COST_MAX)
    return msgspec.structs.replace(usage, cost=cost, **tokens)


def tokens_of(usage: Usage | None) -> int | None:
    """Return all tokens of a run; None when its tool told none."""
    told = [one for one in (usage.tokens_input, usage.tokens_output) if one is not None] if usage else []
    return sum(told) if told else None


def tokens_by_kind(usage: Usage | None) -> dict[str, int]:
    """Return the tokens of a run so that each is of one kind: what was cached is no more `input`."""
    if usage is None:
        return {}
    read, written, thought = usage.tokens_cache_read or 0, usage.tokens_cache_write or 0, usage.tokens_reasoning or 0
    found = {
        "input": max(0, (usage.tokens_input or 0) - read - written),
        "cache_read": read,
        "cache_write": written,
        "output": max(0, (usage.tokens_output or 0) - thought),
        "reasoning": thought,
    }
    return {kind: count for kind, count in found.items() if count}


def counted(session_id: str, run: Run, tool: str) -> Counted:
    """Return what a run that is over came to."""
    from maestro_state.clock import from_iso

    asked, began = from_iso(run.created_at), from_iso(run.started_at) if run.started_at else None
    ended = from_iso(run.finished_at) if run.finished_at else None
    return Counted(
        session_id=session_id,
        run_id=run.id,
        tool=tool,
        status=run.status,
        # Clocks of two machines: nothing took less than no time.
        seconds=None if began is None or ended is None else max(0, ended - began) / 1000,
        waited=None if began is None else max(0, began - asked) / 1000,
        tokens=tokens_by_kind(run.usage),
        cost=run.usage.cost if run.usage else None,
    )
