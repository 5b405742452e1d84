# Generated from maestro_state/_async by `make generate`. Do not edit.
"""The front door: one object per project and server, with a room for each thing that can be done."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from maestro_state import clock
from maestro_state._sync.claims import Claims
from maestro_state._sync.follow import Follow
from maestro_state._sync.health import Health
from maestro_state._sync.messages import Messages
from maestro_state._sync.queue import Queue
from maestro_state._sync.runs import Runs
from maestro_state._sync.server import Server
from maestro_state._sync.sessions import Sessions
from maestro_state.connection import connect
from maestro_state.opening import Opening
from maestro_state.stack import Stack


class Maestro:
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
        connection = connect(address, revive=opening.revive)
        self.server = Server(connection, opening.terms, now_ms)
        self.sessions = Sessions(self.server, self.project, session or self.settings.session)
        self.messages = Messages(self.server, self.sessions)
        self.follow = Follow(self.server, self.sessions)
        self.queue = Queue(self.server, self.settings.queue_url, is_cluster=address.scheme == "redis+cluster")
        self.runs = Runs(self.server, self.sessions, self.queue, self.settings)
        self.claims = Claims(self.server, self.queue)
        self.health = Health(self.server, self.project, self.settings)
        self.stack = Stack(self.project.root, self.settings.redis_url, self.settings.namespace)

    def close(self) -> None:
        """Close the connections; the server goes on for others."""
        self.queue.close()
        self.server.close()

    def __enter__(self) -> Self:
        """Use as a context manager."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()
