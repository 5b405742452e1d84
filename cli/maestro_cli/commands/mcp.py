"""`maestro mcp`: the session as an MCP server, for agents."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

import click

from maestro_cli import output
from maestro_cli.app import App, Noun, json_option, pass_app
from maestro_state import UsageError

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

#: Exit code of what Ctrl-C ended.
_INTERRUPTED = 130
#: Where `--http` listens unless told.
HOST, PORT = "127.0.0.1", 4176
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
#: The tools that can be given a server; a test holds it against what is known of them.
_TOOLS = ("claude", "codex", "gemini", "qwen", "opencode")


@click.group(cls=Noun, invoke_without_command=True)
@click.option("--http", is_flag=True, help="Serve streamable HTTP at /mcp instead of standard input and output.")
@click.option("--host", default=HOST, show_default=True, metavar="HOST", help="Loopback address to listen on.")
@click.option("--port", default=PORT, show_default=True, type=click.IntRange(0, 65535), metavar="PORT", help="Port.")
@click.option("--read-only", is_flag=True, help="Only tools that change nothing.")
@click.pass_context
def mcp(ctx: click.Context, http: bool, host: str, port: int, read_only: bool) -> int:
    """Serve the session to an AI tool, as an MCP server.

    AI tools start this by themselves once it is registered: see maestro mcp install. What they read and post is the
    active session of the project they are started in. Needs the extra mcp.

    \b
    Example:
      maestro mcp install claude
      maestro mcp --http --read-only
    """
    if ctx.invoked_subcommand is not None:
        return 0
    app: App = ctx.obj
    server = _server(app, read_only=read_only)
    if http:
        return _serve_http(server, host, port)
    return _serve_stdio(server)


def _server(app: App, *, read_only: bool) -> MCPServer:
    from maestro_state.mcp import build_server

    try:
        server = build_server(project=app.folder, session=app.session_ref, read_only=read_only)
    except ImportError as error:
        raise UsageError(str(error.msg)) from None
    _log_quietly()
    return server


def _log_quietly() -> None:
    """Log to standard error what went wrong: standard output is the protocol's."""
    from maestro_state.local.logs import configure_logs

    configure_logs("warning")
    logging.captureWarnings(True)


def _serve_stdio(server: MCPServer) -> int:
    """Serve until the client is gone, which is how this ends."""
    from maestro_state.mcp import serve_stdio

    if sys.stdin.isatty():
        output.note("waiting for an MCP client on standard input (maestro mcp install registers this; Ctrl-C exits)")
    try:
        serve_stdio(server, when_interrupted=lambda: App.exit(_INTERRUPTED))
    except* (BrokenPipeError, ConnectionError):
        pass  # it left in the middle of an answer
    return 0


def _serve_http(server: MCPServer, host: str, port: int) -> int:
    import uvicorn

    from maestro_state.local.listening import listen
    from maestro_state.mcp import asgi_app

    if host not in _LOOPBACK:
        raise UsageError(
            f"{host} can be reached by others, and maestro mcp --http asks nobody who they are",
            hint="listen on 127.0.0.1; maestro serve --require-auth serves /mcp to others",
        )
    config = uvicorn.Config(asgi_app(server), log_level="warning", log_config=None)
    listening = listen(host, port)  # whoever reads the address below may come at once
    named = f"[{host}]" if ":" in host else host
    output.line(f"http://{named}:{listening.getsockname()[1]}/mcp")
    uvicorn.Server(config).run(sockets=[listening])
    return 0


@mcp.command()
@click.argument("tool", type=click.Choice(_TOOLS))
@click.option("--scope", type=click.Choice(("project", "user")), default="user", show_default=True,
              help="In this project's files, or for all of this user's projects.")  # fmt: skip
@click.option("--print", "only_print", is_flag=True, help="Show what would be written, and write nothing.")
@click.option("--remove", is_flag=True, help="Take it out again.")
@json_option
@pass_app
def install(app: App, tool: str, scope: str, only_print: bool, remove: bool, as_json: bool) -> None:
    """Register this with an AI tool, which starts it by itself from then on.

    It is written where the tool lists its servers; of claude's own list for all projects, by claude mcp add. Doing it
    again changes nothing.

    \b
    Example:
      maestro mcp install claude
      maestro mcp install codex --print
      maestro mcp install gemini --scope project --remove
    """
    from maestro_cli.mcp_hosts import has_extra, plan
    from maestro_state.mcp import missing_extra

    found = plan(tool, scope, app.maestro.project.root, remove=remove)
    if not only_print:
        found.carry_out()
    missing = None if remove or has_extra() else missing_extra()
    if as_json:
        output.document({**found.document(done=not only_print), "missing": missing})
        return
    if missing:
        output.warning(f"what {tool} is to start cannot run yet: {missing}")
    if only_print:
        for line in found.lines():
            output.line(line)
        return
    if found.status == "unchanged":
        output.line(f"{tool}: nothing to do, maestro is {'not ' if remove else ''}registered in {found.path}")
        return
    output.line(f"{tool}: {found.status} in {found.path}")
    if not remove and not missing:
        output.note(f"start {tool} in a project and ask: what is the team working on?")
