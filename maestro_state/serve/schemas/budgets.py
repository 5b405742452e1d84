"""Shapes of budgets."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from maestro_state.models.ledger import COST_MAX, TOKENS_MAX, Budget, Period, Unit
from maestro_state.serve.schemas.common import Line, Said


class Payer(Said, frozen=True, kw_only=True):
    """Whose budget is meant, and of when; one of `session`, `user` and `everyone`."""

    session: Line | None = None
    user: Line | None = None
    everyone: bool = False
    period: Period | None = None


class NewBudget(Payer, frozen=True, kw_only=True):
    """A limit: `tokens`, or `cost` in US dollars. 0 lets nothing be run."""

    tokens: Annotated[int, Meta(ge=0, le=TOKENS_MAX)] | None = None
    cost: Annotated[float, Meta(ge=0, le=COST_MAX)] | None = None


class BudgetQuery(Payer, frozen=True, kw_only=True):
    """Which limits; without `period` or `unit`, those of any."""

    unit: Unit | None = None


class Budgets(msgspec.Struct, frozen=True):
    """Budgets, everybody's first."""

    budgets: list[Budget]


class BudgetsRemoved(msgspec.Struct, frozen=True):
    """How many limits are gone."""

    removed: int
