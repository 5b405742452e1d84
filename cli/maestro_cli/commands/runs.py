"""`maestro runs`, `show`, `wait`, `cancel`: the runs there are; `run.py` starts one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from maestro_cli import complete as offers
from maestro_cli import output
from maestro_cli.app import App, json_option, pass_app
from maestro_cli.screen import figures
from maestro_cli.screen.notifying import notify_option, tell

if TYPE_CHECKING:
    from maestro_state.models.run import Run


@click.command()
@json_option
@pass_app
def runs(app: App, as_json: bool) -> None:
    """List the runs of a session.

    Tokens are what went in and what came out; ↳0001 means that it goes on with the conversation of that run, ↑ and ↓
    that its priority is high or low.

    \b
    Example:
      maestro runs --json
    """
    found = app.maestro.runs.list()
    if as_json:
        output.document({"runs": found})
        return
    if not found:
        output.note('no runs yet: maestro run "what shall it do?"')
        return
    output.table(*_columns(found), flexible=_PROMPT)
    if output.is_terminal():
        for told in _below(found):
            output.line(output.fit(told))


#: Where the prompt stands in a row.
_PROMPT = 6
#: What stands before it where it was not asked for like most.
_PRIORITY_MARKS = {"high": "↑ ", "low": "↓ "}
#: How many of the last failed runs have their reason below the list.
_REASONS = 3
#: From so many columns on there is more to see,
_WIDE = 110
#: while a tool that is a whole command line, and a model, leave room for the prompt.
_TOOL_COLUMNS, _MODEL_COLUMNS = 10, 16


def _columns(found: list[Run]) -> tuple[list[str], list[list[str]]]:
    """Return header and rows: what fits 80 columns; more where there is room, and all for a pipe."""
    header = ["run", "tool", "status", "took", "tokens", "cost", "prompt"]
    is_pipe = not output.is_terminal()
    is_wide = is_pipe or output.screen_columns() >= _WIDE
    if is_wide:
        header += ["model", "output", "remark"] if is_pipe else ["model", "asked by"]
    rows = []
    for run in found:
        tool, model = run.tool, figures.model(run)
        if not is_pipe:
            tool = output.clip(output.safe(tool), _TOOL_COLUMNS)
            model = output.clip(output.safe(model), _MODEL_COLUMNS)
        before = _PRIORITY_MARKS.get(run.priority or "", "") + (f"↳{run.continues} " if run.continues else "")
        row = [
            run.id,
            tool,
            output.state_word(run.status),
            figures.took(run),
            figures.tokens(run.usage),
            figures.cost(run.usage),
            before + (run.prompt_preview or ""),
        ]
        more = [model, _size(run), _remark(run)] if is_pipe else [model, figures.asker(run)]
        rows.append([*row, *more] if is_wide else row)
    return header, rows


def _below(found: list[Run]) -> Iterator[str]:
    """Yield what a row has no room for: why the last runs failed, and whose output is not there any more."""
    yield from (f"{run.id} {_ended(run)}" for run in [run for run in found if run.error][-_REASONS:])
    removed = [run for run in found if _removed_at(run)]
    if removed:
        last = (_removed_at(removed[-1]) or "")[:10]
        yield f"removed by cleanup, last on {last}: {', '.join(run.id for run in removed)}"


def _ended(run: Run) -> str:
    """Say how a run ended and why, its status once: `canceled while it ran`, `error: …`."""
    error = run.error or run.status
    return error if error.startswith(run.status) else f"{run.status}: {error}"


def _remark(run: Run) -> str:
    """Say what there is to say beside the numbers; first of all that something is not there any more."""
    removed_at = _removed_at(run)
    told = f"removed by cleanup on {removed_at[:10]}" if removed_at else ""
    return " · ".join(part for part in (told, run.error or "") if part)


def _removed_at(run: Run) -> str | None:
    return run.removed_at or (run.output_ref.removed_at if run.output_ref else None)


def _size(run: Run) -> str:
    size = run.output_ref.size if run.output_ref else None
    return "" if size is None else f"{size} B" if size < 10_000 else f"{size / 1024:.0f} KiB"


@click.command()
@click.argument("run_id", metavar="[RUN]", default="last", shell_complete=offers.runs)
@click.option("--prompt", "part", flag_value="prompt", help="What was asked.")
@click.option("--context", "part", flag_value="context", help="What was sent of the context.")
@click.option("--meta", "part", flag_value="meta", help="How it went.")
@click.option("--raw", is_flag=True, help="Exactly its bytes, also on a terminal.")
@json_option
@pass_app
def show(app: App, run_id: str, part: str | None, raw: bool, as_json: bool) -> None:
    """Show what a run printed.

    RUN is its number, or last: the newest successful one with output.

    \b
    Example:
      maestro show 2 --prompt
      maestro show > answer.txt
    """
    room = app.maestro.runs
    run = room.read(run_id)
    if part == "meta":
        output.document({"run": run} if as_json else run)
    elif part == "context":
        sent = room.sent(run.id)
        if as_json:
            output.document({"run": run, "context": sent})
        else:
            rows = [(one.id, one.kind, output.safe(one.path_rel or ""), one.digest[:12]) for one in sent]
            output.table(("item", "kind", "path", "digest"), rows)
    elif part == "prompt":
        prompt = room.prompt(run)
        if as_json:
            output.document({"run": run, "prompt": prompt.decode(errors="replace")})
        else:
            output.raw(prompt, exact=raw)
            output.end_line(prompt)
    elif removed_at := _removed_at(run):
        if as_json:
            output.document({"run": run, "output": None})
        else:
            what = f"the output of run {run.id} ({_size(run)})" if run.output_ref else f"run {run.id}, a dry one,"
            output.warning(f"{what} was removed by cleanup on {removed_at}")
    elif as_json:
        output.document({"run": run, "output": room.output(run.id).decode(errors="replace")})
    else:
        _show_output(app, run, raw=raw)


def _show_output(app: App, run: Run, *, raw: bool) -> None:
    last = b"\n"
    for chunk in app.maestro.runs.chunks(run.id):
        output.raw(chunk, exact=raw)
        last = chunk
    output.end_line(last)
    if run.status != "success":
        output.note(f"run {run.id}: {_ended(run)}")


@click.command()
@click.argument("run_id", metavar="[RUN]", required=False, shell_complete=offers.runs)
@click.option("--wait", is_flag=True, help="Return when it has ended.")
@json_option
@pass_app
def cancel(app: App, run_id: str | None, wait: bool, as_json: bool) -> None:
    """Cancel a run.

    It does not matter which terminal started it; without RUN it is the newest open one.

    \b
    Example:
      maestro cancel 3
    """
    run = app.maestro.runs.cancel(run_id)
    if wait:
        run = app.maestro.runs.wait(run)
    output.result(run, f"{run.id} {'is being canceled' if run.status == 'running' else run.status}", as_json=as_json)


@click.command()
@click.argument("run_ids", metavar="[RUN]...", nargs=-1, shell_complete=offers.runs)
@notify_option
@json_option
@pass_app
def wait(app: App, run_ids: tuple[str, ...], notify: bool, as_json: bool) -> int:
    """Return when runs are over: with 0 if all of them succeeded, else with 1.

    Without RUN it waits for every run of the session that is open now. Ctrl-C ends none of them.

    \b
    Example:
      maestro run --detach "review this" && maestro wait --notify
      maestro wait 3 4 --json
    """
    from maestro_cli.screen.awaiting import Awaiting
    from maestro_state.models.run import OPEN

    room = app.maestro.runs
    named = [room.read(run_id) for run_id in run_ids] or room.list()
    ended = []
    with Awaiting(app, [run for run in named if run.status in OPEN]) as screen:
        for run in room.wait_each(run_ids):
            screen.ended(run.id)
            ended.append(run)
            if notify:
                tell(app.maestro.settings.notify, run)
            if not as_json:
                told = run.status if run.status == "success" else _ended(run)
                output.line(output.safe(f"{run.id} {told}"))
    if as_json:
        output.document({"runs": ended})
    elif not ended:
        output.note("no run is open")
    return int(any(run.status != "success" for run in ended))
