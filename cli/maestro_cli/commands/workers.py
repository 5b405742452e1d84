"""`maestro workers`: who carries out runs, and what each has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from maestro_cli import output
from maestro_cli.app import App, json_option, pass_app
from maestro_state.clock import from_iso, now_ms

if TYPE_CHECKING:
    from maestro_state.models.worker import Worker


@click.command()
@json_option
@pass_app
def workers(app: App, as_json: bool) -> None:
    """List the workers that are there: host, runs now and done, tools, labels, projects.

    One row is one maestro worker, which carries out as many runs at once as it was told. A run goes to one that has its
    tool, its folder and its labels. One that was killed is listed for ten seconds more.

    \b
    Example:
      maestro workers
      maestro workers --json
    """
    found = app.maestro.workers.list()
    if as_json:
        output.document({"workers": [{**output.plain(one), "projects": one.projects} for one in found]})
        return
    if not found:
        output.note(_nobody(app))
        return
    for one in found:
        _show(one)


def _nobody(app: App) -> str:
    if app.maestro.address.is_embedded:
        most = app.maestro.settings.workers
        return f"no worker runs now: the stack starts them when a run needs one, {most} at most (MAESTRO_WORKERS)"
    return "no worker is listening: runs wait until one does (maestro worker)"


def _show(worker: Worker) -> None:
    """Print one worker: a few lines on a terminal, one row of a table on a pipe."""
    where = f"{worker.host}:{worker.pid}"
    since = output.ago(from_iso(worker.since), now_ms())
    runs = f"{worker.runs_now} of {worker.runs_at_once}"
    tools = ", ".join(f"{tool.name} {_number(tool.version)}".strip() for tool in worker.tools)
    labels, projects = ", ".join(worker.labels), ", ".join([worker.project, *map("=".join, worker.paths.items())])
    if not output.is_terminal():
        output.table((), [(where, worker.since, runs, str(worker.runs_done), tools, labels, projects)])
        return
    name = output.colour(output.safe(where), bold=True)
    output.line(f"{name}  started {since}, {runs} runs now, {worker.runs_done} done")
    limits = ", ".join(
        f"{count} open {'run' if count == 1 else 'runs'} of a {whose}"
        for count, whose in ((worker.runs_per_user, "user"), (worker.runs_per_session, "session"))
        if count
    )
    for word, text in (("tools", tools), ("labels", labels), ("projects", projects), ("limits", limits)):
        if text:
            output.line(f"  {word:<9} {output.safe(text)}")


def _number(version: str | None) -> str:
    """Return the word of a version text that is the number: of `codex-cli 0.5.0` the last, of others the first."""
    words = [word for word in (version or "").split() if word[:1].isdigit()]
    return words[0].rstrip(",;") if words else ""
