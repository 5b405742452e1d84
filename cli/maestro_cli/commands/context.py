"""`maestro context …`: what runs are sent beside their prompt."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from maestro_cli import complete as offers
from maestro_cli import output
from maestro_cli.app import App, Noun, json_option, pass_app
from maestro_cli.input import piped_in

if TYPE_CHECKING:
    from maestro_state.models.context import Added, ContextItem


@click.group(cls=Noun)
def context() -> None:
    """Add files, texts and outputs to what runs are sent.

    \b
    Example:
      maestro context add src/login.py "the test fails since Monday"
    """


@context.command()
@click.argument("things", nargs=-1, required=True, metavar="PATH|TEXT|-…", shell_complete=offers.paths)
@click.option("--file", "kind", flag_value="file", help="Every argument is a path.")
@click.option("--text", "kind", flag_value="text", help="Every argument is a text.")
@click.option("--label", "labels", multiple=True, metavar="LABEL", help="A label for the items; may be given again.")
@click.option("--note", metavar="TEXT", help="A note kept with the items.")
@click.option("--follow", is_flag=True, help="Take files that a named link out of the project leads to.")
@click.option("--again", is_flag=True, help="Add a file once more that is there already, unchanged.")
@click.option("--force", is_flag=True, help="Add files that look as if they held a secret, too.")
@json_option
@pass_app
def add(
    app: App,
    things: tuple[str, ...],
    kind: str | None,
    labels: tuple[str, ...],
    note: str | None,
    follow: bool,
    again: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Add files, folders, globs or texts, each with a snapshot of its content; - reads a text from standard input.

    An argument that names no file is a text, unless it looks like a path. Folders and globs leave out what .gitignore
    names, Maestro's own files, and files that look as if they held a secret; one of those that is named is refused. A
    file that is there already, unchanged, is not added a second time.

    \b
    Example:
      maestro context add src/ "docs/**/*.md" --label initial
      git diff | maestro context add -
    """
    if kind is None or kind == "text":
        arguments: list[str | bytes] = [piped_in() if thing == "-" else thing for thing in things]
    else:
        arguments = list(things)
    shown = output.Progress("added")
    try:
        added = app.maestro.context.add(
            *arguments,
            kind=kind,
            labels=labels,
            note=note,
            follow=follow,
            again=again,
            force=force,
            progress=shown.update,
        )
    finally:
        # After Ctrl-C it stays on the screen: what it counts is in the session, whole.
        shown.done()
    _show_added(added, "added", as_json=as_json)


def _show_added(added: Added, word: str, *, as_json: bool) -> None:
    if as_json:
        output.document(added)
        return
    there = set(added.unchanged)
    items = [item for item in added.items if item.id not in there]
    for item in items[:20]:
        output.line(f"{output.colour(item.id, bold=True)} {word}  {_kind_and_what(item)}")
    if len(items) > 20:
        output.line(f"… and {len(items) - 20} more, up to {items[-1].id}")
    for item in [item for item in added.items if item.id in there][:20]:
        output.warning(f"{describe(item)} is already there as {item.id}, unchanged")
    if len(there) > 20:
        output.warning(f"… and {len(there) - 20} more that are already there")
    for one in added.skipped[:20]:
        output.warning(f"skipped {one.path}: {one.reason}")
    if len(added.skipped) > 20:
        output.warning(f"… and {len(added.skipped) - 20} more skipped")


def describe(item: ContextItem) -> str:
    source = item.source
    match item.kind:
        case "file":
            return str(source.get("path_rel"))
        case "output":
            lines = f" lines {source['lines']}" if "lines" in source else ""
            return f"run {source.get('run_id')}{lines}"
    return item.notes or str(source.get("preview", ""))


def _kind_and_what(item: ContextItem) -> str:
    return output.safe(f"{item.kind:<7} {describe(item)}".rstrip())


