"""`maestro open`: an AI tool in this terminal, with what is said in it in the session."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from maestro_cli import output
from maestro_cli.app import App, HandsOn, pass_app
from maestro_state.errors import InvalidTransition, InvalidValue, NotFound, UsageError
from maestro_state.tools.interactive import INTERACTIVE, Interactive

if TYPE_CHECKING:
    from maestro_state import Run, Session
    from maestro_state.mcp.launch_config import LaunchConfig

_LAST = "last"


@click.command("open", cls=HandsOn)
@click.argument("tool", required=False, metavar="TOOL")
@click.option(
    "--continue",
    "continues",
    is_flag=False,
    flag_value=_LAST,
    metavar="[RUN]",
    help="Go on with the conversation of a run, by default the tool's last one in this session.",
)
@pass_app
def open_(app: App, /, tool: str | None, continues: str | None, arguments: tuple[str, ...]) -> int:
    """Sit in an AI tool, with what is said there in the session.

    TOOL is claude, codex, gemini, qwen, opencode or llm. It runs in this terminal as if you had typed its name, and
    exits with its exit code. What is said in it is in the session within moments, for all who watch: messages, what the
    agent does, each turn as a run with its tokens. The tool can ask for the session by itself (maestro mcp), in this
    start only. What follows -- is handed to the tool.

    \b
    Example:
      maestro open claude
      maestro open codex -- --model gpt-5
      maestro open claude --continue
    """
    if tool is None and continues in INTERACTIVE:
        tool, continues = continues, _LAST  # "--continue claude": the word is the tool's
    session = app.maestro.sessions.read()
    if session.state in ("finalizada", "abortada"):
        raise InvalidTransition(session.id, session.state, "opening a tool")
    before = app.maestro.runs.conversation(continues, session.id, tool=tool) if continues else None
    name = _name(tool or (before.tool if before else session.tool_active))
    return _open(app, session, name, before, arguments)


def _name(tool: str | None) -> str:
    if tool is None:
        raise UsageError("name the tool to open", hint=f"maestro open claude, or one of {', '.join(INTERACTIVE)}")
    if tool not in INTERACTIVE:
        raise InvalidValue(f"'{tool[:40]}' is no tool that can be opened", hint=f"one of {', '.join(INTERACTIVE)}")
    return tool


def _open(app: App, session: Session, name: str, before: Run | None, arguments: tuple[str, ...]) -> int:
    how = INTERACTIVE[name]
    program = shutil.which(how.words[0])
    if program is None:
        raise NotFound(f"{name} is not installed here", hint=f"install {name}, or put it on PATH")
    conversation = before.usage.tool_session if before and before.usage else None
    given = _new_id() if conversation is None and how.takes_an_id(arguments) else None
    with ExitStack() as stack:
        folder = os.path.join(tempfile.gettempdir(), f"maestro-open-{_new_id()}")
        start = _server_for(app, name, os.path.join(folder, "settings.json"))
        if start.content is not None and start.mark:
            os.mkdir(folder, 0o700)  # only where it is needed: whoever is killed cannot take it away
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            with open(os.open(start.mark, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(start.content)
        words = [*how.words, *_apart(program, how), *start.words, *how.argv(given, conversation, arguments)]
        environment = os.environ | start.variables | {"MAESTRO_SESSION": session.id}
        known = {"tool": name, "conversation": conversation or given or how.named(arguments), "mark": start.mark}
        return _run(app, session, program, words, dict(environment), known)


def _new_id() -> str:
    import uuid

    return str(uuid.uuid4())


def _server_for(app: App, name: str, path: str) -> LaunchConfig:
    """Return what registers `maestro mcp` with the tool for this start; where it cannot, say why and go on without."""
    from maestro_cli.mcp_hosts import has_extra, is_registered, own_command
    from maestro_state.mcp.launch_config import LaunchConfig, launch_config

    if not has_extra():
        from maestro_state.local.extras import install_command

        output.note(f"{name} cannot ask for the session by itself: {install_command('mcp')} lets it")
        return LaunchConfig()
    command = own_command()
    if app.folder is not None:
        command = [command[0], "--project", os.path.abspath(app.folder), *command[1:]]
    start = launch_config(name, command, os.environ, path)
    if start.reason and not is_registered(name, app.maestro.project.root):
        output.note(f"{name} cannot ask for the session by itself: {start.reason}")
    return start


def _apart(program: str, how: Interactive) -> list[str]:
    """Return the words that keep this start apart from others, of those that the installed version knows."""
    if not how.apart:
        return []
    import subprocess

    try:
        asked = subprocess.run(
            [program, "--help"], stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    known = asked.stdout.decode(errors="replace").split()
    return [word for word in how.apart if word in known]


def _run(app: App, session: Session, program: str, words: list[str], environment: dict[str, str], known: Any) -> int:
    from msgspec.structs import replace

    from maestro_cli.foreground import Foreground
    from maestro_cli.open_follower import Follower
    from maestro_state.clock import now_ms

    terminal = replace(app.terminal(), terminal=f"{app.terminal_name()} {known['tool']}")
    sys.stdout.flush()
    app.close()  # what follows has a connection of its own: two processes must not share one
    start = {**known, "started_ms": now_ms(), "folder": os.path.realpath(os.getcwd())}
    own_screen = INTERACTIVE[known["tool"]].has_own_screen
    running = Foreground(program, words, environment, has_own_screen=own_screen)
    follower = Follower(app, session.id, terminal, start, running)
    code = running.wait(follower.restart)
    follower.finish()
    return code
