"""`maestro discuss …`: discussions, and replaying what they decided."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from maestro_cli import complete as offers
from maestro_cli import output
from maestro_cli.app import App, Noun, json_option, pass_app
from maestro_cli.input import text_argument
from maestro_state.clock import from_iso, now_ms
from maestro_state.errors import InvalidTransition, InvalidValue, MaestroError, NotFound, ReplayFailed, UsageError
from maestro_state.vocabulary import FROZEN

if TYPE_CHECKING:
    from maestro_state import Meta, ReplayOutcome, TranscriptEvent

KINDS = ("task", "phase", "track", "repo", "issues", "runbook", "workflow", "solutions", "global")
CONTRACTS = ("global", "track", "phase", "task")

#: Longest file whose difference is worked out line by line.
DIFF_LIMIT = 1024 * 1024

discussion_option = click.option(
    "--discussion", "ref", metavar="REF", help="Which one (default: the latest open one of this checkout)."
)


@click.group(cls=Noun)
def discuss() -> None:
    """Discuss work with a tool, and replay what was decided.

    \b
    Example:
      maestro discuss start --kind track --ref login
      maestro discuss say "plan the phases of the login track"
    """


@discuss.command()
@click.option("--kind", type=click.Choice(KINDS), default="global", help="What it is about.")
@click.option("--ref", metavar="ID", help="The task, phase, track … it is about.")
@click.option("--contract", type=click.Choice(CONTRACTS), help="What it may end in (default: as its kind says).")
@click.option("--reason", metavar="TEXT", help="Why this context was chosen.")
@click.option("--engine", default="none", metavar="TOOL", help="The tool that takes part, if one does.")
@click.option("--model", default="default", metavar="MODEL", help="Its model.")
@json_option
@pass_app
def start(
    app: App,
    kind: str,
    ref: str | None,
    contract: str | None,
    reason: str | None,
    engine: str,
    model: str,
    as_json: bool,
) -> None:
    """Start a discussion.

    \b
    Example:
      maestro discuss start --kind phase --ref login-core
    """
    meta = app.maestro.discussions.start(
        kind=kind, ref=ref, contract=contract, reason=reason, engine=engine, model=model
    )
    if as_json:
        _print_meta(meta)
        return
    output.line(f"{output.colour(meta.session_id, bold=True)} open  contract {meta.contract_type}")
    output.note('say something in it: maestro discuss say "…"')


@discuss.command()
@click.argument("text")
@discussion_option
@click.option("--role", type=click.Choice(("user", "assistant")), default="user", help="Who says it.")
@click.option("--model", metavar="MODEL", help="The model that said it, for the assistant.")
@click.option(
    "--tool",
    metavar="TOOL",
    shell_complete=offers.tools,
    help="Hand the conversation to this tool and record its answer.",
)
@json_option
@pass_app
def say(app: App, text: str, ref: str | None, role: str, model: str | None, tool: str | None, as_json: bool) -> None:
    """Say something in a discussion; TEXT - reads it from standard input.

    \b
    Example:
      maestro discuss say --tool claude "plan the phases of the login track"
    """
    if tool and role != "user":
        raise UsageError("a tool answers what a user says", hint="leave out --role, or --tool")
    room = app.maestro.discussions
    ref = room.resolve(ref)
    if tool:
        _check_tool(app, tool)  # before anything is said
    said = room.say(text_argument(text), ref, role=role, model=model)
    if tool:
        try:
            answer, its_model = _ask(app, tool, room.prompt(ref), quiet=as_json)
        except MaestroError as error:
            room.report(str(error), ref, details=error.hint)
            raise
        said = room.say(answer, ref, role="assistant", model=its_model, engine=tool)
    if as_json:
        output.document({"session_id": ref, "ts": said.ts, "type": said.type, "payload": said.payload})
    elif not tool:
        _print_event(said)


def _check_tool(app: App, tool: str) -> None:
    """Refuse a tool nobody knows, and a checkout that has no live session for its run."""
    from maestro_state.tools import resolve

    resolve(tool)
    session = app.maestro.sessions.read()
    if session.state in FROZEN:
        raise InvalidTransition(session.id, session.state, "asking a tool")


def _ask(app: App, tool: str, prompt: str, *, quiet: bool) -> tuple[str, str | None]:
    """Let a tool answer, as a run of the active session, shown as it comes; return its answer and its model."""
    from maestro_cli.commands.run import call_worker, verdict
    from maestro_cli.screen.following import follow

    call_worker(app)
    started = app.maestro.runs.start(prompt, tool=tool)
    ended = follow(app, started, quiet=quiet)
    if ended is None:
        raise click.Abort  # detached: its answer can be shown and said later
    verdict(ended)
    answer = app.maestro.runs.output(ended.id).decode(errors="replace")
    return answer, ended.usage.model if ended.usage else None


@discuss.command()
@click.argument("file", required=False, shell_complete=offers.paths)
@discussion_option
@json_option
@pass_app
def done(app: App, file: str | None, ref: str | None, as_json: bool) -> None:
    """End a discussion with its final JSON, from FILE, from standard input (-), or from the last answer.

    The JSON is {"patch_operations": [{"op_type": …, "data": {…}}]} and must keep to the discussion's contract.

    \b
    Example:
      maestro discuss done plan.json
    """
    meta = app.maestro.discussions.done(None if file is None else _final_json(file), ref)
    if as_json:
        _print_meta(meta)
        return
    output.line(f"{output.colour(meta.session_id, bold=True)} closed")
    output.note(f"see what it would change: maestro discuss replay {meta.session_id} --dry-run")


def _final_json(file: str) -> Any:
    """Read the final JSON strictly: what is read here is what every replay reads."""
    from pathlib import Path

    from maestro_state.models import strict_json

    try:
        content: bytes | str = text_argument(file) if file == "-" else Path(file).read_bytes()
    except (OSError, ValueError) as error:
        raise NotFound(f"{file[:80]} cannot be read", hint="maestro discuss done FILE, or - for a pipe") from error
    try:
        return strict_json.read(content)
    except ValueError as error:
        raise InvalidValue(f"the final JSON is not JSON: {error}", hint='{"patch_operations": […]}') from error


@discuss.command("list")
@click.option("--status", type=click.Choice(("open", "closed")), help="Only those with this status.")
@json_option
@pass_app
def list_discussions(app: App, status: str | None, as_json: bool) -> None:
    """List discussions, last changed first.

    \b
    Example:
      maestro discuss list --status open
    """
    listing = app.maestro.discussions.list()
    rows = [row for row in listing.rows if status in (None, row.meta.status)]
    if as_json:
        damaged = [{"path": name, "reason": reason} for name, reason in listing.damaged.items()]
        _print_json({"discussions": [row.document() for row in rows]} | ({"damaged": damaged} if damaged else {}))
        return
    if not rows:
        output.note("no discussions yet: maestro discuss start")
    # People get what they can type; programs, behind a pipe, the whole id and the time.
    ids = [row.meta.session_id for row in listing.rows]
    shown, now = output.telling_length(ids) if output.is_terminal() else None, now_ms()
    output.table(
        ("discussion", "status", "about", "contract", "last changed", "first said"),
        [
            (
                row.meta.session_id[:shown],
                row.meta.status,
                f"{row.meta.context.kind} {row.meta.context.ref or ''}".strip(),
                row.meta.contract_type,
                output.ago(from_iso(row.meta.updated_at), now) if shown else output.local_time(row.meta.updated_at),
                _shown(row.meta.initial_prompt),
            )
            for row in rows
        ],
        flexible=5,
    )
    for name, reason in listing.damaged.items():
        output.note(f"{name} cannot be read: {reason}")


@discuss.command()
@click.argument("ref", default="latest")
@json_option
@pass_app
def show(app: App, ref: str, as_json: bool) -> None:
    """Show a discussion: REF is an id, its beginning, latest, or the path of one in any format.

    \b
    Example:
      maestro discuss show latest
    """
    found = app.maestro.discussions.show(ref)
    if as_json:
        _print_json(found.document())
        return
    meta = found.meta
    about = f"{meta.context.kind} {meta.context.ref or ''}".strip()
    output.line(f"{output.colour(output.safe(meta.session_id), bold=True)} {output.safe(f'{meta.status}  {about}')}")
    for event in found.transcript.events:
        _print_event(event)
    for warning in found.warnings():
        output.line(output.colour(f"warning: {output.safe(warning)}", "yellow"))


@discuss.command()
@click.argument("ref")
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@json_option
@pass_app
def replay(app: App, ref: str, dry_run: bool, as_json: bool) -> int:
    """Apply what a discussion decided to docs/maestro/; no AI is asked.

    Replaying again changes nothing. All operations are applied, or none.

    \b
    Example:
      maestro discuss replay latest --dry-run
    """
    outcome = app.maestro.discussions.replay(ref, dry_run=dry_run)
    if as_json:
        _print_json(outcome.document())
    else:
        _print_outcome(outcome)
    if outcome.error:
        raise ReplayFailed(outcome.error)
    if not as_json and dry_run:
        output.note(f"apply it: maestro discuss replay {ref}")
    return 0


def _print_outcome(outcome: ReplayOutcome) -> None:
    for warning in outcome.warnings:
        output.line(output.colour(f"warning: {output.safe(warning)}", "yellow"))
    for effect in outcome.effects:
        mark = output.colour("+", "green") if effect.changed else output.colour("=", dim=True)
        output.line(f"{mark} {output.safe(effect.summary)}")
    for missing in outcome.missing:
        output.line(f"{output.colour('?', 'yellow')} {output.safe(str(missing))}")
    if outcome.dry_run:
        for change in outcome.changes:
            _print_difference(change.path, change.before, change.after)
    where = ", ".join(change.path for change in outcome.changes)
    what = ("would change " if outcome.dry_run else "changed ") + where if where else "nothing to change"
    what = "nothing applied" if outcome.error else what
    output.line(f"{outcome.result}  {_operations(outcome.ops_count)}, {what}")


def _operations(count: int) -> str:
    return f"{count} operation{'' if count == 1 else 's'}"


def _print_difference(path: str, before: bytes, after: bytes) -> None:
    import difflib

    if max(len(before), len(after)) > DIFF_LIMIT:
        output.line(f"{path}: {len(before)} → {len(after)} bytes")
        return
    lines = difflib.unified_diff(before.decode().split("\n"), after.decode().split("\n"), path, path, lineterm="", n=2)
    colours = {"+": "green", "-": "red", "@": "cyan"}
    for line in lines:
        output.line(output.colour(output.safe(line), colours.get(line[:1])))


@discuss.command()
@click.argument("paths", nargs=-1, metavar="[PATH]…", shell_complete=offers.paths)
@click.option("--dry-run", is_flag=True, help="Only show what would be converted.")
@json_option
@pass_app
def migrate(app: App, paths: tuple[str, ...], dry_run: bool, as_json: bool) -> None:
    """Convert discussions of older formats; the originals stay as they are.

    Without PATH: every …_results.json in docs/maestro/ai/artifacts and every discussion in docs/sessions.

    \b
    Example:
      maestro discuss migrate --dry-run
    """
    shown = output.Progress("converting", at_least=1)
    try:
        report = app.maestro.discussions.migrate(paths, dry_run=dry_run, progress=shown.update)
    finally:
        shown.done()
    if as_json:
        output.document(report)
        return
    word = "would convert" if dry_run else "converted"
    for one in report.migrated:
        output.line(output.safe(f"{word}  {one.source} → {one.path}"))
    for skipped in report.skipped:
        output.line(output.safe(f"skipped  {skipped.source}: {skipped.reason}"))
    output.line(f"{word} {len(report.migrated)}, skipped {len(report.skipped)}")


def _print_event(event: TranscriptEvent) -> None:
    payload = event.payload
    output.line(f"{output.colour(output.local_time(event.ts), dim=True)}  {output.colour(event.type, 'cyan')}")
    match event.type:
        case "final_json":
            import json

            text = json.dumps(payload, ensure_ascii=False, indent=2)
        case "replay_run":
            dry = " (dry run)" if payload["dry_run"] else ""
            text = f"{payload['result']} {_operations(payload['ops_count'])}{dry}"
        case "error":
            text = payload["message"]
        case _:
            text = payload["content"]
    output.line(output.safe(_shown(text)))


def _shown(text: str) -> str:
    """Return a text as a terminal can take it: half a surrogate pair is shown as its number."""
    return text.encode("utf-8", "backslashreplace").decode()


def _print_meta(meta: Meta) -> None:
    from maestro_state.models.discussion import meta_document

    _print_json(meta_document(meta))


def _print_json(document: dict[str, Any]) -> None:
    """Print a document that may hold any text JSON can, half surrogate pairs too."""
    import msgspec

    from maestro_state.models.strict_json import line

    try:
        output.document(document)
    except UnicodeEncodeError:
        output.document(msgspec.Raw(line(document).rstrip()))
