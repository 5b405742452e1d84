"""The server object: the SDK's, with our tools, resources and prompts, and a Maestro for as long as it runs."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from maestro_state import __version__
from maestro_state.aio.maestro import AsyncMaestro
from maestro_state.mcp.clients import ClientPresence, client_name, session_number
from maestro_state.mcp.descriptions import INSTRUCTIONS
from maestro_state.mcp.marking import MarkingServer
from maestro_state.mcp.operations import Operations
from maestro_state.mcp.prompts import add_prompts
from maestro_state.mcp.resources import add_resources, add_subscriptions
from maestro_state.mcp.subscriptions import Subscriptions
from maestro_state.mcp.tools import tools

#: The name of connections that do not keep the embedded stack running.
ONLOOKER = "maestro-stack-watch"


class Lifespan:
    """What is open while the server runs: a Maestro, the operations on it, and who is connected."""

    def __init__(
        self,
        project: str | os.PathLike[str] | None,
        session: str | None,
        settings: dict[str, Any],
        *,
        command_lines: bool = True,
    ) -> None:
        """Take what a Maestro is made of, and whether runs may name any program."""
        self._command_lines = command_lines
        self._project = project
        self._session = session
        self._settings = settings
        self._operations: Operations | None = None
        self._presence: ClientPresence | None = None
        self.changes = Subscriptions()

    @property
    def operations(self) -> Operations:
        """Return them, of the running server."""
        if self._operations is None:
            raise RuntimeError("the server is not running")
        return self._operations

    @asynccontextmanager
    async def open(self, _: object) -> AsyncIterator[Operations]:
        """Open Maestro for as long as the server runs; settings are read now, nothing is connected."""
        async with self._maestro() as maestro:
            onlooker = self._onlooker(maestro)
            presence = self._presence = ClientPresence(maestro, onlooker)
            self._operations = Operations(maestro, presence, command_lines=self._command_lines)
            self.changes.begin(onlooker)
            keeping = asyncio.create_task(presence.keep())
            try:
                yield self._operations
            finally:
                keeping.cancel()
                with suppress(asyncio.CancelledError):
                    await keeping
                await self.changes.end()
                await presence.detach_all()
                if onlooker is not maestro:
                    await onlooker.close()
                self._operations = self._presence = None

    def _maestro(self, **more: Any) -> AsyncMaestro:
        return AsyncMaestro(_folder(self._project), session=self._session, **{**self._settings, **more})

    def _onlooker(self, maestro: AsyncMaestro) -> AsyncMaestro:
        """Return a Maestro that neither starts the embedded stack nor keeps it running."""
        if maestro.settings.redis_url is not None or "client" in self._settings:
            return maestro
        onlooker = self._maestro(redis_url=f"unix://{maestro.address.path}", client_name=ONLOOKER)
        onlooker.server.connection.retry_s = 0.5  # one that is gone is said to be
        return onlooker

    async def explain(self, ctx: Any, call_next: Any) -> Any:
        """Answer; of a prompt that is not there or cannot be made of what was given, say so as the protocol does."""
        try:
            return await call_next(ctx)
        except ValueError as error:
            if ctx.method != "prompts/get":
                raise
            raise MCPError(INVALID_PARAMS, f"{error} → prompts/list names them and what they take") from error

    async def identify_client(self, ctx: Any, call_next: Any) -> Any:
        """Take note of who asks, then answer; what every request goes through."""
        if self._presence is None:
            return await call_next(ctx)
        answer = None
        if ctx.method == "initialize":  # only then it is known who it is
            answer = await call_next(ctx)
            info = (ctx.params or {}).get("clientInfo") or {}
            name = client_name(str(info.get("name", "")), str(info.get("version", "")))
        elif ctx.session.client_params is None:
            return await call_next(ctx)
        else:
            info = ctx.session.client_params.client_info
            name = client_name(info.name, info.version)
        # The first answer over HTTP is what gives the client its session's number: it is known from the next one on.
        if not name or (answer is not None and ctx.request is not None):
            return answer if ctx.method == "initialize" else await call_next(ctx)
        # Over HTTP there are many clients, each with a session of the protocol or without; over stdio there is one.
        with self._presence.speaking(f"{session_number(ctx)}\0{name}", name, stays=ctx.request is None):
            return answer if ctx.method == "initialize" else await call_next(ctx)


def build(
    project: str | os.PathLike[str] | None,
    session: str | None,
    *,
    read_only: bool,
    settings: dict[str, Any],
    command_lines: bool = True,
) -> MCPServer:
    """Return the server; nothing is opened before it runs."""
    lifespan = Lifespan(project, session, settings, command_lines=command_lines)
    with _logging_as_it_is():
        server: MCPServer = MarkingServer(
            "maestro",
            title="Maestro",
            version=__version__,
            instructions=INSTRUCTIONS,
            tools=tools(lifespan, read_only=read_only),
            lifespan=lifespan.open,
            subscriptions=lifespan.changes,
            middleware=[lifespan.identify_client, lifespan.explain],
        )
    add_resources(server, lifespan)
    add_subscriptions(server, lifespan.changes)
    add_prompts(server, lifespan)
    return server


def _folder(project: str | os.PathLike[str] | None) -> str | os.PathLike[str] | None:
    """Return the folder whose project is meant: hosts start servers where they like, and say where they are."""
    if project is not None:
        return project
    said = os.environ.get("CLAUDE_PROJECT_DIR")
    return said if said and Path(said).is_dir() else None


@contextmanager
def _logging_as_it_is() -> Iterator[None]:
    """Keep the SDK from putting a handler of its own on the root logger, which is the program's to configure."""
    root, handler = logging.getLogger(), logging.NullHandler()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
