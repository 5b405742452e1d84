"""What messages promise, on every server."""

from __future__ import annotations

import pytest

from maestro_state.errors import Conflict, InvalidValue, SessionNotFound
from tests.support.backends import Backend, Clock


async def test_append_and_read(backend: Backend):
    """Messages come back as they were added, the last ones first asked for, oldest first shown."""
    async with backend.open_async() as maestro:
        await maestro.sessions.start("talk")
        added = [await maestro.messages.add("user", f"n{number}") for number in range(30)]

        assert await maestro.messages.since() == added
        assert await maestro.messages.last(5) == added[-5:]
        assert await maestro.messages.since(added[27].id) == added[28:]


async def test_a_repeated_command_is_done_once(backend: Backend):
    """The same command id gives the first answer again and adds nothing."""
    async with backend.open_async() as maestro:
        await maestro.sessions.start("once")
        first = await maestro.messages.add("user", "hello", idempotency_key="abcdefghijklmnop")
        for _ in range(20):
            await maestro.messages.add("user", "between")
        again = await maestro.messages.add("user", "hello", idempotency_key="abcdefghijklmnop")

        assert again.id == first.id
        assert len(await maestro.messages.since()) == 21


async def test_the_memory_of_commands_is_bounded(backend: Backend):
    """A client leaves one entry however often it calls; those of clients long gone are dropped, recent ones known."""
    clock = Clock()
    async with backend.open_async(now_ms=clock) as maestro:
        session = await maestro.sessions.start("many")
        record = maestro.server.terms.keys.of_session(session.id, "session")
        await maestro.messages.add("user", "x")
        fields = backend.raw.hlen(record)
        for _ in range(99):
            await maestro.messages.add("user", "x")
        assert backend.raw.hlen(record) == fields
        for number in range(300):
            clock.advance(seconds=1)
            await maestro.messages.add("user", "x", idempotency_key=f"command-{number:08}")
        assert backend.raw.hlen(record) <= fields + 60 + 16
        for number in range(241, 300):
            await maestro.messages.add("user", "x", idempotency_key=f"command-{number:08}")
        assert len(await maestro.messages.since()) == 400


async def test_a_call_given_up_that_arrives_late_does_nothing(backend: Backend):
    """Once a sequence has gone on, an earlier call of it is refused."""
    async with backend.open_async() as maestro:
        await maestro.sessions.start("late")
        await maestro.messages.add("user", "second", idempotency_key="sequence:2")
        with pytest.raises(Conflict):
            await maestro.messages.add("user", "first", idempotency_key="sequence:1")
        assert [message.content for message in await maestro.messages.since()] == ["second"]


async def test_tool_calls_and_results_are_linked_by_ids(backend: Backend):
    """The chain from question to reflection can be followed by ids."""
    async with backend.open_async() as maestro:
        await maestro.sessions.start("chain")
        question = await maestro.messages.add("user", "what is in README?")
        call = await maestro.messages.add(
            "assistant", "", tool_calls=[{"id": "c1", "tool": "read", "args": {}}], parent_id=question.id
        )
        result = await maestro.messages.add(
            "tool", "", tool_results=[{"call_id": "c1", "result": "text"}], parent_id=call.id, metadata={"ms": 3}
        )

        read = await maestro.messages.since()
        assert read == [question, call, result]
        assert read[2].tool_results[0]["call_id"] == read[1].tool_calls[0]["id"]
        assert read[2].document()["metadata"] == {"ms": 3}


async def test_bad_messages_are_refused(backend: Backend):
    """A wrong role, shape, size or encoding adds nothing."""
    async with backend.open_async(max_blob_bytes=1000) as maestro:
        await maestro.sessions.start("bad")
        for role, content, more in (
            ("robot", "x", {}),
            ("user", "x" * 1001, {}),
            ("user", "\ud800", {}),
            ("user", "x", {"tool_calls": [{"tool": "no id"}]}),
            ("user", "x", {"metadata": ["no object"]}),
            ("user", "x", {"parent_id": "../etc"}),
        ):
            with pytest.raises(InvalidValue):
                await maestro.messages.add(role, content, **more)
        assert await maestro.messages.since() == []
        with pytest.raises(SessionNotFound):
            await maestro.messages.last(ref="none--abcdef")


async def test_a_summary_stands_for_older_messages_only_towards_a_model(backend: Backend):
    """context_summary replaces what came before it in what a model is handed, never in the record."""
    async with backend.open_async() as maestro:
        await maestro.sessions.start("summary")
        old = await maestro.messages.add("user", "old")
        assert await maestro.messages.for_model() == [old]
        await maestro.sessions.set("context_summary", "we talked")
        new = await maestro.messages.add("user", "new")

        handed = await maestro.messages.for_model()
        assert [message.content for message in handed] == ["we talked", "new"]
        assert handed[0].role == "system"
        assert await maestro.messages.since() == [old, new]


async def test_any_text_comes_back_exactly(backend: Backend):
    """Control characters, newlines and every plane of Unicode survive."""
    async with backend.open_async() as maestro:
        await maestro.sessions.start("text")
        for content in ("", "\0\r\n\x1b[31m", "a\u2028b", "😀é日", " \t "):
            added = await maestro.messages.add("user", content)
            assert (await maestro.messages.last(1)) == [added]
            assert added.content == content