@context.command("list")
@click.option("--all", "show_all", is_flag=True, help="Removed ones too.")
@json_option
@pass_app
def list_items(app: App, show_all: bool, as_json: bool) -> None:
    """List what runs are sent, and which files differ from their snapshot by now.

    \b
    Example:
      maestro context list --all
    """
    items = app.maestro.context.list(everything=show_all)
    if as_json:
        output.document({"items": items})
        return
    if not items:
        output.note("no context yet: maestro context add PATH")
        return
    rows = []
    for item in items:
        size, state = item.source.get("size"), item.drift or ""
        if item.state == "removed":
            state = "removed"
        bytes_text = "" if size is None else str(size)
        what, labels = output.safe(describe(item)), output.safe(" ".join(item.labels))
        rows.append((item.id, item.kind, what, bytes_text, labels, _drift(state)))
    output.table(("item", "kind", "what", "bytes", "labels", "now"), rows, flexible=2)


def _drift(word: str) -> str:
    return output.colour(word, {"changed": "yellow", "missing": "red", "same": "green"}.get(word))


@context.command()
@click.argument("item_id", metavar="ID", shell_complete=offers.items)
@json_option
@pass_app
def show(app: App, item_id: str, as_json: bool) -> None:
    """Show an item with its content as it was when it was added; a pipe gets exactly the content's bytes.

    \b
    Example:
      maestro context show ctx-0001
    """
    item, content = app.maestro.context.show(item_id)
    if as_json:
        output.document({"item": item, **output.content_fields(content)})
    elif not output.is_terminal():
        output.raw(content)
    else:
        output.line(f"{output.colour(item.id, bold=True)}  {_kind_and_what(item)}  {item.state}")
        for name, value in (("labels", " ".join(item.labels)), ("note", item.notes), ("sha256", item.snapshot.digest)):
            if value:
                output.line(f"  {name:<8}{output.safe(value)}")
        output.line()
        output.line(output.safe(content.decode("utf-8", "replace")))


@context.command()
@click.argument("item_ids", nargs=-1, required=True, metavar="ID…", shell_complete=offers.items)
@json_option
@pass_app
def remove(app: App, item_ids: tuple[str, ...], as_json: bool) -> None:
    """Take items out of what runs are sent; they stay in the history.

    \b
    Example:
      maestro context remove ctx-0002
    """
    removed = app.maestro.context.remove(*item_ids)
    if as_json:
        output.document({"items": removed})
        return
    for item in removed:
        output.line(f"{output.colour(item.id, bold=True)} removed  {_kind_and_what(item)}")


@context.command()
@json_option
@pass_app
def clear(app: App, as_json: bool) -> None:
    """Take every item out of what runs are sent; they stay in the history.

    \b
    Example:
      maestro context clear
    """
    count = app.maestro.context.clear()
    output.result({"removed": count}, f"{count} removed", as_json=as_json)


@context.command("use-output")
@click.argument("run", metavar="RUN|last", shell_complete=offers.runs)
@click.option("--lines", metavar="A-B", help="Only these lines, counted from 1, both included.")
@click.option("--note", metavar="TEXT", help="Why it is relevant.")
@json_option
@pass_app
def use_output(app: App, run: str, lines: str | None, note: str | None, as_json: bool) -> None:
    """Promote what a run printed, whole or in part, to an item of context.

    \b
    Example:
      maestro context use-output last --lines 10-40 --note "the plan"
    """
    _show_added(app.maestro.context.use_output(run, lines=lines, note=note), "added", as_json=as_json)


@context.command()
@click.argument("item_ids", nargs=-1, metavar="[ID…]", shell_complete=offers.items)
@click.option("--force", is_flag=True, help="Take files that look as if they held a secret by now, too.")
@json_option
@pass_app
def refresh(app: App, item_ids: tuple[str, ...], force: bool, as_json: bool) -> None:
    """Take a new snapshot of files that changed, in the place of the old one; without IDs, of all of them.

    \b
    Example:
      maestro context refresh
    """
    added = app.maestro.context.refresh(*item_ids, force=force)
    _show_added(added, "refreshed", as_json=as_json)
    if not added.items and not as_json and sys.stderr.isatty():
        output.note("nothing changed")
