"""Sessions for agents: an MCP server with eight tools, resources and prompts, over stdio or HTTP.

    from maestro_state.mcp import build_server

    build_server().run()  # over standard input and output

Needs the extra `mcp`: nothing else in the library imports it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from mcp.server.mcpserver import MCPServer
    from starlette.applications import Starlette

__all__ = ["asgi_app", "build_server", "missing_extra", "serve_stdio", "warm_up"]

#: How long a client waits before it comes back to a stream that was closed, in milliseconds.
RETRY_MS = 1000


def build_server(
    *,
    project: str | os.PathLike[str] | None = None,
    session: str | None = None,
    read_only: bool = False,
    command_lines: bool = True,
    **settings: Any,
) -> MCPServer:
    """Return the server of a project's sessions, to be run by any transport of the SDK.

    The project is the one around `project`, else around CLAUDE_PROJECT_DIR, else around the current folder; the
    session `session`, MAESTRO_SESSION, or the active one, looked up at every call. With `read_only` there is no tool
    that changes anything; without `command_lines` runs name a tool that Maestro knows, not any program. Settings are
    those of `Maestro`.
    """
    try:
        from maestro_state.mcp.server import build
    except ModuleNotFoundError as error:
        raise _explained(error) from error
    return build(project, session, read_only=read_only, command_lines=command_lines, settings=settings)


def asgi_app(
    server: MCPServer, *, allowed_hosts: Sequence[str] | None = None, retry_interval_ms: int = RETRY_MS
) -> Starlette:
    """Return an ASGI application that serves `/mcp` over streamable HTTP.

    A request that names another host than this machine's loopback or one of `allowed_hosts` is refused, and so is one
    from a page of another site: a browser must not be talked into using it.
    """
    try:
        from maestro_state.mcp.http import application
    except ModuleNotFoundError as error:
        raise _explained(error) from error
    return application(server, allowed_hosts or (), retry_interval_ms)


def serve_stdio(server: MCPServer, *, when_interrupted: Callable[[], None]) -> None:
    """Serve over standard input and output until the client is gone; when it is interrupted, and all is closed, do what
    ends the program.
    """
    import anyio

    server.when_interrupted = when_interrupted
    anyio.run(server.run_stdio_async)


def warm_up(server: MCPServer) -> None:
    """Have a server answer a first request of nobody's, so that the next one finds everything made."""
    from maestro_state.mcp.preload import answer_nobody

    answer_nobody(server)


def missing_extra() -> str:
    """Say what to do where the SDK is not installed."""
    from maestro_state.local.extras import install_command

    return f"MCP needs an extra: {install_command('mcp')}"


def _explained(error: ModuleNotFoundError) -> ImportError:
    """Name the extra, if it is what is missing."""
    missing = (error.name or "").partition(".")[0]
    return ImportError(missing_extra(), name=error.name) if missing in ("mcp", "mcp_types", "starlette") else error
