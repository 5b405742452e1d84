"""`maestro doctor`: is everything as it should be, and what to do if not."""

from __future__ import annotations

import click

from maestro_cli import output
from maestro_cli.app import App, json_option, pass_app

#: Where the words about a check begin, and the least room they are given.
_INDENT, _LEAST_COLUMNS = 19, 20


@click.command()
@click.option(
    "--repair", is_flag=True, help="Set what is damaged aside (index, records, end of the server's log), and go on."
)
@click.option(
    "--as",
    "duty",
    type=click.Choice(["worker", "scheduler", "serve"]),
    help="Fail unless this machine does that: what containers are checked with.",
)
@click.option(
    "--port", default=4175, show_default=True, type=click.IntRange(1, 65535), metavar="PORT", help="Port of --as serve."
)
@json_option
@pass_app
def doctor(app: App, repair: bool, duty: str | None, port: int, as_json: bool) -> int:
    """Check the server, the disk and the set-up.

    Exits with 1 when a check fails; warnings do not.

    \b
    Example:
      maestro doctor --json
      maestro doctor --as worker
    """
    done = app.maestro.health.repair() if repair else []
    checks = app.maestro.health.checks(duty, port)
    if as_json:
        output.document({"checks": checks} | ({"repaired": done} if repair else {}))
    else:
        for text in done:
            output.line(text)
        for check in checks:
            mark = output.state_word(check.status) + " " * (5 - len(check.status))
            first, *more = _rows(check.detail, check.fix)
            output.line(f"{mark} {check.name:<12} {first}")
            for row in more:
                output.line(" " * _INDENT + row)
    return int(any(check.status == "fail" for check in checks))


def _rows(detail: str, fix: str | None) -> list[str]:
    """Return what there is to say about a check; on a terminal in rows that fit, what to do on one of its own."""
    detail, fix = output.safe(detail), output.safe(fix or "")
    if not output.is_terminal():
        return [detail + (f"  → {fix}" if fix else "")]
    room = max(_LEAST_COLUMNS, output.screen_columns() - _INDENT)
    return [row for text in (detail, f"→ {fix}" if fix else "") if text for row in output.rows_of(text, room)] or [""]
