"""`maestro session …`: sessions as wholes."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from maestro_cli import complete as offers
from maestro_cli import output
from maestro_cli.app import App, Noun, json_option, pass_app
from maestro_cli.input import json_or_text, text_argument
from maestro_cli.screen.session_status import liveness
from maestro_cli.screen.session_status import show as show_status
from maestro_state.clock import from_iso, now_ms
from maestro_state.errors import RunsOpen, UsageError

if TYPE_CHECKING:
    from maestro_state import Session

STATES = ("iniciada", "com_contexto", "executando", "com_saida", "finalizada", "abortada")


@click.group(cls=Noun)
def session() -> None:
    """Start, list, show, switch and end sessions.

    \b
    Example:
      maestro session start fix-login --note "tests fail since Monday"
    """


@session.command()
@click.argument("name")
@click.option("--note", metavar="TEXT", help="What the session is for.")
@click.option("--ttl", "ttl_seconds", type=int, metavar="SECONDS", help="How long it lives after the last activity.")
@click.option("--tool", metavar="TOOL", shell_complete=offers.tools, help="The AI tool to use.")
@click.option("--task", "task_id", metavar="ID", help="The task it belongs to, as a tracker names it.")
@json_option
@pass_app
def start(app: App, /, name: str, as_json: bool, **said: Any) -> None:
    """Start a session and make it this checkout's active one.

    \b
    Example:
      maestro session start fix-login --note "tests fail since Monday"
    """
    started = app.maestro.sessions.start(name, **said)
    _hint_at_namesakes(app, started)
    if as_json:
        output.document(started)
        return
    output.line(f"{output.colour(started.id, bold=True)} started  {output.session_state(started.state)}")
    if started.tool_active is None:
        output.note("choose a tool: maestro use claude (or another one: maestro tool list)")
    output.note("follow it from another terminal of this project: maestro watch")


def _hint_at_namesakes(app: App, started: Session) -> None:
    """Say that others of this name are live: whoever typed it may have meant one of them."""
    others = app.maestro.sessions.namesakes(started)
    if others:
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        output.warning(f"{others[0]}{more} is live under the same name → maestro session switch {others[0]} goes to it")


@session.command("list")
@click.option("--all", "show_all", is_flag=True, help="Also those archived more than 30 days ago.")
@click.option("--state", type=click.Choice(STATES), help="Only those in this state.")
@click.option("--mine", is_flag=True, help="Only those you started.")
@click.option("--user", metavar="USER", help="Only those this user started.")
@click.option("--limit", type=click.IntRange(1, 10_000), metavar="N", help="Only so many: a page.")
@click.option("--cursor", metavar="CURSOR", help="Go on after the page that gave this; with --limit.")
@json_option
@pass_app
def list_sessions(
    app: App,
    show_all: bool,
    state: str | None,
    mine: bool,
    user: str | None,
    limit: int | None,
    cursor: str | None,
    as_json: bool,
) -> None:
    """List sessions, last active first.

    With --limit the answer has a cursor for the next page; at the end it is null. All pages are of the moment of the
    first: a session that stays is on exactly one of them.

    \b
    Example:
      maestro session list --state com_saida
      maestro session list --limit 50 --json
    """
    if mine and user is not None:
        raise click.UsageError("--mine and --user cannot be used together")
    if cursor is not None and limit is None:
        raise click.UsageError("--cursor needs --limit N: how many to go on with")
    me = app.maestro.settings.user
    whose = me if mine else user
    if limit is None:
        rows = app.maestro.sessions.list(state=state, user=whose, everything=show_all)
    else:
        rows = app.maestro.sessions.page(limit, cursor, state=state, user=whose, everything=show_all)
    if as_json:
        older = {"older": rows.older} if rows.older else {}
        output.document({"sessions": [row.document() for row in rows], "cursor": rows.cursor} | older)
        return
    if not rows and cursor is not None:
        output.warning("no more sessions")
        return
    if not rows:
        output.warning(_why_none(app, rows.older, state=state, user="yours" if mine else user, show_all=show_all))
        return
    now = now_ms()
    # Whose a session is matters where there are others.
    is_shared = any(row.user_id not in ("", me) for row in rows)
    output.table(
        ("", "session", "state", "status", "activity", *(["user"] if is_shared else [])),
        [
            (
                "*" if row.active else " ",
                row.id,
                output.session_state(row.state) if output.is_terminal() else row.state,
                "orphan" if row.orphan else "archived" if row.archived else liveness(row.state, row.status),
                _when(row.updated_at, now),
                *([row.user_id] if is_shared else []),
            )
            for row in rows
        ],
        ids=1,
    )
    if rows.cursor:
        output.note(f"more: add --cursor {rows.cursor}")
    if rows.older:
        output.warning(f"{_older(rows.older)} not shown: maestro session list --all")


def _older(count: int) -> str:
    return f"{count} archived session{'' if count == 1 else 's'} older than 30 days {'is' if count == 1 else 'are'}"


def _why_none(app: App, older: int, *, state: str | None, user: str | None, show_all: bool) -> str:
    """Say why a list is empty: there are none at all, none of the kind that was asked for, or only older ones."""
    if older:
        return f"no session of the last 30 days; {_older(older)} not shown: maestro session list --all"
    others = app.maestro.sessions.list(everything=show_all) if state or user else []
    if not others:
        return "no sessions yet: maestro session start NAME"
    wanted = " ".join([*([f"of {user}"] if user else []), *([f"in state {state}"] if state else [])])
    there = "1 other session is" if len(others) == 1 else f"{len(others)} other sessions are"
    return f"no session {wanted}; {there} there: maestro session list"


@session.command()
@click.argument("ref", required=False, shell_complete=offers.sessions)
@json_option
@pass_app
def status(app: App, ref: str | None, as_json: bool) -> None:
    """Show where a session stands and who is attached to it.

    maestro status and maestro session status are the same.

    \b
    Example:
      maestro session status fix-login
      maestro status
    """
    found = app.maestro.sessions.status(ref)
    if as_json:
        output.document(found)
        return
    show_status(found)


def _when(timestamp: str, now: int) -> str:
    """Say how long ago something was; what somebody else wrote may be no time at all."""
    try:
        return output.ago(from_iso(timestamp), now)
    except ValueError:
        return "unknown"


@session.command()
@click.argument("ref", shell_complete=offers.sessions)
@json_option
@pass_app
def switch(app: App, ref: str, as_json: bool) -> None:
    """Make another session this checkout's active one.

    REF is a full id, a slug, the six characters at the end of an id, or latest.

    \b
    Example:
      maestro session switch fix-login
    """
    _show(app.maestro.sessions.switch(ref), "active", as_json=as_json)


@session.command()
@click.argument("ref", required=False, shell_complete=offers.sessions)
@click.option("--wait", is_flag=True, help="Wait for open runs to end first, as long as they take.")
@click.option("--cancel", is_flag=True, help="Cancel open runs first.")
@click.option(
    "--no-wait",
    is_flag=True,
    help="Do not wait for the archive: a worker, or the sweep, writes it. Goes with --wait, which is about runs.",
)
@json_option
@pass_app
def end(app: App, ref: str | None, wait: bool, cancel: bool, no_wait: bool, as_json: bool) -> None:
    """Finish a session: it is frozen, takes no more changes, and is archived.

    \b
    Example:
      maestro session end --wait
    """
    if wait and cancel:
        raise click.UsageError("--wait and --cancel cannot be used together: open runs end, or are ended")
    session_id = app.maestro.sessions.resolve(ref)
    while True:
        if wait or cancel:
            with output.status_line() as told:
                if told:
                    told("canceling open runs" if cancel else "waiting for open runs to end")
                app.maestro.runs.settle(session_id, cancel=cancel)
        try:
            with output.status_line() as told:
                ended = app.maestro.sessions.end(session_id, archive=not no_wait, told=told)
        except RunsOpen:
            if not (wait or cancel):
                raise
            continue  # somebody started another one just now
        break
    _show(ended, "ended", as_json=as_json)


@session.command()
@click.argument("ref", required=False, shell_complete=offers.sessions)
@click.option("--reason", required=True, metavar="TEXT", help="Why it is given up.")
@click.option("--no-wait", is_flag=True, help="Do not wait for the archive: a worker, or the sweep, writes it.")
@json_option
@pass_app
def abort(app: App, ref: str | None, reason: str, no_wait: bool, as_json: bool) -> None:
    """Give a session up: it is frozen and archived with what it has.

    \b
    Example:
      maestro session abort --reason "wrong branch"
    """
    with output.status_line() as told:
        aborted = app.maestro.sessions.abort(ref, reason=reason, archive=not no_wait, told=told)
    _show(aborted, "aborted", as_json=as_json)


def _show(record: Session, word: str, *, as_json: bool) -> None:
    output.result(
        record, f"{output.colour(record.id, bold=True)} {word}  {output.session_state(record.state)}", as_json=as_json
    )


@session.command()
@click.argument("ref", shell_complete=offers.sessions)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--trash", is_flag=True, help="Keep its archive, in .maestro/trash/.")
@json_option
@pass_app
def delete(app: App, ref: str, yes: bool, trash: bool, as_json: bool) -> int:
    """Remove a session from the server, the disk and the index, for good or into the trash.

    \b
    Example:
      maestro session delete fix-login --yes
    """
    session_id = app.maestro.sessions.resolve(ref)
    if not yes:
        if as_json or sys.stdin is None or not sys.stdin.isatty():
            what = "moved to the trash" if trash else "removed for good"
            raise UsageError(f"{session_id} would be {what}", hint="add --yes to do it without asking")
        from maestro_cli.screen.question import confirmed

        question = f"Move {session_id} to the trash" if trash else f"Remove {session_id} and everything in it for good"
        if not confirmed(f"{question}?"):
            output.warning("nothing removed")
            return 1
    deleted = app.maestro.sessions.delete(session_id, trash=trash)
    output.result({"deleted": deleted}, f"{deleted} {'moved to the trash' if trash else 'deleted'}", as_json=as_json)
    return 0


@session.command("get")
@click.argument("field", shell_complete=offers.fields)
@click.argument("ref", required=False, shell_complete=offers.sessions)
@json_option
@pass_app
def get_field(app: App, field: str, ref: str | None, as_json: bool) -> None:
    """Read project_context, preferences, working_directory, context_summary, task_id or ttl_seconds.

    \b
    Example:
      maestro session get preferences --json
    """
    found = app.maestro.sessions.get(field, ref)
    if as_json:
        output.document(found)
    elif isinstance(found.value, str):
        output.raw(found.value.encode(errors="replace") + b"\n")
    elif found.value is not None:
        output.document(found.value)


@session.command("set")
@click.argument("field", shell_complete=offers.fields)
@click.argument("value")
@click.option("--if-revision", type=click.IntRange(min=0), metavar="N", help="Only if nobody changed it since.")
@json_option
@pass_app
def set_field(app: App, field: str, value: str, if_revision: int | None, as_json: bool) -> None:
    """Set a field of the session; VALUE - reads it from standard input.

    FIELD is project_context or preferences, which are JSON objects that tools are handed with every run;
    working_directory, context_summary or task_id, which are texts; or ttl_seconds, a number.

    \b
    Example:
      maestro session set preferences '{"language": "en"}' --if-revision 0
      maestro session set context_summary "the cookie is set too late"
    """
    content = json_or_text(field, text_argument(value))
    if field == "working_directory":
        content = os.path.abspath(content)  # of this terminal: the worker that goes there stands elsewhere
    found = app.maestro.sessions.set(field, content, if_revision=if_revision)
    output.result(found, f"{found.field} is at revision {found.revision}", as_json=as_json)


@session.command()
@click.argument("ref", required=False, shell_complete=offers.sessions)
@json_option
@pass_app
def sync(app: App, ref: str | None, as_json: bool) -> None:
    """Write a session to disk now.

    \b
    Example:
      maestro session sync
    """
    done = app.maestro.archive.checkpoint(ref)
    if as_json:
        output.document(done)
    else:
        output.line(output.safe(done.path))
        if not done.current:
            output.note("the session moved on meanwhile; the next sync has the rest")


@session.command()
@click.argument("ref", shell_complete=offers.sessions)
@click.argument("new")
@json_option
@pass_app
def fork(app: App, ref: str, new: str, as_json: bool) -> None:
    """Start a new session named NEW from a live or archived one.

    It gets the active context, the note, the tool and the messages; runs stay with the old one.

    \b
    Example:
      maestro session fork fix-login fix-login-again
    """
    started = app.maestro.sessions.fork(ref, new)
    if started.tool_active is None and app.maestro.sessions.read(started.forked_from).tool_active:
        output.warning("its tool, a command line from an archive, was not taken over: maestro use TOOL chooses one")
    output.result(started, f"{output.colour(started.id, bold=True)} forked from {started.forked_from}", as_json=as_json)
