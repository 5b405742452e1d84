"""`maestro doctor`: is everything as it should be, and what to do if not."""

from __future__ import annotations

import click

from maestro_cli import output
from maestro_cli.app import App, json_option, pass_app


@click.command()
@click.option(
    "--repair", is_flag=True, help="Set what is damaged aside (index, records, end of the server's log), and go on."
)
@json_option
@pass_app
def doctor(app: App, repair: bool, as_json: bool) -> int:
    """Check the server, the disk and the set-up.

    Exits with 1 when a check fails; warnings do not.

    \b
    Example:
      maestro doctor --json
    """
    done = app.maestro.health.repair() if repair else []
    checks = app.maestro.health.checks()
    if as_json:
        output.document({"checks": checks} | ({"repaired": done} if repair else {}))
    else:
        for text in done:
            output.line(text)
        for check in checks:
            mark = output.state_word(check.status) + " " * (5 - len(check.status))
            fix = f"  → {check.fix}" if check.fix else ""
            output.line(f"{mark} {check.name:<12} {output.safe(check.detail + fix)}")
    return int(any(check.status == "fail" for check in checks))
