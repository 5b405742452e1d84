"""`maestro wsession …`: work sessions as wholes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from maestro_cli import output
from maestro_cli.app import App, Noun, json_option, pass_app
from maestro_cli.commands.breadcrumbs import breadcrumb, breadcrumbs, filter_options, filters_of, stats, timeline
from maestro_cli.input import json_argument
from maestro_state.clock import from_iso, now_ms
from maestro_state.errors import InvalidValue

if TYPE_CHECKING:
    from maestro_state import Node, WorkSession

ENDINGS = ("completed", "failed", "interrupted")


@click.group(cls=Noun)
def wsession() -> None:
    """Start, end and show work sessions and their breadcrumbs.

    \b
    Example:
      maestro wsession start work_task --entity task=T-17
    """


for _command in (breadcrumb, breadcrumbs, timeline, stats):
    wsession.add_command(_command)


@wsession.command()
@click.argument("session_type", metavar="TYPE")
@click.option("--parent", metavar="REF", help="The work session this one is part of.")
@click.option("--entity", "entities", multiple=True, metavar="K=V", help="What it is about; may be repeated.")
@click.option("--metadata", metavar="JSON", help="A JSON object kept with it.")
@click.option("--ttl", "ttl_seconds", type=click.IntRange(min=1), metavar="SECONDS", help="Life after the last event.")
@json_option
@pass_app
def start(
    app: App,
    session_type: str,
    parent: str | None,
    entities: tuple[str, ...],
    metadata: str | None,
    ttl_seconds: int | None,
    as_json: bool,
) -> None:
    """Start a work session and print its cookie.

    \b
    Example:
      export MAESTRO_COOKIE=$(maestro wsession start work_task --entity task=T-17)
    """
    started = app.maestro.work.start(
        session_type,
        parent=parent,
        related_entity=_entity(entities),
        metadata=_object(json_argument("--metadata", metadata)) if metadata else None,
        ttl_seconds=ttl_seconds,
    )
    output.result(started, started.session_id, as_json=as_json)


def _entity(pairs: tuple[str, ...]) -> dict[str, str]:
    entity = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise InvalidValue(f"'{pair[:40]}' is not K=V", hint="--entity task=T-17")
        entity[name] = value
    return entity


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidValue("--metadata must be a JSON object")
    return value


@wsession.command()
@click.argument("ref")
@click.option("--status", type=click.Choice(ENDINGS), default="completed", help="How it ended (default completed).")
@click.option("--children", type=click.Choice(("end", "leave")), help="End open children too, or let them go on.")
@json_option
@pass_app
def end(app: App, ref: str, status: str, children: str | None, as_json: bool) -> None:
    """End a work session for good; refused while children are open unless told what becomes of them.

    \b
    Example:
      maestro wsession end latest --status failed --children end
    """
    _show(app.maestro.work.end(ref, status, children=children or "refuse"), as_json=as_json)


@wsession.command()
@click.argument("ref")
@json_option
@pass_app
def pause(app: App, ref: str, as_json: bool) -> None:
    """Mark a work session as one that nobody works on just now.

    \b
    Example:
      maestro wsession pause latest
    """
    _show(app.maestro.work.pause(ref), as_json=as_json)


@wsession.command()
@click.argument("ref")
@json_option
@pass_app
def resume(app: App, ref: str, as_json: bool) -> None:
    """Mark a paused work session as running again.

    \b
    Example:
      maestro wsession resume latest
    """
    _show(app.maestro.work.resume(ref), as_json=as_json)


def _show(record: WorkSession, *, as_json: bool) -> None:
    output.result(record, f"{record.session_id}  {output.state_word(record.status)}", as_json=as_json)


@wsession.command("list")
@filter_options
@json_option
@pass_app
def list_sessions(app: App, /, as_json: bool, **options: Any) -> None:
    """List work sessions, last modified first.

    \b
    Example:
      maestro wsession list --status running --since 2d
    """
    found = app.maestro.work.list(filters_of(options))
    if as_json:
        output.document({"sessions": found})
        return
    if not found:
        output.note("no work sessions: maestro wsession start TYPE")
        return
    now = now_ms()
    output.table(
        ("work session", "type", "status", "about", "modified"),
        [
            (
                one.session_id,
                output.safe(one.session_type),
                output.state_word(output.safe(one.status)),
                output.safe(_about(one)),
                output.ago(from_iso(one.modified), now),
            )
            for one in found
        ],
        flexible=3,
    )


def _about(record: WorkSession) -> str:
    return " ".join(f"{name}={value}" for name, value in record.related_entity.items())


@wsession.command()
@click.argument("ref", default="latest")
@json_option
@pass_app
def show(app: App, ref: str, as_json: bool) -> None:
    """Show one work session.

    REF is its id, the beginning of its id, or latest.

    \b
    Example:
      maestro wsession show latest
    """
    import msgspec

    work = app.maestro.work.read(ref)
    children = app.maestro.work.children(work.id)
    record = work.record
    if as_json:
        more = {"children": [child.session_id for child in children], "breadcrumbs": work.accepted}
        output.document(msgspec.structs.asdict(record) | more)
        return
    output.line(output.colour(record.session_id, bold=True))
    rows = [
        ("type", record.session_type),
        ("status", record.status + ("" if work.is_live else " · only on disk")),
        ("about", _about(record)),
        ("parent", record.parent_session_id or ""),
        ("started", output.ago(from_iso(record.created), now_ms())),
        ("modified", output.ago(from_iso(record.modified), now_ms())),
        ("children", " ".join(child.session_id for child in children)),
        ("breadcrumbs", f"{work.accepted} {'accepted' if work.is_live else 'on disk'}, {work.applied} applied"),
        ("folder", record.breadcrumbs_dir.rpartition("/")[0]),
    ]
    for name, value in rows:
        if value:
            output.line(f"  {name:<13}{output.safe(value)}")


@wsession.command()
@click.argument("ref", required=False)
@filter_options
@json_option
@pass_app
def tree(app: App, /, ref: str | None, as_json: bool, **options: Any) -> None:
    """Show a work session with all under it, or every tree.

    \b
    Example:
      maestro wsession tree
    """
    nodes = app.maestro.work.tree(ref, filters_of(options))
    if as_json:
        output.document({"tree": [node.document() for node in nodes]})
        return
    for node in nodes:
        _draw(node, "", "")


def _draw(node: Node, first: str, rest: str) -> None:
    """Print a tree with lines that lead the eye."""
    record = node.record
    words = f"{record.session_type} {_about(record)}".strip()
    status = output.state_word(output.safe(record.status))
    output.line(f"{first}{record.session_id}  {status}  {output.safe(words)}")
    for at, child in enumerate(node.children, start=1):
        last = at == len(node.children)
        _draw(child, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "))
