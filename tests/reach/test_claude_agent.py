"""Transcripts of the Claude Agent SDK in Maestro: the SDK's own contracts, and what is Maestro's beyond them."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

import pytest
from claude_agent_sdk import (
    delete_session_via_store,
    fold_session_summary,
    get_session_messages_from_store,
    list_sessions_from_store,
)
from claude_agent_sdk.testing import run_session_store_conformance

from maestro_state import AsyncMaestro
from maestro_state.adapters.claude_agent import MaestroSessionStore
from maestro_state.errors import InvalidValue

KEY = {"project_key": "-work-shop", "session_id": "11111111-2222-4333-8444-555555555555"}


def user(number: int, **more: Any) -> dict[str, Any]:
    """Return what somebody said."""
    said = {"role": "user", "content": f"question {number}"}
    return {"type": "user", "uuid": f"u{number}", "timestamp": "2026-01-01T00:00:00.000Z", "message": said, **more}


def assistant(number: int) -> dict[str, Any]:
    """Return what the model said and called."""
    blocks = [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": f"answer {number}"},
        {"type": "tool_use", "id": f"call{number}", "name": "Bash", "input": {"command": "ls"}},
    ]
    return {"type": "assistant", "uuid": f"a{number}", "message": {"role": "assistant", "content": blocks}}


def note(number: int) -> dict[str, Any]:
    """Return an entry that says nothing, and has no id of its own."""
    return {"type": "custom-title", "customTitle": f"title {number}"}


async def test_the_sdks_own_contracts(place):
    """All fourteen, no optional method skipped."""
    numbers, stores = count(), []

    def fresh() -> MaestroSessionStore:
        stores.append(MaestroSessionStore(**place, namespace=f"conformance{next(numbers)}"))
        return stores[-1]

    await run_session_store_conformance(fresh)
    for store in stores:
        await store.close()


async def test_entries_of_all_kinds_keep_their_order(place):
    """Said or not, in one batch or several, with odd contents: what is loaded is what was appended."""
    batches = [
        [note(1)],
        [user(1), note(2), assistant(1), note(3)],
        [note(4), note(5)],
        [user(2)],
        [note(6), {"type": "x", "text": "half \ud83d a character", "big": 2**70, "none": None}, user(3)],
    ]
    async with MaestroSessionStore(**place) as store:
        for batch in batches:
            await store.append(KEY, batch)
        assert await store.load(KEY) == [entry for batch in batches for entry in batch]
        for batch in batches[1:2]:  # again: those with a uuid are there, the others are new
            await store.append(KEY, batch)
        wanted = [entry for batch in batches for entry in batch]
        assert await store.load(KEY) == [*wanted, note(2), note(3)]


async def test_what_is_said_is_a_message(place):
    """Terminals see roles, texts and tool calls; the entry is whole beside them."""
    async with MaestroSessionStore(**place) as store:
        result = [{"type": "tool_result", "tool_use_id": "call1", "content": [{"type": "text", "text": "files"}]}]
        await store.append(KEY, [user(1), note(1), assistant(1), user(2, message={"role": "user", "content": result})])
        ref = await store.maestro_id(KEY)
        found = await store.maestro.messages.since(ref=f"claude:{KEY['project_key']}/{KEY['session_id']}")

        said = [(one.role, one.content) for one in found]
        assert said == [("user", "question 1"), ("assistant", "answer 1"), ("tool", "files")]
        assert found[1].tool_calls == [{"id": "call1", "name": "Bash", "arguments": {"command": "ls"}}]
        assert found[2].tool_results == [{"call_id": "call1", "content": "files"}]
        assert found[0].metadata["claude"] == user(1)
        rows = [row.document() for row in await store.maestro.sessions.list() if row.id == ref]
        assert rows[0]["bound"] == {"kind": "claude", "key": f"{KEY['project_key']}/{KEY['session_id']}"}


async def test_sixteen_writers_lose_nothing(place):
    """Each entry is there once, in its writer's order, and the summary has seen all of them."""
    stores = [MaestroSessionStore(**place) for _ in range(16)]

    async def write(number: int) -> None:
        for turn in range(8):
            await stores[number].append(KEY, [user(1000 + 100 * number + turn, writer=number), user(0, writer=-1)])

    await asyncio.gather(*(write(number) for number in range(16)))
    found = await stores[0].load(KEY)
    assert len(found) == 16 * 8 + 1
    for number in range(16):
        mine = [entry["uuid"] for entry in found if entry["writer"] == number]
        assert mine == [f"u{1000 + 100 * number + turn}" for turn in range(8)]
    (summary,) = await stores[0].list_session_summaries(KEY["project_key"])
    assert summary["data"] == fold_session_summary(None, KEY, found)["data"]
    for store in stores:
        await store.close()


