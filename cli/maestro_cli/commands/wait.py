"""`maestro wait`: return when runs are over, and say how they ended."""

from __future__ import annotations

import click

from maestro_cli import complete as offers
from maestro_cli.app import App, json_option, pass_app
from maestro_cli.screen.notifying import notify_option, tell


@click.command()
@click.argument("run_ids", metavar="[RUN]...", nargs=-1, shell_complete=offers.runs)
@notify_option
@json_option
@pass_app
def wait(app: App, run_ids: tuple[str, ...], notify: bool, as_json: bool) -> int:
    """Return when runs are over: with 0 if all of them succeeded, else with 1.

    Without RUN it waits for every run of the session that is open now. Leaving with Ctrl-C ends none of them.

    \b
    Example:
      maestro run --detach "review this" && maestro wait --notify
      maestro wait 3 4 --json
    """
    from maestro_cli import output

    ended = []
    with output.status_line() as say:
        for run in app.maestro.runs.wait_each(run_ids):
            ended.append(run)
            if notify:
                tell(app.maestro.settings.notify, run)
            if not as_json:
                reason = f": {run.error}" if run.error and run.status != "success" else ""
                output.line(output.safe(f"{run.id} {run.status}{reason}"))
            elif say is not None:
                say(f"{run.id} {run.status}")
    if as_json:
        output.document({"runs": ended})
    elif not ended:
        output.note("no run is open")
    return int(any(run.status != "success" for run in ended))
