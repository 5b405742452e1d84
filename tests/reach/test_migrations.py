"""The notes on coming from a framework's own store, as they stand in the documents, from the real ones."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

from agents import SQLiteSession
from agents.extensions.memory import RedisSession
from claude_agent_sdk import InMemorySessionStore

from maestro_state.adapters.claude_agent import MaestroSessionStore
from maestro_state.adapters.openai_agents import MaestroSession
from tests.support.servers import free_port, valkey

DOCS = Path(__file__).parents[2] / "docs"
ITEMS: Any = [{"role": "user", "content": "hello"}, {"type": "odd", "deep": [{"é": None}]}]
KEY = {"project_key": "shop", "session_id": "11111111-2222-4333-8444-555555555555"}


def note(page: str, begin: str) -> str:
    """Return the lines of a note, beginning with some words."""
    (lines,) = re.findall(rf"^    {begin}.*?(?=^\S)", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)
    return textwrap.dedent(lines)


async def carried_out(lines: str, **names: Any) -> None:
    """Do what a note says."""
    exec("async def copy():\n" + textwrap.indent(lines, "    "), names)
    await names["copy"]()


async def test_from_the_openai_agents_stores(place, tmp_path, monkeypatch):
    """Redis as the note says, SQLite as its remark does; done again it adds nothing."""
    monkeypatch.chdir(place["project"])
    first, *rest = note("openai-agents.md", "old = RedisSession").splitlines()
    redis_line, _, sqlite = first.partition("  # or ")
    with valkey(tmp_path, port=free_port()) as server:
        old = RedisSession.from_url("customer-42", url=f"{server.url}/0")
        await old.add_items(ITEMS)
        await old.close()
        line = redis_line.replace("redis://localhost:6379/0", f"{server.url}/0")
        for _ in range(2):
            lines = "\n".join([line, *rest, "await old.close()"])
            await carried_out(lines, RedisSession=RedisSession, MaestroSession=MaestroSession)
    async with MaestroSession("customer-42", **place) as new:
        assert await new.get_items() == ITEMS

    kept = SQLiteSession("customer-42", "agents.db")
    await kept.add_items(ITEMS[:1])
    kept.close()
    lines = "\n".join([f"old = {sqlite}", *rest, "old.close()"]).replace('MaestroSession("customer-42")', "new_session")
    async with MaestroSession("another", **place) as new:
        await carried_out(lines, SQLiteSession=SQLiteSession, new_session=new)
    async with MaestroSession("another", **place) as new:
        assert await new.get_items() == ITEMS[:1]


async def test_from_another_claude_store(place):
    """Transcripts with their sub-agents; done again it adds nothing that has an id."""
    old, said = InMemorySessionStore(), {"role": "user", "content": "hello"}
    entry = {"type": "user", "uuid": "u1", "timestamp": "2026-01-01T00:00:00.000Z", "message": said}
    await old.append(KEY, [entry])
    await old.append({**KEY, "subpath": "subagents/agent-1"}, [entry | {"uuid": "u2"}])
    async with MaestroSessionStore(**place) as store:
        lines = note("claude-agent-sdk.md", "for row in")
        for _ in range(2):
            await carried_out(lines, old=old, store=store, project_key="shop")
        assert await store.load(KEY) == [entry]
        assert await store.load({**KEY, "subpath": "subagents/agent-1"}) == [entry | {"uuid": "u2"}]
