"""A Maestro for each user: kept for a while, and never closed under somebody who is being served."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from maestro_state import AsyncMaestro
from maestro_state.serve import users as module
from maestro_state.serve.users import Users


@pytest.mark.usefixtures("served")
async def test_many_users_share_few_connections(project: Path, monkeypatch: pytest.MonkeyPatch):
    """More than are kept: each acts in its own name, one that is busy stays open, those that are not are closed."""
    monkeypatch.setattr(module, "_KEPT", 1)
    closed: list[str] = []

    async def noted(self: AsyncMaestro) -> None:
        closed.append(self.settings.user)
        await close(self)

    close = AsyncMaestro.close
    monkeypatch.setattr(AsyncMaestro, "close", noted)
    async with AsyncMaestro(project) as own:
        session_id = (await own.sessions.start("shared")).id
        users = Users(own, project, {})

        async def say(user: str) -> None:
            async with users.acting_for(user) as maestro:
                await maestro.messages.add("user", user, session_id)

        async with users.acting_for("ana") as ana:
            await asyncio.gather(*(say(user) for user in ("bob", "bob", "eve", "kim")))
            assert "ana" not in closed
            await ana.messages.add("user", "ana", session_id)
        assert len(closed) >= 2
        found = [(one.user, one.content) for one in await own.messages.since(None, session_id)]
        assert sorted(found) == [(name, name) for name in ("ana", "bob", "bob", "eve", "kim")]
        await users.close()


@pytest.mark.usefixtures("served")
async def test_users_who_leave_at_once_close_no_other_twice(project: Path, monkeypatch: pytest.MonkeyPatch):
    """Two requests end while two more users are open than are kept: each closes what the other has not."""
    monkeypatch.setattr(module, "_KEPT", 2)
    async with AsyncMaestro(project) as own:
        users, both = Users(own, project, {}), asyncio.Barrier(2)

        async def serve(user: str, *, at_once: bool = False) -> str:
            async with users.acting_for(user) as maestro:
                if at_once:
                    await both.wait()
                return maestro.settings.user

        assert [await serve("ana"), await serve("bob")] == ["ana", "bob"]
        assert await asyncio.gather(serve("eve", at_once=True), serve("kim", at_once=True)) == ["eve", "kim"]
        await users.close()
