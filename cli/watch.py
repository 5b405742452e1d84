"""`maestro watch`: a session as it happens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cli import offers
from cli.app import App, json_option, pass_app

if TYPE_CHECKING:
    from maestro_state import Event

#: Longest time to wait for an event, in seconds: a year.
_LONGEST_S = 366 * 24 * 3600


@click.command()
@click.argument("ref", required=False, shell_complete=offers.sessions)
@click.option("--from", "cursor", metavar="ID", help="start, or the event to continue after (default: from now on).")
@click.option("--until-idle", type=click.FloatRange(min=0), metavar="SECONDS", help="Leave after so long without one.")
@json_option
@pass_app
def watch(app: App, ref: str | None, cursor: str | None, until_idle: float | None, as_json: bool) -> int:
    """Follow a session live.

    Every event is shown once, in the same order in every terminal. Ctrl-C leaves; the session goes on.

    \b
    Example:
      maestro watch --from start
    """
    from cli import output

    if until_idle is not None and not until_idle <= _LONGEST_S:  # "nan" is a float too, and below nothing
        raise click.UsageError(f"--until-idle takes at most {_LONGEST_S} seconds, not {until_idle}")
    session_id = app.maestro.sessions.read(ref).id
    output.note(f"watching {session_id} (Ctrl-C leaves)")
    until_idle_ms = None if until_idle is None else max(1, int(until_idle * 1000))
    last = cursor or app.maestro.follow.newest(session_id)
    try:
        for event in app.maestro.follow.events(
            session_id, cursor=last, until_idle_ms=until_idle_ms, terminal=app.terminal()
        ):
            last = event.id
            if as_json:
                output.json_line(event.document())
            elif not _is_blank(event):
                output.line(describe(event))
    except KeyboardInterrupt:
        if not as_json:
            output.note(f"\nleft; go on with: maestro watch {session_id} --from {last}")
        return 130
    return 0


def _is_blank(event: Event) -> bool:
    """Tell whether an event has nothing for people: output that is only the end of a line."""
    return event.type == "run.output" and not event.data["text"].strip()


def describe(event: Event) -> str:
    """Return the line a person sees of an event."""
    from cli import output

    clock = output.colour(output.local_time(event.ts, "%H:%M:%S"), dim=True)
    first, *more = output.safe(_gist(event)).split("\n")
    kind = output.colour(f"{event.type:<20}", "cyan")
    return "\n".join([f"{clock}  {kind}  {first}".rstrip(), *(f"{'':<32}{text}".rstrip() for text in more)])


def _gist(event: Event) -> str:
    data = event.data
    who = f" ({data['user']})" if "user" in data else ""
    match event.type:
        case "session.started":
            return f"{data['name']}{who}"
        case "message.added":
            return f"{data['role']}{who}: {' '.join(data['content'].split())[:200]}"
        case "session.updated":
            return f"{data['field']} at revision {data['revision']}{who}"
        case "context.added":
            instead = f" instead of {data['replaces']}" if "replaces" in data else ""
            return f"{data['item']} {data['kind']} {data.get('source', '')}".rstrip() + instead + who
        case "context.removed" | "run.cancel_requested":
            return f"{data.get('item') or data.get('run')}{who}"
        case "tool.selected":
            return f"{data['tool']}{who}"
        case "run.started" | "run.previewed":
            return f"{data['run']} {data['tool']}{who}"
        case "run.claimed":
            return f"{data['run']} by {data['owner']}"
        case "run.output":
            return "\n".join(f"{data['run']} │ {text}" for text in data["text"].rstrip().split("\n"))
        case "run.finished":
            usage = data.get("usage", {})
            tokens = "".join(f" · {usage[name]} {name}" for name in ("tokens_input", "tokens_output") if name in usage)
            error = f": {data['error']}" if "error" in data else ""
            return f"{data['run']} {data['status']}{error}{tokens}{who}"
        case "session.aborted":
            return f"{data['reason']}{who}"
    rest = {name: value for name, value in data.items() if name != "user"}
    return " ".join(f"{name}={value}" for name, value in rest.items()) + who
