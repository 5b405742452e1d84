"""`maestro use`, `maestro tool …`: the AI tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from maestro_cli import complete as offers
from maestro_cli import output
from maestro_cli.app import App, HandsOn, Noun, json_option, pass_app, tool_options

if TYPE_CHECKING:
    from maestro_state import ToolRow


@click.command(cls=HandsOn)
@click.argument("tool", shell_complete=offers.tools)
@tool_options
@json_option
@pass_app
def use(app: App, /, tool: str, model: str | None, mode: str | None, arguments: tuple[str, ...], as_json: bool) -> None:
    """Choose the tool that runs of this session use, and how it is called.

    TOOL is a name that maestro tool list shows, or a whole command line in quotes; it is split like a shell would and
    never run by one, and gets context and prompt on its standard input. A program named by a relative path is the one
    seen from here, wherever runs are asked for later. What follows -- is handed to the tool with every run.

    \b
    Example:
      maestro use claude --model opus --mode edit
      maestro use codex -- -c model_reasoning_effort=high
      maestro use "sort -u"
    """
    from shlex import join

    used = app.maestro.tools.use(tool, model=model, mode=mode, arguments=arguments)
    if as_json:
        output.document(used)
        return
    chosen = used.tool_active
    how = [f"model {used.model}" if used.model else "", f"mode {used.mode}" if used.mode else "", join(used.arguments)]
    said = " · ".join(output.safe(one) for one in how if one)
    output.line(f"using {output.colour(output.safe(chosen), bold=True)}{f' · {said}' if said else ''}")
    if used.allows:
        output.note(f"it may {used.allows}")
    if not app.maestro.tools.is_installed(tool):  # as it was named: seen from here
        output.warning(f"{output.safe(chosen)} is not installed here: runs fail unless it is where their worker runs")


@click.group(cls=Noun)
def tool() -> None:
    """List and check the AI tools.

    \b
    Example:
      maestro tool check
    """


@tool.command("list")
@json_option
@pass_app
def list_tools(app: App, as_json: bool) -> None:
    """List the tools Maestro knows and what the last check found.

    \b
    Example:
      maestro tool list --json
    """
    rows = app.maestro.tools.list()
    _show(rows, as_json=as_json)
    if not as_json and not any(row.status for row in rows):
        output.note("maestro tool check finds out which of them are installed here")


@tool.command()
@click.argument("name", required=False, shell_complete=offers.tools)
@click.option("--workers", "on_workers", is_flag=True, help="Check what the workers have, instead of this machine.")
@json_option
@pass_app
def check(app: App, name: str | None, on_workers: bool, as_json: bool) -> int:
    """Check which tools are there and which version they have; exits with 1 when one is missing.

    \b
    Example:
      maestro tool check claude
      maestro tool check --workers
    """
    if on_workers:
        return _check_workers(app, name, as_json=as_json)
    with output.status_line() as say:
        if say:
            say("asking the tools for their versions" if name is None else f"asking {name} for its version")
        told = (lambda done, total: say(f"{done} of {total} tools have answered")) if say and name is None else None
        rows = app.maestro.tools.check(name, told=told)
    _show(rows, as_json=as_json)
    return int(any(row.status == "missing" for row in rows))


def _check_workers(app: App, name: str | None, *, as_json: bool) -> int:
    rows = app.maestro.tools.check_workers(name)
    if as_json:
        output.document({"tools": rows})
    else:
        body = []
        for row in rows:
            where = ", ".join(f"{one['host']} ({one['version'] or 'version not known'})" for one in row.workers)
            body.append((output.safe(row.name), _status(row.status), output.safe(where)))
        output.table(("tool", "status", "workers"), body, flexible=2)
    if not rows:
        output.warning("no worker says that it has a tool (maestro workers)")
    return int(not rows or any(row.status == "missing" for row in rows))


def _show(rows: list[ToolRow], *, as_json: bool) -> None:
    if as_json:
        output.document({"tools": rows})
        return
    body = [
        (output.safe(row.name), _status(row.status), output.safe(row.notes or ""), output.safe(row.path or ""))
        for row in rows
    ]
    output.table(("tool", "status", "what it says", "program"), body, flexible=3)


def _status(word: str | None) -> str:
    colours = {"ok": "green", "warn": "yellow", "missing": "red"}
    return output.colour(output.safe(word or "not checked"), colours.get(word or ""))
