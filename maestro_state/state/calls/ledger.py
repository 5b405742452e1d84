"""Calls on the ledger: what runs consumed, by user, session and day, and what they may; what is counted for metrics.

Whoever carries a run out charges it as its tool tells, and counts it when it is over. What a run is charged replaces
what it was charged before, and a run is counted once, by its name: both may be repeated by anybody.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import msgspec

from maestro_state.clock import iso
from maestro_state.errors import Refused
from maestro_state.models.ledger import (
    PERIODS,
    SCOPES,
    UNITS,
    Budget,
    BudgetName,
    Counted,
    Over,
    Scope,
    amount,
    plain,
    tokens_of,
)
from maestro_state.models.run import Run, Usage
from maestro_state.models.schema import SCHEMA, check
from maestro_state.state.calls.contents import LOST
from maestro_state.state.calls.replies import text, word_of
from maestro_state.state.calls.terms import Terms
from maestro_state.state.keys import LEDGER_KEYS
from maestro_state.state.scripts import Call, Query, load

#: How long the ledger is kept after something was last written to it, in milliseconds.
KEEP_MS = 400 * 24 * 3600 * 1000
#: How long it is known that a run was counted, in milliseconds: longer than any job of it waits.
COUNTED_MS = 8 * 24 * 3600 * 1000
#: Budgets at most.
BUDGETS_MAX = 10_000

#: Upper bounds of the buckets that runs are counted in by how long they took, and by how long they waited, in seconds.
RUN_BUCKETS = (0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
WAIT_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)

#: Between the parts of a counter's name; no label has it.
SEPARATOR = "|"


class StoredBudget(msgspec.Struct, frozen=True):
    """A budget as it is stored: the limit is an amount, which charge_run.lua compares."""

    limit: int
    set_by: str
    set_ms: int
    schema: int = SCHEMA


def day_of(now_ms: int) -> str:
    """Return the day of a moment, in UTC: a team has one, wherever its machines are."""
    return iso(now_ms)[:10]


def run_name(session_id: str, run_id: str) -> str:
    """Return the name by which a run is counted once."""
    return f"{session_id}/{run_id}"


def charge_run(
    terms: Terms,
    session_id: str,
    run_id: str,
    user: str,
    usage: Usage | None,
    now_ms: int,
    *,
    is_beginning: bool = False,
) -> Call:
    """Charge an open run what its tool has told so far; answers which budget is used up, None while none is."""
    args = _charge(session_id, run_id, user, usage, now_ms)
    return _call(terms, session_id, now_ms, (*args, "1" if is_beginning else "", ""), _over)


def count_run(terms: Terms, run: Run, found: Counted, now_ms: int) -> Call:
    """Count a run that is over; answers False when that was done before."""
    args = _charge(found.session_id, run.id, run.user or "", run.usage, now_ms)
    facts = [part for fact in _facts(found) for part in fact]
    if run.error == LOST:
        facts += (counter("errors", "run_lost"), 1)
    return _call(terms, found.session_id, now_ms, (*args, "", run.status, *facts), _is_new)


def drop_run(terms: Terms, session_id: str, run_id: str, now_ms: int) -> Call:
    """Take a run off the open ones that nobody knows any more; what it was charged stays."""
    args = _charge(session_id, run_id, "", None, now_ms)
    return _call(terms, session_id, now_ms, (*args, "", "gone"), _is_new)


def _charge(session_id: str, run_id: str, user: str, usage: Usage | None, now_ms: int) -> tuple[Any, ...]:
    tokens, cost = tokens_of(usage), usage.cost if usage else None
    told = "" if tokens is None else tokens, "" if cost is None else amount(cost, "cost")
    return (run_name(session_id, run_id), now_ms, KEEP_MS, COUNTED_MS, user, session_id, *told)


def _call(terms: Terms, session_id: str, now_ms: int, args: tuple[Any, ...], read: Any) -> Call:
    return Call(load("charge_run"), terms.keys.ledger(day_of(now_ms), session_id), args, read)


def _over(reply: list[Any]) -> Over | None:
    if text(reply[0]) != "OVER":
        return None
    return Over(_name(reply[1]), int(reply[2]), int(reply[3]))


def _is_new(reply: list[Any]) -> bool:
    return text(reply[0]) != "COUNTED"


def _facts(run: Counted) -> Iterator[tuple[str, int]]:
    """Yield the counters that a run adds to, and by how much: whole numbers only."""
    yield counter("runs", run.tool, run.status), 1
    if run.seconds is not None:
        yield from _observed("run_seconds", run.tool, run.seconds, RUN_BUCKETS)
    if run.waited is not None:
        yield from _observed("wait_seconds", "", run.waited, WAIT_BUCKETS)
    for kind, count in run.tokens.items():
        yield counter("tokens", run.tool, kind), count
    if run.cost:
        yield counter("cost", run.tool), amount(run.cost, "cost")


def _observed(name: str, label: str, seconds: float, bounds: Sequence[float]) -> Iterator[tuple[str, int]]:
    at = bisect_left(bounds, seconds)
    yield counter(name, label, str(bounds[at]) if at < len(bounds) else "+Inf"), 1
    yield counter(f"{name}_sum", label), round(seconds * 1000)


def counter(*parts: str) -> str:
    """Return the name of a counter."""
    return SEPARATOR.join(parts)


def count_errors(terms: Terms, kind: str, count: int) -> Call:
    """Count what went wrong, by kind."""
    args = (counter("errors", kind), count, KEEP_MS)
    return Call(load("count_errors"), terms.keys.ledger(), args, word_of)


def mend_ledger(terms: Terms, now_ms: int) -> Call:
    """Drop what is of a wrong type in the ledger; answers how many keys that were."""
    types = tuple(key.type for key in LEDGER_KEYS)
    return Call(load("mend_ledger"), terms.keys.ledger(day_of(now_ms)), types, lambda reply: int(reply[1]))


def read_counters(terms: Terms) -> Query:
    """Read all counters: as many as there are tools and outcomes, however much was counted."""

    def read(reply: list[bytes]) -> dict[str, int]:
        return {text(name): int(value) for name, value in zip(reply[::2], reply[1::2], strict=True)}

    return Query(("HGETALL", terms.keys.ledger()[0]), read)


def uncounted_runs(terms: Terms) -> Query:
    """Read the runs that were begun and not counted, by session and number: few, those that are open."""

    def read(reply: list[bytes]) -> list[tuple[str, str]]:
        parts = (name.decode(errors="replace").partition("/") for name in reply)
        return [(session_id, run_id) for session_id, _, run_id in parts]

    return Query(("HKEYS", terms.keys.ledger()[2]), read)


def _field(name: BudgetName) -> str:
    """Return a budget's name as it is stored; the user's comes last, because it may be any text."""
    return f"{name.scope}:{name.period}:{name.unit}:{name.name}"


def _name(field: bytes) -> BudgetName:
    scope, period, unit, name = text(field).split(":", 3)
    return msgspec.convert({"scope": scope, "period": period, "unit": unit, "name": name}, BudgetName)


def budget_names(user: str, session_id: str) -> list[BudgetName]:
    """Return the budgets that a run of a user in a session may use up."""
    payers: tuple[tuple[Scope, str], ...] = (("everyone", ""), ("user", user), ("session", session_id))
    return [BudgetName(scope, period, unit, name) for (scope, name), period, unit in product(payers, PERIODS, UNITS)]


def read_limits(terms: Terms, names: Sequence[BudgetName]) -> Query:
    """Read the limits of those budgets that there are."""
    command = ("HMGET", terms.keys.ledger()[1], *map(_field, names))
    return Query(
        command, lambda reply: {name: _stored(row).limit for name, row in zip(names, reply, strict=True) if row}
    )


def read_sums(terms: Terms, names: Sequence[BudgetName], now_ms: int) -> list[Query]:
    """Read what budgets are compared with, by name: one read for each key that has some of it."""
    by_key: dict[tuple[str, str], list[BudgetName]] = {}
    for name in names:
        is_session = name.scope == "session" and name.period == "total"
        by_key.setdefault((name.period, name.name if is_session else ""), []).append(name)
    today = day_of(now_ms)
    found = []
    for (period, session_id), some in by_key.items():
        totals, day, spent = terms.keys.ledger(today, session_id or "-")[-3:]
        found.append(_sums(day if period == "day" else spent if session_id else totals, some))
    return found


def _sums(key: str, names: list[BudgetName]) -> Query:
    def read(reply: list[bytes | None]) -> dict[BudgetName, int]:
        return {name: int(value or 0) for name, value in zip(names, reply, strict=True)}

    return Query(("HMGET", key, *(f"{name.scope}:{name.unit}:{name.name}" for name in names)), read)


def first_over(limits: dict[BudgetName, int], sums: dict[BudgetName, int]) -> Over | None:
    """Return the first budget of which nothing is left."""
    return next((Over(name, sums[name], limit) for name, limit in limits.items() if sums[name] >= limit), None)


def set_budget(terms: Terms, name: BudgetName, row: StoredBudget) -> Call:
    """Set a limit; answers what it was before, None when there was none."""

    def read(reply: list[Any]) -> int | None:
        if text(reply[0]) == "FULL":
            raise Refused(f"there are {BUDGETS_MAX} budgets already", hint="maestro budget remove")
        return _stored(reply[1]).limit if len(reply) > 1 and reply[1] else None

    args = (_field(name), msgspec.json.encode(row), KEEP_MS, BUDGETS_MAX)
    return Call(load("set_budget"), terms.keys.ledger(), args, read)


def remove_budget(terms: Terms, names: Sequence[BudgetName]) -> Call:
    """Remove limits; answers which there were."""

    def read(reply: list[Any]) -> list[BudgetName]:
        return [_name(one) for one in reply[1]]

    return Call(load("remove_budget"), terms.keys.ledger(), tuple(map(_field, names)), read)


Limits = list[tuple[BudgetName, StoredBudget]]


def list_budgets(terms: Terms) -> Query:
    """Read all limits, everybody's first."""

    def read(reply: list[bytes]) -> Limits:
        rows = [(_name(name), _stored(row)) for name, row in zip(reply[::2], reply[1::2], strict=True)]
        return sorted(rows, key=lambda row: (SCOPES.index(row[0].scope), row[0].name, row[0].period, row[0].unit))

    return Query(("HGETALL", terms.keys.ledger()[1]), read)


def _stored(row: bytes) -> StoredBudget:
    found = msgspec.json.decode(row, type=StoredBudget)
    check("a budget", str(found.schema).encode())
    return found


def shown(name: BudgetName, row: StoredBudget, spent: int) -> Budget:
    """Return a budget as it is shown."""
    return Budget(
        scope=name.scope,
        name=name.name,
        period=name.period,
        unit=name.unit,
        limit=plain(row.limit, name.unit),
        spent=plain(spent, name.unit),
        left=plain(max(0, row.limit - spent), name.unit),
        set_by=row.set_by,
        set_at=iso(row.set_ms),
    )
