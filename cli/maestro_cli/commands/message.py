"""`maestro message add`, `maestro messages`: the structured conversation."""

from __future__ import annotations

import click

from maestro_cli import output
from maestro_cli.app import App, Noun, json_option, pass_app
from maestro_cli.input import json_argument, text_argument
from maestro_cli.screen.authors import author


@click.group(cls=Noun)
def message() -> None:
    """Add messages to a session.

    \b
    Example:
      maestro message add --role user "why does the login fail?"
    """


@message.command()
@click.argument("text")
@click.option("--role", required=True, metavar="ROLE", help="user, assistant, system or tool.")
@click.option("--metadata", metavar="JSON", help="A JSON object kept with the message.")
@click.option("--tool-calls", metavar="JSON", help='Tool calls: [{"id": …, "tool": …, "args": …}].')
@click.option("--tool-results", metavar="JSON", help='Their results: [{"call_id": …, "result": …}].')
@click.option("--parent", "parent_id", metavar="ID", help="The message this one answers.")
@json_option
@pass_app
def add(
    app: App,
    text: str,
    role: str,
    metadata: str | None,
    tool_calls: str | None,
    tool_results: str | None,
    parent_id: str | None,
    as_json: bool,
) -> None:
    """Add a message; TEXT - reads it from standard input.

    \b
    Example:
      git diff | maestro message add --role user -
    """
    added = app.maestro.messages.add(
        role,
        text_argument(text),
        metadata=json_argument("--metadata", metadata) if metadata else None,
        tool_calls=json_argument("--tool-calls", tool_calls) if tool_calls else None,
        tool_results=json_argument("--tool-results", tool_results) if tool_results else None,
        parent_id=parent_id,
    )
    if as_json:
        output.document(added.document())
    else:
        output.line(added.id)


@click.command()
@click.option("--last", type=click.IntRange(min=1), metavar="N", help="Only the last N (default 20; --all: every one).")
@click.option("--since", metavar="ID", help="Only those after this one.")
@click.option("--all", "show_all", is_flag=True, help="Every message.")
@click.option("--for-model", is_flag=True, help="What a model is handed: context_summary instead of older messages.")
@json_option
@pass_app
def messages(app: App, last: int | None, since: str | None, show_all: bool, for_model: bool, as_json: bool) -> None:
    """Read the messages of a session.

    \b
    Example:
      maestro messages --last 5
    """
    room = app.maestro.messages
    if for_model:
        found = room.for_model()
    elif since is not None or show_all:
        found = room.since(since)
        found = found[-last:] if last else found
    else:
        found = room.last(last or 20)
    if as_json:
        output.document({"messages": [one.document() for one in found]})
        return
    if not found:
        output.note(f"no messages {'after that one' if since else 'yet: maestro message add --role user TEXT'}")
    for one in found:
        when = output.colour(output.local_time(one.timestamp), dim=True)
        output.line(f"{output.colour(one.role, 'cyan', bold=True)}{author(one.user, one.metadata, one.role)}  {when}")
        for line in output.safe(one.content).split("\n"):  # set in: no text can look like another's heading
            output.line(f"  {line}".rstrip())
        for call in one.tool_calls or []:
            output.line(output.safe(f"  → {call.get('tool') or call.get('name') or 'tool'} ({call['id']})"))
        for result in one.tool_results or []:
            output.line(output.safe(f"  ← {result['call_id']}"))
        output.line()
