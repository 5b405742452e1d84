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

from maestro_state import __version__
from maestro_state.aio.maestro import AsyncMaestro
from maestro_state.mcp.changes import Changes
from maestro_state.mcp.clients import Attendance, client_name, session_number
from maestro_state.mcp.desk import Desk
from maestro_state.mcp.prompts import add_prompts
from maestro_state.mcp.resources import add_resources, add_subscriptions
from maestro_state.mcp.texts import INSTRUCTIONS
from maestro_state.mcp.tools import tools

#: The name of connections that do not keep the embedded stack running.
ONLOOKER = "maestro-stack-watch"


class Office:
    """Where requests find the desk: there is one while the server runs."""

    def __init__(self, project: str | os.PathLike[str] | None, session: str | None, settings: dict[str, Any]) -> None:
        """Take what a Maestro is made of."""
        self._project = project
        self._session = session
        self._settings = settings
        self._desk: Desk | None = None
        self._attendance: Attendance | None = None
        self.changes = Changes()

    @property
    def desk(self) -> Desk:
        """Return the desk of the running server."""
        if self._desk is None:
            raise RuntimeError("the server is not running")
        return self._desk

    @asynccontextmanager
    async def open(self, _: object) -> AsyncIterator[Desk]:
        """Open Maestro for as long as the server runs; settings are read now, nothing is connected."""
        async with self._maestro() as maestro:
            onlooker = self._onlooker(maestro)
            attendance = self._attendance = Attendance(maestro, onlooker)
            self._desk = Desk(maestro, attendance)
            self.changes.begin(onlooker)
            keeping = asyncio.create_task(attendance.keep())
            try:
                yield self._desk
            finally:
                keeping.cancel()
                with suppress(asyncio.CancelledError):
                    await keeping
                await self.changes.end()
                await attendance.leave_all()
                if onlooker is not maestro:
                    await onlooker.close()
                self._desk = self._attendance = None

    def _maestro(self, **more: Any) -> AsyncMaestro:
        return AsyncMaestro(_folder(self._project), session=self._session, **{**self._settings, **more})

    def _onlooker(self, maestro: AsyncMaestro) -> AsyncMaestro:
        """Return a Maestro that neither starts the embedded stack nor keeps it running."""
        if maestro.settings.redis_url is not None or "client" in self._settings:
            return maestro
        onlooker = self._maestro(redis_url=f"unix://{maestro.address.path}", client_name=ONLOOKER)
        onlooker.server.connection.retry_s = 0.5  # one that is gone is said to be
        return onlooker

    async def heed(self, ctx: Any, call_next: Any) -> Any:
        """Take note of who asks, then answer; what every request goes through."""
        if self._attendance is None:
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
        with self._attendance.speaking(f"{session_number(ctx)}\0{name}", name, stays=ctx.request is None):
            return answer if ctx.method == "initialize" else await call_next(ctx)


def build(
    project: str | os.PathLike[str] | None, session: str | None, *, read_only: bool, settings: dict[str, Any]
) -> MCPServer:
    """Return the server; nothing is opened before it runs."""
    office = Office(project, session, settings)
    with _logging_as_it_is():
        server: MCPServer = MCPServer(
            "maestro",
            title="Maestro",
            version=__version__,
            instructions=INSTRUCTIONS,
            tools=tools(office, read_only=read_only),
            lifespan=office.open,
            subscriptions=office.changes,
            middleware=[office.heed],
        )
    add_resources(server, office)
    add_subscriptions(server, office.changes)
    add_prompts(server, office)
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
