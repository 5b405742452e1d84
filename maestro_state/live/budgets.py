"""Budgets: how much users, sessions and everybody may consume, in tokens or money, on a day or in all."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from maestro_state.errors import InvalidValue, NotFound, Refused, ServerUnavailable
from maestro_state.live.records import AsyncRecords
from maestro_state.live.server import AsyncServer
from maestro_state.models.ledger import (
    PERIODS,
    UNITS,
    Budget,
    BudgetName,
    Period,
    Scope,
    Unit,
    check_limit,
    check_payer,
    whose,
)
from maestro_state.net import is_forbidden
from maestro_state.state.calls import ledger as ops
from maestro_state.state.scripts import Call

#: Inside the class, `list` is the verb.
BudgetList = list[Budget]
#: The period of a budget that nobody named one for.
_USUAL: dict[Scope, Period] = {"everyone": "day", "user": "day", "session": "total"}


class AsyncBudgets:
    """Limits of what runs may consume. On a server with accounts, a terminal's may only read them."""

    def __init__(self, server: AsyncServer, sessions: AsyncRecords) -> None:
        """Take the server, and what finds sessions."""
        self._server = server
        self._sessions = sessions

    async def set(
        self,
        *,
        session: str | None = None,
        user: str | None = None,
        everyone: bool = False,
        period: Period | None = None,
        tokens: int | None = None,
        cost: float | None = None,
    ) -> Budget:
        """Set the limit of one user, one session or everyone: `tokens`, or `cost` in US dollars.

        `period` is `day`, which begins at midnight UTC, or `total`; without one, `day`, and `total` of a session.
        """
        unit: Unit = "tokens" if tokens is not None else "cost"
        value = tokens if tokens is not None else cost
        if value is None or (tokens is not None and cost is not None):
            raise InvalidValue("a budget is of tokens or of money", hint="--tokens N, or --cost USD")
        limit = check_limit(value, unit)
        scope, name = await self._payer(session, user, everyone=everyone)
        budget = BudgetName(scope, period or _USUAL[scope], unit, name)
        row = ops.StoredBudget(limit, self._server.terms.user, self._server.now_ms())
        await self._change(ops.set_budget(self._server.terms, budget, row))
        spent = await self._spent([budget])
        return ops.shown(budget, row, spent[budget])

    async def list(self) -> BudgetList:
        """List all budgets with what is left of them."""
        limits: ops.Limits = await self._server.fetch(ops.list_budgets(self._server.terms))
        spent = await self._spent([name for name, _ in limits])
        return [ops.shown(name, row, spent[name]) for name, row in limits]

    async def remove(
        self,
        *,
        session: str | None = None,
        user: str | None = None,
        everyone: bool = False,
        period: Period | None = None,
        unit: Unit | None = None,
    ) -> int:
        """Remove the limits of one user, one session or everyone; all of them, or those of a period or a unit."""
        scope, name = await self._payer(session, user, everyone=everyone, is_old=True)
        units, periods = (unit,) if unit else UNITS, (period,) if period else PERIODS
        named = [BudgetName(scope, one, of, name) for one, of in product(periods, units)]
        removed = await self._change(ops.remove_budget(self._server.terms, named))
        if not removed:
            of = whose(BudgetName(scope, "total", "tokens", name))
            raise NotFound(f"{of} is not there to be removed", hint="maestro budget list")
        return len(removed)

    async def _spent(self, names: Sequence[BudgetName]) -> dict[BudgetName, int]:
        queries = ops.read_sums(self._server.terms, names, self._server.now_ms())
        found = await self._server.fetch_all(queries)
        return {name: spent for some in found for name, spent in some.items()}

    async def _payer(
        self, session: str | None, user: str | None, *, everyone: bool, is_old: bool = False
    ) -> tuple[Scope, str]:
        if (session is not None) + (user is not None) + everyone != 1:
            raise InvalidValue(
                "a budget is of one session, one user, or everyone", hint="--session, --user, --everyone"
            )
        if everyone:
            return "everyone", ""
        if user is not None:
            return "user", check_payer(user)
        try:
            return "session", await self._sessions.resolve(session)
        except NotFound:
            if is_old and any(one.scope == "session" and one.name == session for one in await self.list()):
                return "session", str(session)  # its session is gone; the limit need not stay
            raise

    async def _change(self, call: Call) -> Any:
        try:
            return await self._server.run(call)
        except ServerUnavailable as error:
            if is_forbidden(error):
                raise Refused(
                    "this account of the server may not change budgets",
                    hint="whoever has a worker's or the admin's account may: ask them",
                ) from error
            raise
