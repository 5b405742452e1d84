"""`maestro run`: ask a tool, and see what it says as it says it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from maestro_cli import complete as offers
from maestro_cli import output
from maestro_cli.app import App, HandsOn, json_option, pass_app, tool_options
from maestro_cli.input import is_piped, piped_bytes, piped_in
from maestro_cli.screen import figures
from maestro_cli.screen.following import follow
from maestro_cli.screen.notifying import notify_option, tell
from maestro_cli.screen.unclaimed import warn_if_alone
from maestro_state.clock import iso, now_ms
from maestro_state.errors import PathNotFound, RunFailed, UsageError

if TYPE_CHECKING:
    from maestro_state.models.run import Run

#: Files named before a run, at most.
_NAMED_MAX = 20


@click.command(cls=HandsOn)
@click.argument("prompt", required=False)
@click.option("--stdin", "from_stdin", is_flag=True, help="Read the prompt from standard input, as - does.")
@click.option("--no-stdin", is_flag=True, help="Leave standard input alone: do not send along what is piped in.")
@click.option("--file", "from_file", metavar="FILE", shell_complete=offers.paths, help="Read the prompt from a file.")
@click.option("--tool", metavar="TOOL", shell_complete=offers.tools, help="Use this tool instead of the session's.")
@tool_options
@click.option("--continue", "goes_on", is_flag=True, help="Go on with the tool's last conversation in this session.")
@click.option(
    "--continue-from", metavar="RUN", shell_complete=offers.runs, help="Go on with the conversation of this run."
)
@click.option("--history", type=click.IntRange(min=0), metavar="N", help="Hand on the last N messages at most.")
@click.option("--no-history", is_flag=True, help="Hand on nothing of what was said before.")
@click.option("--refresh", is_flag=True, help="Take files that changed since they were added as they are now.")
@click.option("--timeout", "timeout_s", type=click.IntRange(min=1), metavar="SECONDS", help="Longest time it may take.")
@click.option("--detach", is_flag=True, help="Do not wait: let it run and return.")
@click.option(
    "--priority",
    type=click.Choice(("low", "normal", "high")),
    default="normal",
    help="Before or after others that wait for a worker.",
)
@click.option("--label", "labels", multiple=True, metavar="LABEL", help="Only by a worker that has this label.")
@notify_option
@click.option("--dry", is_flag=True, help="Execute nothing; show what would be sent where.")
@click.option("--confirm", is_flag=True, help="Show what would be sent where, and ask.")
@click.option("--cookie", metavar="ID", help="Add a breadcrumb to this work session.")
@click.option(
    "--env", "env", multiple=True, metavar="NAME", help="Hand this variable to the tool on another machine, too."
)
@click.option(
    "--retries", type=click.IntRange(0, 10), default=0, metavar="N", help="Times to try again if its worker is lost."
)
@json_option
@pass_app
def run(
    app: App,
    /,
    prompt: str | None,
    from_stdin: bool,
    no_stdin: bool,
    from_file: str | None,
    history: int | None,
    no_history: bool,
    refresh: bool,
    dry: bool,
    confirm: bool,
    detach: bool,
    notify: bool,
    goes_on: bool,
    continue_from: str | None,
    arguments: tuple[str, ...],
    as_json: bool,
    **options: Any,
) -> int:
    """Run the session's tool on a prompt and the session's context.

    The run is carried out by a worker and goes on when this terminal closes; Ctrl-C asks whether to cancel it or let
    it run on. Every terminal on the session sees it. What follows -- is handed to the tool; where no prompt came
    before it, the first word after it is the prompt. It is also sent the conversation so far, preferences and
    project_context, and what is piped in; in loops and where standard input never ends, use --no-stdin.

    \b
    Example:
      maestro run "why does the login fail?"
      maestro run --continue --mode edit "mend it"
      git diff | maestro run "explain" --tool claude
      maestro run - < question.txt
      maestro run --priority low --label gpu --detach "try all of them"
    """
    _check_notify(wanted=notify, waits=not (detach or dry))
    if prompt is None and not from_stdin and from_file is None and arguments:
        prompt, arguments = arguments[0], arguments[1:]
    if no_stdin and (from_stdin or prompt == "-"):
        raise UsageError("the prompt comes from standard input, which --no-stdin leaves alone", hint="leave one out")
    content, source = _prompt(prompt, from_stdin, from_file)
    piped = None if source == "stdin" or no_stdin else _piped(app)
    session_id = app.maestro.sessions.resolve()  # once: what is said of its files is said of the session that runs
    _report_changed_files(app, session_id, refresh=refresh)
    room = app.maestro.runs
    how = {name: options[name] for name in ("tool", "model", "mode")}
    how |= {"ref": session_id, "arguments": arguments, "continues": _continues(goes_on, continue_from), "piped": piped}
    how["history"] = _history(history, no_history)
    asked: dict[str, Any] = {"prompt_source": source, "prompt_file": from_file, **options, **how}
    if confirm and not dry:
        asked["confirmed_at"] = _confirmed(app, content, how, as_json=as_json)
        if asked["confirmed_at"] is None:
            output.warning("nothing sent")
            return 1
    if cookie := options["cookie"] or app.maestro.settings.cookie:
        app.maestro.work.read(cookie)  # one that nobody knows fails now, not when the tool has done its work
    asked["terminal"] = app.terminal_name()
    call_worker(app)
    started = room.start(content, dry=dry, say=None if dry or as_json else output.warning, **asked)
    if dry:
        _show_dry(app, started, as_json=as_json)
        return 0
    if detach:
        warn_if_alone(app)
        if as_json:
            output.document(started)
        else:
            output.line(f"{started.id} {started.status}")
            output.note(f"follow it with maestro watch, see it with maestro show {started.id}")
        return 0
    ended = follow(app, started, quiet=as_json)
    if ended is None:
        return 130
    if notify:
        tell(app.maestro.settings.notify, ended)
    if as_json:
        _print_document(app, ended)
    else:
        _say_end(ended)
    return verdict(ended)


def _say_end(ended: Run) -> None:
    """Say what a run consumed, and what to know of a success; of a failure its reason is the error of the command."""
    if ended.status == "success":
        output.note(f"{ended.id} {figures.ending(ended)}", quiet=True)
    if ended.warning:
        output.warning(f"run {ended.id}: {ended.warning}")


def _check_notify(*, wanted: bool, waits: bool) -> None:
    if wanted and not waits:
        raise UsageError("--notify is told of the end, and this does not wait for it", hint="maestro wait --notify")


def _prompt(prompt: str | None, from_stdin: bool, from_file: str | None) -> tuple[bytes, str]:
    """Return the prompt and where it came from; exactly one of the three ways must be used."""
    if prompt == "-" and not from_stdin:
        prompt, from_stdin = None, True
    if sum((prompt is not None, from_stdin, from_file is not None)) != 1:
        raise UsageError("give the prompt as PROMPT, with --stdin or with --file", hint='maestro run "fix the tests"')
    if from_file is not None:
        try:
            with open(from_file, "rb") as file:
                return file.read(), "file"
        except OSError as error:
            raise PathNotFound(f"{from_file}: {error.strerror}") from error
    if from_stdin:
        return piped_in("--stdin", hint="git diff | maestro run --stdin"), "stdin"
    return (prompt or "").encode(errors="surrogateescape"), "cli"


def _piped(app: App) -> bytes | None:
    """Return what is piped in besides the prompt."""
    return piped_bytes(app.maestro.settings.max_blob_bytes) if is_piped() else None


def _history(count: int | None, none_of_it: bool) -> int | None:
    if count is not None and none_of_it:
        raise UsageError("--history and --no-history say two things", hint="leave one of them out")
    return 0 if none_of_it else count


def _report_changed_files(app: App, session_id: str, *, refresh: bool) -> None:
    """Say which files are sent as they were, not as they are; or take them as they are now."""
    room = app.maestro.context
    if refresh:
        added = room.refresh(ref=session_id)
        for item in added.items[:_NAMED_MAX]:
            output.note(f"{item.source['path_rel']} is sent as it is now, as {item.id}")
        for one in added.skipped[:_NAMED_MAX]:
            output.warning(f"{one.path} is sent as it was: {one.reason}")
        return
    stale = room.stale(session_id)
    for item in stale[:_NAMED_MAX]:
        what = "is gone since" if item.drift == "missing" else "has changed since"
        output.warning(f"{item.source['path_rel']} {what} it was added as {item.id}, and is sent as it was → --refresh")
    if len(stale) > _NAMED_MAX:
        output.warning(f"… and {len(stale) - _NAMED_MAX} more files that are not as they were added")


def _continues(goes_on: bool, continue_from: str | None) -> str | None:
    """Return the run to go on from, `last` for the newest of the tool."""
    if goes_on and continue_from is not None:
        raise UsageError("--continue and --continue-from say two things", hint="leave one of them out")
    return "last" if goes_on else continue_from


def _confirmed(app: App, content: bytes, how: dict[str, Any], *, as_json: bool) -> str | None:
    """Show what would be sent and ask; return when it was agreed to, None when it was not."""
    preview = app.maestro.runs.preview(content, **how)
    if as_json or sys.stdin is None or not sys.stdin.isatty():
        raise UsageError("--confirm asks, and there is nobody to ask here", hint="leave it out, or see it with --dry")
    from maestro_cli.screen.question import confirmed

    _show_preview(preview.argv, preview.stdin)
    return iso(now_ms()) if confirmed("Send this?") else None


def _show_dry(app: App, started: Run, *, as_json: bool) -> None:
    preview = app.maestro.runs.preview_of(started)
    if as_json:
        shown = {"argv": preview.argv, "stdin": preview.stdin.decode(errors="replace")}
        output.document({**output.plain(started), "exit_code": None, "preview": shown})
    else:
        _show_preview(preview.argv, preview.stdin)


def _show_preview(argv: list[str], stdin: bytes) -> None:
    import shlex

    output.line(output.colour("would execute", dim=True) + f"  {output.safe(shlex.join(argv))}")
    output.line(output.colour("with this on its standard input", dim=True) + f" ({output.size(len(stdin))})")
    output.line()
    output.raw(stdin)
    output.line()


def call_worker(app: App) -> None:
    """See to it that the embedded stack is there when the run needs it."""
    app.maestro.runs.handover.awaits_stack = app.maestro.settings.redis_url is None


def _print_document(app: App, ended: Run) -> None:
    text = app.maestro.runs.output(ended.id).decode(errors="replace")
    output.document({**output.plain(ended), "exit_code": ended.exit_code, "output": text})


def verdict(ended: Run) -> int:
    """Return 0 for a run that did what it was asked for; raise the reason for any other."""
    if ended.status != "success":
        raise RunFailed(ended.id, ended.status, ended.error)
    return 0
