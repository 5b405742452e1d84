"""`maestro budget …`: how much may be consumed, and by whom."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from maestro_cli import output
from maestro_cli.app import App, Noun, json_option, pass_app
from maestro_cli.screen import figures

if TYPE_CHECKING:
    from maestro_state.models.ledger import Budget

#: Budgets that are shown beside something else.
_SHOWN = 10


@click.group(cls=Noun)
def budget() -> None:
    """Limit what runs may consume: tokens or money, of a user, a session or everyone.

    A run is refused when a budget is used up, and one that goes beyond it while it runs is ended.

    \b
    Example:
      maestro budget set --user ana --cost 5
    """


def _payer(command: Callable[..., None]) -> Callable[..., None]:
    """Add what says whose budget is meant, and of when."""
    for option in (
        click.option("--total", "period", flag_value="total", help="Of all days (usual for a session)."),
        click.option("--day", "period", flag_value="day", help="Of each day, from midnight UTC (usual for others)."),
        click.option("--everyone", is_flag=True, help="All runs of this server's namespace together."),
        click.option("--user", metavar="NAME", help="Runs that this user asks for."),
        click.option("--session", metavar="REF", help="Runs of this session."),
    ):
        command = option(command)
    return command


@budget.command("set")
@_payer
@click.option("--tokens", type=int, metavar="N", help="The limit in tokens, in and out together.")
@click.option("--cost", type=float, metavar="USD", help="The limit in US dollars, as the tools tell what they cost.")
@json_option
@pass_app
def set_budget(app: App, /, tokens: int | None, cost: float | None, as_json: bool, **payer: Any) -> None:
    """Set a limit, in the place of the one there was. 0 lets nothing be run.

    \b
    Example:
      maestro budget set --user ana --cost 5
      maestro budget set --session fix-login --tokens 2000000
      maestro budget set --everyone --day --cost 50
    """
    made = app.maestro.budgets.set(tokens=tokens, cost=cost, **payer)
    if as_json:
        output.document(made)
        return
    left = f"{_shown(made.left, made.unit)} left" if made.left else "used up already"
    output.line(f"{_whose(made)}: at most {_shown(made.limit, made.unit)} {_period(made)}, {left}")


@budget.command("list")
@json_option
@pass_app
def list_budgets(app: App, as_json: bool) -> None:
    """List budgets with what is left of each, and who set it.

    \b
    Example:
      maestro budget list
    """
    found = app.maestro.budgets.list()
    if as_json:
        output.document({"budgets": found})
        return
    if not found:
        output.note("no budgets: maestro budget set --user NAME --cost USD")
        return
    if not output.is_terminal():
        output.table(("",) * 9, [_exact(one) for one in found])
        return
    rows = [(_whose(one), _period(one), _shown(one.limit, one.unit), *_gone(one), output.safe(one.set_by))
            for one in found]  # fmt: skip
    output.table(("budget of", "for", "limit", "consumed", "left", "set by"), rows)


@budget.command("remove")
@_payer
@click.option("--tokens", "unit", flag_value="tokens", help="Only a limit of tokens.")
@click.option("--cost", "unit", flag_value="cost", help="Only a limit of money.")
@json_option
@pass_app
def remove_budget(app: App, /, as_json: bool, **payer: Any) -> None:
    """Remove the limits of a user, a session or everyone: all of them, or those that are named.

    \b
    Example:
      maestro budget remove --user ana --cost
    """
    removed = app.maestro.budgets.remove(**payer)
    output.result({"removed": removed}, f"{output.counted(removed, 'limit')} removed", as_json=as_json)


def lines(budgets: list[Budget]) -> list[str]:
    """Say of each budget how much of it is gone, for those who ask what was consumed; of many, of the first."""
    more = [f"and {len(budgets) - _SHOWN} more budgets: maestro budget list"] if len(budgets) > _SHOWN else []
    return [
        f"budget of {_whose(one)} {_period(one)}: {_shown(one.spent, one.unit)} of {_shown(one.limit, one.unit)}"
        f"{'' if one.left else ', used up'}"
        for one in budgets[:_SHOWN]
    ] + more


def _whose(one: Budget) -> str:
    return "everyone" if one.scope == "everyone" else f"{one.scope} {output.safe(one.name)}"


def _period(one: Budget) -> str:
    return "today" if one.period == "day" else "in all"


def _shown(value: float, unit: str) -> str:
    if unit == "cost":
        return figures.money(value)
    return f"{figures.count(int(value))} token{'' if int(value) == 1 else 's'}"


def _gone(one: Budget) -> tuple[str, str]:
    """Return what is consumed and what is left, without the word that stands beside the limit."""
    shown = figures.money if one.unit == "cost" else lambda value: figures.count(int(value))
    return shown(one.spent), shown(one.left) if one.left else "used up"


def _exact(one: Budget) -> list[str]:
    amounts = [f"{value:.9f}".rstrip("0").rstrip(".") for value in (one.limit, one.spent, one.left)]
    return [one.scope, one.name, one.period, one.unit, *amounts, one.set_by, one.set_at]
