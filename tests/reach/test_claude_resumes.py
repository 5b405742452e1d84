"""The real program of the Claude Agent SDK goes on from the store alone, as on another machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, query

from maestro_state.adapters.claude_agent import MaestroSessionStore
from tests.real_tools.homes import environment
from tests.support.backends import Backend
from tests.support.model_api import model_api


async def ask(
    store: MaestroSessionStore, prompt: str, folder: Path, env: dict[str, str], **more: str | None
) -> ResultMessage:
    """Ask and return how it ended."""
    options = ClaudeAgentOptions(session_store=store, cwd=folder, env=env, **more)
    async for message in query(prompt=prompt, options=options):
        if isinstance(message, ResultMessage):
            return message
    raise AssertionError("it ended without a result")


@pytest.mark.parametrize("is_archived", [False, True])
async def test_it_resumes_from_the_store_alone(place, real: Backend, tmp_path: Path, monkeypatch, is_archived: bool):
    """Another home, with nothing of the first in it: the model is told both questions."""
    work = tmp_path / "work"
    work.mkdir()
    homes = [tmp_path / "one", tmp_path / "two"]
    with model_api(answer=None) as api:
        envs = [environment(home, api.origin, os.environ["PATH"]) for home in homes]
        async with MaestroSessionStore(**place) as store:
            monkeypatch.setenv("HOME", str(homes[0]))
            first = await ask(store, "remember MARK-alpha", work, envs[0])
            assert "Question 1." in first.result
            (row,) = [row for row in await store.maestro.sessions.list() if row.bound_to]
            if is_archived:
                await store.maestro.sessions.end(row.id)
                real.raw.flushall()
        async with MaestroSessionStore(**place) as store:
            monkeypatch.setenv("HOME", str(homes[1]))
            second = await ask(store, "and now", work, envs[1], resume=first.session_id)
            assert "MARK-alpha" in second.result
            assert "Question 2." in second.result
            ref = f"claude:{row.bound_to.key}"
            said = [one.content for one in await store.maestro.messages.since(ref=ref) if one.role != "tool"]
            assert said[0] == "remember MARK-alpha"
            assert "and now" in said
