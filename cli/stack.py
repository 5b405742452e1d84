"""`maestro stack …`: the embedded server of this project."""

from __future__ import annotations

import click

from cli.app import App, json_option, pass_app


@click.group()
def stack() -> None:
    """Look after the embedded server.

    It starts by itself with the first command and stops by itself when nobody uses it.

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
    from cli import output

    found = app.maestro.stack.status()
    if as_json:
        output.document(found)
        return
    if not found.running:
        output.line("not running (the next command starts it)")
        return
    output.line(f"running  {found.server_version}  pid {found.pid}  workers {found.workers}")
    output.line(f"  {output.safe(found.address)}")


@stack.command()
@json_option
@pass_app
def stop(app: App, as_json: bool) -> None:
    """Stop the embedded server; everything stays on disk and the next command starts it again.

    \b
    Example:
      maestro stack stop
    """
    from cli import output

    was_running = app.maestro.stack.stop()
    if as_json:
        output.document({"stopped": was_running})
    else:
        output.line("stopped" if was_running else "it was not running")
