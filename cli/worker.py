"""`maestro worker`: carry out runs."""

from __future__ import annotations

import click

from cli.app import App, pass_app


@click.command()
@click.option("--count", type=click.IntRange(1, 256), default=1, metavar="N", help="How many runs at once.")
@click.option("--burst", is_flag=True, help="Leave when nothing waits any more.")
@pass_app
def worker(app: App, count: int, burst: bool) -> int:
    """Carry out runs until told to stop.

    The embedded server brings a worker of its own; this is for more of them, and for a server that a team shares.
    Ctrl-C lets the run that is under way finish, a second one ends it.

    \b
    Example:
      maestro worker --count 4
    """
    from cli import output
    from workers.worker import check_rights, work

    maestro = app.maestro
    root = str(maestro.project.root)
    maestro.sessions.newest(1)  # the server is there, or this says why not
    check_rights(root, maestro.settings)
    output.note(f"{count} worker{'s' if count > 1 else ''} for '{maestro.settings.namespace}' (Ctrl-C stops)")
    if count == 1:
        return work(root, burst=burst)
    from workers.pool import work_together

    return work_together(root, count, burst=burst)
