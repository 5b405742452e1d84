"""`maestro scheduler`: keep house for a team."""

from __future__ import annotations

import click

from maestro_cli import output
from maestro_cli.app import App, pass_app


@click.command()
@pass_app
def scheduler(app: App) -> int:
    """Sweep often and clean up daily, once for the whole team.

    Sessions ended more than MAESTRO_RETENTION_DAYS ago lose outputs that are neither relevant nor the last.

    Any number may run, on any machine: one is in charge, and another takes over when it is gone; the others take
    shares of its sweeps, so that more of them bring more sessions to disk in time. The embedded server needs none: it
    has its own, which cleans up only with MAESTRO_CLEANUP=on. Where cron or systemd timers are at hand, maestro sweep
    and maestro cleanup do the same.

    \b
    Example:
      maestro scheduler
    """
    from maestro_workers.scheduler import run_scheduler

    maestro = app.maestro
    maestro.sessions.newest(1)  # the server is there, or this says why not
    said = f"scheduler for '{maestro.settings.namespace}' (Ctrl-C stops)"
    return run_scheduler(str(maestro.project.root), lambda: output.note(said))
