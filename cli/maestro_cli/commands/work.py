"""`maestro work`: the consumer of breadcrumbs."""

from __future__ import annotations

import click

from maestro_cli.app import App, json_option, pass_app


@click.command()
@click.argument("cookie", required=False)
@click.option("--once", is_flag=True, help="Apply what is there, then leave.")
@click.option("--until-idle", type=click.FloatRange(min=0), metavar="SECONDS", help="Leave after so long a silence.")
@json_option
@pass_app
def work(app: App, cookie: str | None, once: bool, until_idle: float | None, as_json: bool) -> None:
    """Apply the breadcrumbs of a work session, each exactly once.

    Takes them from the server and from the files under docs/sessions/, for the work session and all under it, and
    shows them as they are applied. Any number of these may run at once. COOKIE defaults to MAESTRO_COOKIE.

    \b
    Example:
      maestro work latest --once
    """
    from maestro_cli import output
    from maestro_cli.commands.breadcrumbs import cookie_of, event_line

    work_id = app.maestro.work.resolve(cookie_of(app, cookie))
    if once:
        outcome = app.maestro.work.consume(work_id)
        if as_json:
            output.document(outcome)
            return
        output.line(f"{outcome.applied} applied, {outcome.duplicates} duplicates, {len(outcome.rejected)} rejected")
        for one in outcome.rejected:
            output.line(output.safe(f"  {one.source}: {one.reason}"))
        return
    output.note(f"working on {work_id} (Ctrl-C leaves)")
    until_idle_ms = None if until_idle is None else max(1, int(until_idle * 1000))
    for happening in app.maestro.work.follow(work_id, until_idle_ms=until_idle_ms):
        if as_json:
            output.json_line(happening.document())
        else:
            output.line(event_line(happening.document()))
