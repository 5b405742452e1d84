"""`maestro worker`: carry out runs."""

from __future__ import annotations

import click

from maestro_cli import output
from maestro_cli.app import App, pass_app


@click.command()
@click.option("--count", type=click.IntRange(1, 256), default=1, metavar="N", help="How many runs at once.")
@click.option("--burst", is_flag=True, help="Exit when nothing waits any more.")
@pass_app
def worker(app: App, count: int, burst: bool) -> int:
    """Carry out runs until told to stop.

    The embedded server brings its own workers; this is for a server that a team shares. Runs asked for on this machine,
    by this user, see the asking terminal's environment. Ctrl-C, or SIGTERM, lets the runs that are under way end within
    MAESTRO_STOP_GRACE_SECONDS; a second one ends them.

    \b
    Example:
      maestro worker --count 4
    """
    from maestro_workers.rq_adapter.client import check_rights
    from maestro_workers.team import work_together

    maestro = app.maestro
    root = str(maestro.project.root)
    maestro.sessions.newest(1)  # the server is there, or this says why not
    check_rights(root, maestro.settings)
    output.note(f"{count} worker{'s' if count > 1 else ''} for '{maestro.settings.namespace}' (Ctrl-C stops)")
    return work_together(root, count, burst=burst)
