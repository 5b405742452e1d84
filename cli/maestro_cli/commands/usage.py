"""`maestro usage`: what runs consumed, added up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from maestro_cli import output
from maestro_cli.app import App, json_option, pass_app
from maestro_cli.screen import figures

if TYPE_CHECKING:
    from maestro_state.models.usage import UsageReport, UsageRow, UsageTotal

#: As `maestro_state.models.usage` has them: the help screen does not import it.
_BY = ("day", "tool", "model", "session", "user")
#: Widest name of a row, and widest bar, in columns.
_KEY_COLUMNS, _BAR_COLUMNS = 32, 40
#: Parts of a column that a bar may end in.
_EIGHTHS = " ▏▎▍▌▋▊▉█"


@click.command()
@click.option("--by", type=click.Choice(_BY), default="day", show_default=True, help="What to add up by.")
@click.option("--since", metavar="TIME", help="Only runs asked for since then: 30d, 24h, 2026-11-01, or a time.")
@json_option
@pass_app
def usage(app: App, by: str, since: str | None, as_json: bool) -> None:
    """Add up runs, tokens and cost over live and archived sessions.

    Each run counts once; dry ones, which executed nothing, do not. Cost is what the tools say themselves. Budgets are
    shown with what is gone of them.

    \b
    Example:
      maestro usage --by model --since 30d
    """
    found = app.maestro.usage(by=by, since=since)
    if as_json:
        output.document(found)
        return
    if not output.is_terminal():
        output.table(("", "", "", "", ""), [_exact(row) for row in found.rows])
    elif found.rows:
        _show(found, since)
    else:
        output.note("no runs yet" if since is None else f"no runs since {since}")
    if output.is_terminal():
        from maestro_cli.commands.budget import lines

        for line in lines(found.budgets):
            output.note(line)
    if found.skipped:
        output.warning(f"could not be read and is not counted: {', '.join(found.skipped)} → maestro verify")


def _exact(row: UsageRow) -> list[str]:
    cost = "" if row.runs == row.runs_without_cost else f"{row.cost}"
    return [row.key, str(row.runs), str(row.tokens_input), str(row.tokens_output), cost]


def _show(found: UsageReport, since: str | None) -> None:
    """Show a table with a bar for each row: of the cost, or where no tool tells it, of tokens or runs."""
    rows = [_cells(row.key, row) for row in found.rows]
    total = _cells("total", found.total)
    header = [found.by, "runs", "in", "out", "cost"]
    widths = [max(map(output.width_of, column)) for column in zip(header, total, *rows, strict=True)]
    room = min(_BAR_COLUMNS, output.screen_columns() - sum(widths) - 2 * len(widths))
    shares, of = _shares(found)
    of = f"share of {of}"
    output.line(output.colour(f"{_aligned(header, widths)}  {of}" if room >= len(of) else _aligned(header, widths),
                              bold=True))  # fmt: skip
    for cells, share in zip(rows, shares, strict=True):
        output.line(f"{_aligned(cells, widths)}  {output.colour(_bar(share, room), 'cyan')}".rstrip())
    output.line(output.colour(_aligned(total, widths), bold=True))
    missing = found.total.runs_without_cost
    if missing:
        it = "it" if missing == 1 else "they"
        output.note(f"{missing} of {output.counted(found.total.runs, 'run')} did not tell what {it} cost")
    if since is None:
        output.note("all live and archived sessions (--since 30d: fewer; --by tool: another view)")


def _cells(key: str, row: UsageRow | UsageTotal) -> list[str]:
    tokens = [figures.count(number) if number else "" for number in (row.tokens_input, row.tokens_output)]
    cost = "" if row.runs == row.runs_without_cost else figures.money(row.cost)
    return [output.clip_middle(" ".join(output.safe(key).split()), _KEY_COLUMNS), str(row.runs), *tokens, cost]


def _aligned(cells: list[str], widths: list[int]) -> str:
    """Return a row: the name at the left, numbers at the right of their columns."""
    first = cells[0] + " " * (widths[0] - output.width_of(cells[0]))
    return "  ".join([first, *(cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True))])


def _shares(found: UsageReport) -> tuple[list[float], str]:
    """Return how long each bar is beside the longest one, and what bars are of."""
    amounts: list[float] = []
    of = "runs"
    for of in ("cost", "tokens", "runs"):
        amounts = [_amount(row, of) for row in found.rows]
        if any(amounts):
            break
    most = max(amounts)
    return [amount / most if most else 0 for amount in amounts], of


def _amount(row: UsageRow, of: str) -> float:
    return {"cost": row.cost, "tokens": row.tokens_input + row.tokens_output, "runs": row.runs}[of]


def _bar(share: float, columns: int) -> str:
    """Draw a bar to an eighth of a column; what is not nothing is at least that."""
    eighths = max(1 if share > 0 else 0, round(share * max(0, columns) * 8)) if columns > 0 else 0
    return _EIGHTHS[8] * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
