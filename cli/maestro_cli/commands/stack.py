"""`maestro stack …`: the embedded server of this project."""

from __future__ import annotations

import click

from maestro_cli import output
from maestro_cli.app import App, Noun, json_option, pass_app


@click.group(cls=Noun)
def stack() -> None:
    """Show and stop the embedded server.

    It starts by itself with the first command and stops by itself when nobody uses it. With MAESTRO_SERVE_PORT it also
    serves HTTP on this machine, and stays.

    \b
    Example:
      maestro stack status
    """


@stack.command()
@json_option
@pass_app
def status(app: App, as_json: bool) -> None:
    """Tell whether the embedded server runs, and where.

    \b
    Example:
      maestro stack status --json
    """
    app.heals = False
    found = app.maestro.stack.status()
    if as_json:
        output.document(found)
        return
    if not found.running:
        output.line("not running (the next command starts it)")
        return
    output.line(f"running  {found.server_version}  pid {found.pid}  workers {found.workers}")
    output.line(f"  {output.safe(found.address)}")
    if found.serve:
        output.line(f"  {found.serve}")


@stack.command()
@json_option
@pass_app
def stop(app: App, as_json: bool) -> int:
    """Stop the embedded server; everything stays on disk and the next command starts it again.

    Runs that are going end with it, and it is said of which sessions; maestro wait first waits for those of one.
    Sessions with changes are written to disk first. Exits with 1 when some could not be: nothing is lost, they are in
    the server's own file and written the next time.

    \b
    Example:
      maestro stack stop
    """
    shown, most = output.Progress("sessions written to disk:"), 0

    def show(left: int) -> None:
        nonlocal most
        most = max(most, left)
        shown.update(most - left, most)

    app.heals = False
    found = app.maestro.stack.stop(show)
    shown.done()
    output.result(found, "stopped" if found.stopped else "it was not running", as_json=as_json)
    if found.with_runs and not as_json:
        first, more = found.with_runs[0], len(found.with_runs) - 1
        whose = first + (f" and of {output.counted(more, 'other session')}" if more else "")
        output.warning(f"runs of {whose} were open: what was going has ended (maestro runs)")
    if found.unwritten:
        what = "1 session is" if found.unwritten == 1 else f"{found.unwritten} sessions are"
        where = "kept in the server's own file, .maestro/server, and written when it runs again"
        output.warning(f"{what} not archived: {where} (maestro sweep says why)")
    return int(found.unwritten > 0)