@pytest.mark.parametrize("is_let_go", [False, True])
async def test_a_transcript_goes_on_after_it_was_archived(place, real, is_let_go):
    """It loads as before; what is appended then goes on in a fork, sub-agents and titles with it."""
    sub = {**KEY, "subpath": "subagents/agent-1"}
    async with MaestroSessionStore(**place) as store:
        await store.append(KEY, [user(1), note(1)])
        await store.append(sub, [user(2)])
        first = await store.maestro_id(KEY)
        await store.maestro.sessions.end(first)
        if is_let_go:
            real.raw.flushall()
    async with MaestroSessionStore(**place) as store:
        assert await store.load(KEY) == [user(1), note(1)]
        assert await store.load(sub) == [user(2)]
        assert await store.list_subkeys(KEY) == ["subagents/agent-1"]
        assert len(await store.list_session_summaries(KEY["project_key"])) == 1
        await store.append(KEY, [user(1), assistant(1)])

        second = await store.maestro_id(KEY)
        assert (await store.maestro.sessions.read(second)).forked_from == first
        assert await store.load(KEY) == [user(1), note(1), assistant(1)]
        assert await store.load(sub) == [user(2)]
        assert [one["session_id"] for one in await store.list_sessions(KEY["project_key"])] == [KEY["session_id"]]
        await store.delete(KEY)
        assert await store.maestro.sessions.list(everything=True) == []


async def test_a_sub_agent_that_is_deleted_can_begin_again(place):
    """Its entries are handed out no more, and its ids are free; they stay in the record."""
    sub = {**KEY, "subpath": "subagents/a b/c"}
    async with MaestroSessionStore(**place) as store:
        await store.append(sub, [user(1)])
        await store.delete(sub)
        assert await store.load(sub) is None
        assert await store.list_subkeys(KEY) == []
        await store.append(sub, [user(1), user(2)])
        assert await store.load(sub) == [user(1), user(2)]
        assert await store.load(KEY) is None
        assert await store.list_sessions(KEY["project_key"]) == []


async def test_a_transcript_that_another_store_deleted_begins_anew(place):
    """With entries that were there before: they are in the new one, and in its summary."""
    async with MaestroSessionStore(**place) as store, MaestroSessionStore(**place) as other:
        await store.append(KEY, [user(1), assistant(1)])
        await other.delete(KEY)
        await store.append(KEY, [user(1)])
        assert await other.load(KEY) == [user(1)]
        (row,) = await other.list_session_summaries(KEY["project_key"])
        assert row["data"] == fold_session_summary(None, KEY, [user(1)])["data"]


async def test_the_sdks_own_readers(place, tmp_path):
    """Lists, messages and deletion as the SDK offers them, from the store alone."""
    from claude_agent_sdk import project_key_for_directory

    key = {"project_key": project_key_for_directory(str(tmp_path)), "session_id": KEY["session_id"]}
    async with MaestroSessionStore(**place) as store:
        await store.append(key, [user(1, sessionId=key["session_id"], parentUuid=None)])
        (info,) = await list_sessions_from_store(store, str(tmp_path))
        assert info.session_id == key["session_id"]
        (message,) = await get_session_messages_from_store(store, key["session_id"], str(tmp_path))
        assert message.message["content"] == "question 1"
        await delete_session_via_store(store, key["session_id"], str(tmp_path))
        assert await store.load(key) is None


async def test_a_given_maestro_stays_open(place):
    """Whoever made it closes it."""
    async with AsyncMaestro(**place) as maestro:
        async with MaestroSessionStore(maestro=maestro) as store:
            await store.append(KEY, [user(1)])
        assert len(await maestro.messages.since(ref=await store.maestro_id(KEY))) == 1


async def test_half_a_character_is_kept(place):
    """Tools cut texts between the halves of an emoji: such entries come back equal, each once, and are summed up."""
    half = "cut \ud83d"
    call = {"type": "tool_use", "id": f"t {half}", "name": half, "input": {"text": half, "number": 2**80}}
    result = {"type": "tool_result", "tool_use_id": f"t {half}", "content": half}
    entries = [
        user(0) | {"message": {"role": "user", "content": half}},
        assistant(1) | {"message": {"role": "assistant", "content": [call]}},
        user(2) | {"message": {"role": "user", "content": [result]}},
        user(3) | {"uuid": half},
        note(4) | {"text": half, "customTitle": half},
    ]
    async with MaestroSessionStore(**place) as store:
        for entry in entries:
            await store.append(KEY, [entry])
            await store.append(KEY, [entry])
        async with MaestroSessionStore(**place) as other:
            await other.append(KEY, [user(5)])
        found = [*entries, entries[-1], user(5)]
        assert await store.load(KEY) == found
        (row,) = await store.list_session_summaries(KEY["project_key"])
        assert row["data"] == fold_session_summary(None, KEY, found)["data"]
        with pytest.raises(InvalidValue, match="not valid Unicode"):
            await store.append({**KEY, "subpath": half}, entries)

        await store.maestro.sessions.end(await store.maestro_id(KEY))
        assert await store.load(KEY) == found
