"""`maestro import`: what was said in the AI tools themselves, as archived sessions."""

from __future__ import annotations

import signal

import click

from maestro_cli import output
from maestro_cli.app import App, json_option, pass_app
from maestro_state import ImportReport

_TOOLS = ("claude", "codex", "gemini", "qwen", "opencode", "llm")
_EXPORTS = (".json", ".md", ".zip")


@click.command("import")
@click.argument("source", metavar="TOOL|FILE")
@click.argument("paths", nargs=-1, type=click.Path(), metavar="[PATH...]")
@click.option("--any-project", is_flag=True, help="Also conversations of other projects.")
@click.option("--since", metavar="TIME", help="Only what was changed since then: 30d, 24h, 2026-11-01, or a time.")
@click.option("--dry-run", is_flag=True, help="Only say what would be imported.")
@click.option("--follow", is_flag=True, help="Bring the newest conversation into the live session, as it goes on.")
@json_option
@pass_app
def import_(
    app: App,
    source: str,
    paths: tuple[str, ...],
    any_project: bool,
    since: str | None,
    dry_run: bool,
    follow: bool,
    as_json: bool,
) -> int:
    """Make archived sessions of what was said in an AI tool.

    TOOL is claude, codex, gemini, qwen, opencode or llm. Without PATH its own histories are read, those of this project
    only; a PATH is a history's file, which is always taken, or a folder with some. Importing again adds only what is
    new. The tool's files are never written.

    FILE is what maestro export wrote: .json is taken back whole, .md as far as it tells the conversation; or a .zip of
    an archive's folder, every byte of which is checked. A session that is here already stays as it is.

    With --follow nothing is archived: what is said in the conversation is said in the live session, within two seconds,
    until Ctrl-C. What the session has already is not said again.

    \b
    Example:
      maestro import claude --since 30d
      maestro import fix-login.json
    """
    progress = output.Progress("importing", at_least=20, unit="MiB")

    def show(done: int, total: int) -> None:
        progress.update(done >> 20, total >> 20)

    room = app.maestro.histories
    if follow:
        return _follow(app, source, paths, as_json=as_json, others=any_project or dry_run or since is not None)
    if source not in _TOOLS and source.lower().endswith(_EXPORTS):
        report = room.import_files([source, *paths], dry_run=dry_run)
    else:
        left = room.catch_up(source) if source in _TOOLS and not dry_run else 0
        if left:  # in the sessions they were opened in, so no conversation is imported for them
            output.note(f"{output.counted(left, 'message')} that nobody had followed to the end are in the session now")
        try:
            report = room.import_(source, paths, any_project=any_project, since=since, dry_run=dry_run, progress=show)
        finally:
            progress.done()
    if as_json:
        output.document(report)
    else:
        _show(report, source)
    return 1 if report.errors else 0


def _follow(app: App, source: str, paths: tuple[str, ...], *, as_json: bool, others: bool) -> int:
    if others or len(paths) > 1 or source not in _TOOLS:
        raise click.UsageError("--follow takes a tool, and at most one PATH of a history's file")
    session = app.maestro.sessions.read()
    asked: list[int] = []  # to stop; no Event, whose lock a second signal would find taken by the first
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _frame: asked.append(number))
    output.note(f"following {source} into {session.id}; Ctrl-C ends it")
    said = app.maestro.histories.follow(source, paths[0] if paths else None, session.id, is_over=lambda: bool(asked))
    output.result({"session_id": session.id, "messages": said}, output.counted(said, "message"), as_json=as_json)
    return 0


def _show(report: ImportReport, source: str) -> None:
    changed = [one for one in report.imported if one.status != "unchanged"]
    rows = [
        (one.session_id, one.status, output.counted(one.messages, "message"), output.counted(one.runs, "run"))
        for one in changed
    ]
    if rows:
        output.table(("session", "status", "messages", "runs"), rows, flexible=0, ids=0)
    for failure in report.errors:
        output.warning(f"{failure.path}: {failure.reason}")
    word = "would be imported" if report.dry_run else "imported"
    unchanged = len(report.imported) - len(changed)
    told = f", {unchanged} unchanged" if unchanged else ""
    output.note(f"{output.counted(len(changed), 'conversation')} {word}{told}")
    if report.left_out:
        count = output.counted(report.left_out, "conversation")
        output.note(f"{count} of other projects left out (maestro import {source} --any-project takes them)")
    old = [one for one in changed if not report.dry_run]
    if old:
        output.note("maestro session list --all shows them, also those that ended long ago")
