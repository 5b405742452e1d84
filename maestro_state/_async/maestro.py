"""The front door: one object per project and server, with a room for each thing that can be done."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from maestro_state import clock
from maestro_state._async.claims import AsyncClaims
from maestro_state._async.follow import AsyncFollow
from maestro_state._async.health import AsyncHealth
from maestro_state._async.messages import AsyncMessages
from maestro_state._async.queue import AsyncQueue
from maestro_state._async.runs import AsyncRuns
from maestro_state._async.server import AsyncServer
from maestro_state._async.sessions import AsyncSessions
from maestro_state.connection import connect_async
from maestro_state.opening import Opening
from maestro_state.stack import Stack


class AsyncMaestro:
    """Maestro in a project. Nothing is opened before the first call; use it as a context manager to close it.

    `project` is any folder of the project (default: the current one). Settings not given here come from the
    environment and the settings files; with no server set anywhere, the project's own embedded one is used.
    """

    def __init__(
        self,
        project: str | os.PathLike[str] | None = None,
        *,
        session: str | None = None,
        environment: Mapping[str, str] = os.environ,
        now_ms: Callable[[], int] = clock.now_ms,
        client_name: str | None = None,
        **settings: Any,
    ) -> None:
        """Work out where the project, its settings and its server are."""
        opening = Opening.of(Path(project or "."), environment, settings)
        self.settings, self.project = opening.settings, opening.project
        address = opening.address if client_name is None else replace(opening.address, client_name=client_name)
        connection = connect_async(address, revive=opening.revive)
        self.server = AsyncServer(connection, opening.terms, now_ms)
        self.sessions = AsyncSessions(self.server, self.project, session or self.settings.session)
        self.messages = AsyncMessages(self.server, self.sessions)
        self.follow = AsyncFollow(self.server, self.sessions)
        self.queue = AsyncQueue(self.server, self.settings.queue_url, is_cluster=address.scheme == "redis+cluster")
        self.runs = AsyncRuns(self.server, self.sessions, self.queue, self.settings)
        self.claims = AsyncClaims(self.server, self.queue)
        self.health = AsyncHealth(self.server, self.project, self.settings)
        self.stack = Stack(self.project.root, self.settings.redis_url, self.settings.namespace)

    async def close(self) -> None:
        """Close the connections; the server goes on for others."""
        await self.queue.close()
        await self.server.close()

    async def __aenter__(self) -> Self:
        """Use as a context manager."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        await self.close()
