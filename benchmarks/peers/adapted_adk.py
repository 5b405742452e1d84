"""Sessions of Google's ADK in Maestro; those services of its own are in `adk`."""

from __future__ import annotations

import uuid
from typing import Any

from benchmarks.peers.adk import APP, USER, event
from benchmarks.rig import Rig, loop


class _Service:
    """MaestroSessionService, over the same TCP as its peers."""

    def __init__(self, bench: Rig) -> None:
        from maestro_state.adapters.adk import MaestroSessionService

        url = f"redis://127.0.0.1:{bench.port}"
        self.service = MaestroSessionService(project=bench.folder, redis_url=url, namespace=uuid.uuid4().hex[:8])
        self.run = loop().run_until_complete

    def close(self) -> None:
        """Close its connections."""
        self.run(self.service.close())


class Events(_Service):
    """One session with so many events."""

    def __init__(self, bench: Rig, messages: int) -> None:
        """Add them."""
        super().__init__(bench)
        self.session = self.run(self.service.create_session(app_name=APP, user_id=USER, session_id="one"))
        for _ in range(messages):
            self.run(self.append())

    async def append(self) -> Any:
        return await self.service.append_event(self.session, event())

    async def last(self) -> Any:
        from google.adk.sessions.base_session_service import GetSessionConfig

        recent = GetSessionConfig(num_recent_events=20)
        found = await self.service.get_session(app_name=APP, user_id=USER, session_id="one", config=recent)
        return found.events

    async def all(self) -> Any:
        return (await self.service.get_session(app_name=APP, user_id=USER, session_id="one")).events


class Sessions(_Service):
    """So many sessions."""

    def __init__(self, bench: Rig, sessions: int) -> None:
        """Make them."""
        super().__init__(bench)
        for number in range(sessions):
            self.run(self.service.create_session(app_name=APP, user_id=USER, session_id=f"s{number}"))

    async def all(self) -> Any:
        return (await self.service.list_sessions(app_name=APP, user_id=USER)).sessions
