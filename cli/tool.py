"""`maestro use`, `maestro tool …`: the AI tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cli import offers
from cli.app import App, json_option, pass_app

if TYPE_CHECKING:
    from maestro_state.tools_file import ToolRow


@click.command()
@click.argument("tool", shell_complete=offers.tools)
@json_option
@pass_app
def use(app: App, tool: str, as_json: bool) -> None:
    """Choose the tool that runs of this session use.

    TOOL is a name that maestro tool list shows, or a whole command line in quotes; it is split like a shell would and
    never run by one, and gets context and prompt on its standard input. A program named by a relative path is the one
    seen from here, wherever runs are asked for later.

    \b
    Example:
      maestro use claude
      maestro use "sort -u"
    """
    from cli import output

    chosen = app.maestro.tools.use(tool)
    if as_json:
        output.document({"tool_active": chosen})
        return
    output.line(f"using {output.colour(output.safe(chosen), bold=True)}")
    if not app.maestro.tools.is_installed(tool):  # as it was named: seen from here
        output.warning(f"{output.safe(chosen)} is not installed here: runs fail unless it is where their worker runs")


@click.group()
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
    _show(app.maestro.tools.list(), as_json=as_json)


@tool.command()
@click.argument("name", required=False, shell_complete=offers.tools)
@json_option
@pass_app
def check(app: App, name: str | None, as_json: bool) -> int:
    """Look which tools are there and which version they have; leaves with 1 when one is missing.

    \b
    Example:
      maestro tool check claude
    """
    rows = app.maestro.tools.check(name)
    _show(rows, as_json=as_json)
    return int(any(row.status == "missing" for row in rows))


def _show(rows: list[ToolRow], *, as_json: bool) -> None:
    from cli import output

    if as_json:
        output.document({"tools": rows})
        return
    body = [
        (output.safe(row.name), _status(row.status), output.safe(row.notes or ""), output.safe(row.path or ""))
        for row in rows
    ]
    output.table(("tool", "status", "what it says", "program"), body, flexible=3)


def _status(word: str | None) -> str:
    from cli import output

    colours = {"ok": "green", "warn": "yellow", "missing": "red"}
    return output.colour(output.safe(word or "not checked"), colours.get(word or ""))
