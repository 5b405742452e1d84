"""`maestro wsession breadcrumb|breadcrumbs|timeline|stats` and `maestro work`: what was done in work sessions."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from maestro_cli import complete as offers
from maestro_cli import output
from maestro_cli.app import App, Noun, json_option, pass_app
from maestro_cli.input import json_argument, text_argument
from maestro_state.clock import now_ms
from maestro_state.errors import InvalidValue, NotFound, UsageError

if TYPE_CHECKING:
    from maestro_state import Breadcrumb, Filters, WorkStats, WorkView

STATUSES = ("running", "paused", "completed", "failed", "interrupted")

#: A pause longer than this is shown as one, in milliseconds.
_GAP_MS = 60_000


def filter_options(command: Callable[..., None]) -> Callable[..., None]:
    for option in (
        click.option("--until", metavar="TIME", help="Up to this time (as --since)."),
        click.option("--since", metavar="TIME", help="After this time: 2026-11-16T09:30, or 2h for two hours ago."),
        click.option("--depth", type=click.IntRange(min=0), metavar="N", help="Only this depth."),
        click.option("--status", type=click.Choice(STATUSES), help="Only work sessions with this status."),
        click.option("--type", "session_type", metavar="TYPE", help="Only work sessions of this type."),
    ):
        command = option(command)
    return command


def filters_of(options: dict[str, Any]) -> Filters:
    from maestro_state import Filters
    from maestro_state.models.work_names import moment_ms

    now = now_ms()
    since, until = options["since"], options["until"]
    return Filters(
        session_type=options["session_type"],
        status=options["status"],
        depth=options["depth"],
        since_ms=moment_ms(since, now) if since else None,
        until_ms=moment_ms(until, now) if until else None,
    )


def cookie_of(app: App, given: str | None) -> str:
    """Return the cookie that was given, else MAESTRO_COOKIE."""
    cookie = given or app.maestro.settings.cookie
    if not cookie:
        raise UsageError("no cookie given", hint="--cookie ID, or MAESTRO_COOKIE; maestro wsession list shows them")
    return cookie


@click.group(cls=Noun)
def breadcrumb() -> None:
    """Add breadcrumbs to a work session.

    \b
    Example:
      maestro wsession breadcrumb add --cookie latest --prompt fix --response done
    """


@breadcrumb.command()
@click.option("--cookie", metavar="ID", help="The work session (default MAESTRO_COOKIE).")
@click.option(
    "--from",
    "source",
    metavar="FILE",
    shell_complete=offers.paths,
    help="Read the breadcrumb as JSON from a file, or - for stdin.",
)
@click.option("--prompt", metavar="TEXT", help="What was asked.")
@click.option("--response", metavar="TEXT", help="What was answered; - reads it from standard input.")
@click.option("--model", metavar="NAME", help="Which model answered.")
@click.option("--tokens-in", type=click.IntRange(min=0), metavar="N", help="Tokens the model read.")
@click.option("--tokens-out", type=click.IntRange(min=0), metavar="N", help="Tokens the model wrote.")
@click.option("--cost", type=float, metavar="USD", help="What it cost; leave it out when it is not known.")
@click.option("--cost-estimated", is_flag=True, help="The cost is an estimate.")
@click.option("--depth", type=click.IntRange(min=0), metavar="N", help="Level in the tree (default the session's own).")
@click.option("--error", metavar="TEXT", help="What went wrong, if something did.")
@json_option
@pass_app
def add(app: App, /, cookie: str | None, source: str | None, as_json: bool, **said: Any) -> None:
    """Add a breadcrumb to a work session; the same breadcrumb_id twice is once.

    \b
    Example:
      maestro wsession breadcrumb add --cookie latest --prompt fix --response done
      my-agent --json | maestro wsession breadcrumb add --from -
    """
    work = app.maestro.work.read(cookie_of(app, cookie))
    crumb = _from_file(work, source) if source else _from_options(work, said)
    added = app.maestro.work.add_breadcrumb(work.id, crumb)
    app.maestro.work.checkpoint(work.id)
    output.result(added.document(), crumb.breadcrumb_id, as_json=as_json)


def _defaults(work: WorkView) -> dict[str, Any]:
    """Return what a new breadcrumb has when nobody says otherwise."""
    import uuid

    from maestro_state.models.work_names import stamp_of

    return {
        "timestamp": stamp_of(now_ms()),
        "breadcrumb_id": str(uuid.uuid4()),
        "depth_level": work.depth,
        "parent_session_id": work.record.parent_session_id,
    }


def _from_file(work: WorkView, source: str) -> Breadcrumb:

    from maestro_state.models.work import breadcrumb_of

    if source == "-":
        text = text_argument("-")
    else:
        if not os.path.isfile(source):
            raise NotFound(f"there is no file '{source}'", hint="--from FILE, or - for standard input")
        try:
            with open(source, encoding="utf-8") as file:
                text = file.read()
        except UnicodeDecodeError as error:
            raise InvalidValue(f"{source} is not UTF-8 text") from error
    return breadcrumb_of(json_argument("--from", text), **_defaults(work))


def _from_options(work: WorkView, said: dict[str, Any]) -> Breadcrumb:
    from maestro_state.models.work import breadcrumb_of

    if said["prompt"] is None or said["response"] is None:
        raise UsageError("a breadcrumb needs a prompt and a response", hint="--prompt P --response R, or --from FILE")
    document = {
        "prompt": said["prompt"],
        "response": text_argument(said["response"]),
        "model_used": said["model"],
        "token_count": {"input": said["tokens_in"] or 0, "output": said["tokens_out"] or 0},
        "cost": said["cost"],
        "cost_estimated": said["cost_estimated"],
        "depth_level": said["depth"],
        "error": said["error"],
    }
    return breadcrumb_of(document, **_defaults(work))


@click.command()
@click.argument("ref", default="latest")
@click.option("--children", "with_children", is_flag=True, help="Also those of work sessions under it.")
@filter_options
@json_option
@pass_app
def breadcrumbs(app: App, /, ref: str, with_children: bool, as_json: bool, **options: Any) -> None:
    """Show what was accepted, and whether it is applied yet.

    \b
    Example:
      maestro wsession breadcrumbs latest --since 2h
    """
    found = app.maestro.work.breadcrumbs(ref, filters_of(options), with_children=with_children)
    if as_json:
        output.document({"breadcrumbs": [one.document() for one in found]})
        return
    for one in found:
        mark = output.colour("✓", "green") if one.applied else output.colour("·", "yellow")
        stamp = output.colour(output.safe(one.breadcrumb.timestamp), dim=True)
        output.line(f"{mark} {stamp}  {output.safe(one.breadcrumb.gist())}")


@click.command()
@click.argument("ref", default="latest")
@filter_options
@json_option
@pass_app
def timeline(app: App, /, ref: str, as_json: bool, **options: Any) -> None:
    """Show what happened in a work session and all under it, by time.

    \b
    Example:
      maestro wsession timeline latest
    """
    found = app.maestro.work.timeline(ref, filters_of(options))
    if as_json:
        output.document({"events": [one.document() for one in found]})
        return
    before: int | None = None
    day = ""
    for one in found:
        if before is not None and one.at_ms - before >= _GAP_MS:
            output.line(output.colour(f"{'':10}⋮ {output.duration((one.at_ms - before) // 1000)}", dim=True))
        before = one.at_ms
        if day != (day := output.local_time(one.document()["ts"], "%Y-%m-%d")):
            output.line(output.colour(day, bold=True))
        output.line(event_line(one.document()))
    if len(found) > 1:
        span = (found[-1].at_ms - found[0].at_ms) // 1000
        output.note(f"{len(found)} events in {output.duration(span)}")


def event_line(event: dict[str, Any]) -> str:
    """Return the line a person sees of something that happened in a work session."""
    clock = output.colour(output.local_time(event["ts"], "%H:%M:%S"), dim=True)
    indent = "│ " * event["depth"]
    kind = output.colour(event["type"], "cyan")
    return f"{clock}  {indent}{kind}  {output.safe(event['summary']) or event['session_id']}".rstrip()


@click.command()
@click.argument("ref", default="latest")
@filter_options
@json_option
@pass_app
def stats(app: App, /, ref: str, as_json: bool, **options: Any) -> None:
    """Add up tokens, cost, tools and models of a work session and all under it.

    \b
    Example:
      maestro wsession stats latest
    """
    found = app.maestro.work.stats(ref, filters_of(options))
    if as_json:
        output.document(found)
    else:
        _show_stats(found)


def _show_stats(found: WorkStats) -> None:
    detail = found.cost_detail
    cost = f"${found.cost:.4f}"
    if detail["estimated"]:
        cost += f", of it ${detail['estimated']:.4f} estimated"
    if detail["unknown"]:
        cost += f"; unknown for {output.counted(int(detail['unknown']), 'breadcrumb')}"
    rows = [
        ("sessions", str(found.sessions)),
        ("breadcrumbs", str(found.breadcrumbs)),
        ("tokens", f"{found.tokens['input']} in, {found.tokens['output']} out"),
        ("cost", cost),
        ("files", f"{found.files_modified} modified"),
        ("errors", str(found.errors)),
    ]
    for model, share in found.by_model.items():
        rows.append((f"model {model}", f"{output.counted(share['breadcrumbs'], 'breadcrumb')}, ${share['cost']:.4f}"))
    rows += [(f"tool {tool}", str(times)) for tool, times in found.by_tool.items()]
    rows += [(f"depth {depth}", str(times)) for depth, times in found.by_depth.items()]
    rows += [(f"day {day}", str(times)) for day, times in found.by_day.items()]
    for name, value in rows:
        output.line(f"{output.safe(name):<24}  {value}")


@click.command()
@click.argument("cookie", required=False)
@click.option("--once", is_flag=True, help="Apply what is there, then exit.")
@click.option("--until-idle", type=click.FloatRange(min=0), metavar="SECONDS", help="Exit after so long without any.")
@json_option
@pass_app
def work(app: App, cookie: str | None, once: bool, until_idle: float | None, as_json: bool) -> None:
    """Apply the breadcrumbs of a work session, each exactly once.

    Takes them from the server and from the files under docs/sessions/, for the work session and all under it, and
    shows them as they are applied. Any number of these may run at once. COOKIE defaults to MAESTRO_COOKIE.

    \b
    Example:
      maestro work latest --once
    """
    work_id = app.maestro.work.resolve(cookie_of(app, cookie))
    if once:
        outcome = app.maestro.work.consume(work_id)
        if as_json:
            output.document(outcome)
            return
        output.line(f"{outcome.applied} applied, {outcome.duplicates} duplicates, {len(outcome.rejected)} rejected")
        for one in outcome.rejected:
            output.line(output.safe(f"  {one.source}: {one.reason}"))
        return
    output.note(f"working on {work_id} (Ctrl-C exits)")
    until_idle_ms = None if until_idle is None else max(1, int(until_idle * 1000))
    for happening in app.maestro.work.follow(work_id, until_idle_ms=until_idle_ms):
        if as_json:
            output.json_line(happening.document())
        else:
            output.line(event_line(happening.document()))
