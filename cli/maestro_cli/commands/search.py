"""`maestro search`: find what was said, asked, answered, added and noted."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from maestro_cli import complete as offers
from maestro_cli import output
from maestro_cli.app import App, json_option, pass_app
from maestro_state.errors import UsageError

if TYPE_CHECKING:
    from maestro_state import Found, Hit

_MARKED = re.compile("«([^«»]*)»")


@click.command()
@click.argument("query", nargs=-1)
@click.option("--limit", type=int, default=20, show_default=True, metavar="N", help="Most hits to show.")
@click.option("--kind", metavar="KIND,…", help="Only these: message, prompt, output, context, note.")
@click.option("--session", "ref", metavar="REF", shell_complete=offers.sessions, help="Only in this session.")
@click.option("--live/--archived", "live", default=None, help="Only live sessions, or only archived ones.")
@click.option("--since", metavar="TIME", help="Only since then: 7d, 24h, 2026-11-01, or a time.")
@click.option("--rank", is_flag=True, help="The best hits first, not the newest.")
@click.option("--everywhere", is_flag=True, help="In all projects you have, not only in this one.")
@click.option("--rebuild", is_flag=True, help="Make the index anew, from the archives.")
@json_option
@pass_app
def search(
    app: App,
    query: tuple[str, ...],
    limit: int,
    kind: str | None,
    ref: str | None,
    live: bool | None,
    since: str | None,
    rank: bool,
    everywhere: bool,
    rebuild: bool,
    as_json: bool,
) -> None:
    """Find what was said, asked, answered or added, in live and archived sessions.

    All words are wanted; "a phrase" in quotes, the beginning of a word with a star. Accents and case do not matter, and
    login finds fix_login_cookie and fixLoginCookie. Newest first; the index is a cache that keeps itself up to date.
    Without words, on a terminal, hits come while you type: choose one with the arrows.

    \b
    Example:
      maestro search login cookie
      maestro search '"session expired" redir*' --kind message,output --since 30d
    """
    if rebuild:
        _rebuild(app, query, as_json=as_json)
        return
    kinds = [one.strip() for one in kind.split(",") if one.strip()] if kind is not None else []
    session = ref or (None if everywhere else app.session_ref)
    progress = output.Progress("reading archives")

    def find(text: str, most: int) -> Found:
        return app.maestro.search.find(
            text,
            limit=most,
            kinds=kinds,
            session=session,
            live=live,
            since=since,
            rank=rank,
            everywhere=everywhere,
            progress=progress.update,
        )

    if not query:
        _pick(find, as_json=as_json)
        return
    found = find(" ".join(query), limit)
    progress.done()
    if as_json:
        output.document(found)
    else:
        _show(found)
    if found.skipped:
        output.warning(f"could not be read whole: {', '.join(found.skipped)} → maestro verify")


def _pick(find: Callable[[str, int], Found], *, as_json: bool) -> None:
    """Have somebody type and choose; print the command that opens what was chosen."""
    from maestro_cli.screen.picker import can_pick, pick

    if as_json or not can_pick():
        raise click.UsageError("there is nothing to search for")

    def ask(typed: str, most: int) -> Found | None:
        # While it is typed, the last word is the beginning of one.
        text = typed.rstrip()
        with suppress(UsageError):
            return find(f"{text}*" if text and typed[-1:].isalnum() else text, most)
        return None

    find("maestro", 1)  # what is new is read before the screen is ours
    chosen = pick(ask)
    if chosen is not None:
        output.line(chosen.command)


def _rebuild(app: App, query: tuple[str, ...], *, as_json: bool) -> None:
    if query:
        raise click.UsageError("--rebuild takes no words")
    progress = output.Progress("reading archives")
    made = app.maestro.search.rebuild(progress=progress.update)
    progress.done()
    text = f"{output.counted(made.sessions, 'session')}, {made.entries} {'entry' if made.entries == 1 else 'entries'}"
    output.result(made, text, as_json=as_json)


def _show(found: Found) -> None:
    if not output.is_terminal():
        output.table(("",) * 5, [[hit.ts, hit.session_id, hit.kind, hit.entry, hit.snippet] for hit in found.results])
        return
    for hit in found.results:
        for text in lines(hit):
            output.line(text)
    if not found.results:
        output.note("nothing found")
    elif found.total > len(found.results):
        output.note(f"{len(found.results)} of {found.total} shown (--limit {min(found.total, 1000)}: more)")


def lines(hit: Hit) -> list[str]:
    """Return a hit as people see it: where, the piece that shows why, and the command that opens it."""
    kind = hit.kind if hit.role is None else f"{hit.kind} · {hit.role}"
    where = (
        f"{output.colour(hit.session_id, 'cyan')}  {kind} {hit.entry}  {output.local_time(hit.ts, '%Y-%m-%d %H:%M')}"
    )
    if hit.project is not None:
        where += f"  {output.safe(hit.project)}"
    return [where, f"  {marked(hit.snippet)}", f"  {output.colour(hit.command, dim=True)}"]


def marked(snippet: str) -> str:
    """Return a snippet with what was found in bold; where there are no styles the marks stay."""
    if output.colour("x", bold=True) == "x":
        return output.safe(snippet)
    return "".join(
        output.colour(part, bold=True) if at % 2 else output.safe(part)
        for at, part in enumerate(_MARKED.split(snippet))
    )
