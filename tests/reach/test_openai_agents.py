"""Sessions of the OpenAI Agents SDK in Maestro: its protocol, its wrappers, and what is Maestro's beyond them."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from agents import Agent, Model, ModelResponse, Runner, Session, SessionSettings, Usage
from agents.extensions.memory import EncryptedSession
from agents.memory import OpenAIResponsesCompactionSession
from openai.types.responses import ResponseOutputMessage, ResponseOutputText

from maestro_state import AsyncMaestro, Maestro
from maestro_state.adapters.openai_agents import MaestroSession

ITEMS: list[Any] = [
    {"role": "user", "content": "hello"},
    {"role": "developer", "content": [{"type": "input_text", "text": "be brief"}, {"type": "input_image", "x": None}]},
    {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "é€"},
    {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"a": 1.0}', "id": "fc_1"},
    {"type": "function_call_output", "call_id": "c1", "output": "found \ud83d it"},
    {"type": "function_call_output", "call_id": "c \ud83d", "output": {"text": "\ud83d"}},
    {
        "type": "message",
        "role": "assistant",
        "id": "m",
        "content": [{"type": "output_text", "text": "hi", "logprobs": []}],
    },
    {"type": "compaction", "encrypted_content": "x" * 1000},
    {"type": "odd", "big": 2**80, "deep": {"a": [{}, [], None, True, 1e300, 0.1, -0.0]}},
    {"role": "user", "content": "日本語 ‮ \u0000 \x1b[2J"},
]


async def test_items_come_back_equal(place):
    """Items of any type, in order; the latest ones where a limit says so."""
    async with MaestroSession("a b/c:{d}*..", **place) as session:
        assert isinstance(session, Session)
        assert await session.get_items() == []
        assert await session.maestro_id() is None
        await session.add_items([])
        assert await session.maestro_id() is None
        await session.add_items(ITEMS[:4])
        await session.add_items(ITEMS[4:])

        assert await session.get_items() == ITEMS
        assert await session.get_items(limit=3) == ITEMS[-3:]
        assert await session.get_items(100) == ITEMS
        assert await session.get_items(0) == await session.get_items(-1) == []
        session.session_settings = SessionSettings(limit=2)
        assert await session.get_items() == ITEMS[-2:]
        assert await session.get_items(1, wrapper=None) == ITEMS[-1:]
    async with MaestroSession("a b/c:{d}*..", session_settings={"limit": 4}, **place) as session:
        assert await session.get_items() == ITEMS[-4:]


async def test_what_is_said_is_a_message(place):
    """Terminals see roles, texts and tool calls, and what they say is handed to the agent."""
    async with MaestroSession("t", **place) as session:
        await session.add_items(ITEMS[:6])
        messages = session.maestro.messages
        found = await messages.since(ref="openai:t")
        assert [one.role for one in found] == ["user", "system", "assistant", "assistant", "tool", "tool"]
        assert [one.content for one in found][:2] == ["hello", "be brief"]
        assert found[3].tool_calls == [{"id": "c1", "name": "look", "arguments": '{"a": 1.0}'}]
        assert found[0].metadata == {"openai": ITEMS[0]}
        await messages.add("user", "from a terminal", "openai:t")
        await messages.add("tool", "a result without a call", "openai:t")
        assert (await session.get_items())[6:] == [{"role": "user", "content": "from a terminal"}]
        assert await session.get_items(1) == [{"role": "user", "content": "from a terminal"}]
        assert await session.pop_item() == {"role": "user", "content": "from a terminal"}
        assert await session.pop_item() == ITEMS[5]


async def test_it_joins_a_session_of_maestro(place):
    """By its full id, or the one this checkout is on, which stays on it."""
    with Maestro(**place) as maestro:
        started = maestro.sessions.start("mine")
        maestro.messages.add("user", "so far")
    async with MaestroSession.current(**place) as session, MaestroSession(started.id, **place) as other:
        await session.add_items(ITEMS[:1])
        assert await other.maestro_id() == await session.maestro_id() == started.id
        assert await other.get_items() == [{"role": "user", "content": "so far"}, ITEMS[0]]
        assert await other.ping()
    async with AsyncMaestro(**place) as maestro:
        async with MaestroSession.current(maestro=maestro) as session:
            assert session.session_id == started.id
        assert await maestro.sessions.resolve() == started.id


async def test_popped_and_cleared_items_stay_in_the_record(place):
    """They are handed out no more, and say since when."""
    async with MaestroSession("t", **place) as session:
        assert await session.pop_item() is None
        await session.clear_session()
        assert await session.maestro_id() is None
        await session.add_items(ITEMS)
        assert [await session.pop_item() for _ in range(3)] == ITEMS[:-4:-1]
        assert await session.get_items() == ITEMS[:-3]
        await session.clear_session()
        assert await session.get_items() == []
        assert await session.pop_item() is None
        await session.add_items(ITEMS[:1])
        assert await session.get_items() == ITEMS[:1]
        record = await session.maestro.messages.since(ref="openai:t")
        assert [bool(one.retracted_at) for one in record] == [True] * len(ITEMS) + [False]


@pytest.mark.parametrize("is_let_go", [False, True])
async def test_an_agent_that_comes_back_later_goes_on(place, real, is_let_go):
    """Ended and archived: items as before, and the next one in a fork; what was taken back stays back."""
    async with MaestroSession("t", **place) as session:
        await session.add_items(ITEMS)
        await session.pop_item()
        first = await session.maestro_id()
        await session.maestro.sessions.end(first)
        if is_let_go:
            real.raw.flushall()
        assert await session.get_items() == ITEMS[:-1]
        assert await session.get_items(2) == ITEMS[-3:-1]
        assert await session.pop_item() == ITEMS[-2]
        await session.add_items(ITEMS[:1])

        assert await session.get_items() == [*ITEMS[:-2], ITEMS[0]]
        second = await session.maestro.sessions.read(await session.maestro_id())
        assert second.forked_from == first


async def test_replacement_is_one_step(place):
    """Somebody who reads all the time sees the old items or the new ones."""
    async with MaestroSession("t", **place) as session, MaestroSession("t", **place) as reader:
        await session.add_items(ITEMS)
        task = asyncio.create_task(session._atomic_replace_items(ITEMS[:2]))
        seen = []
        while not task.done():
            seen.append(await reader.get_items())
            await asyncio.sleep(0)
        assert await task is True
        assert all(one in (ITEMS, ITEMS[:2]) for one in seen)
        assert await reader.get_items() == ITEMS[:2]
        await session._atomic_replace_items([])
        assert await reader.get_items() == []

    class Special(MaestroSession):
        """One that may keep items elsewhere too."""

    async with Special("t", **place) as special:
        assert await special._atomic_replace_items(ITEMS) is False


async def test_closed_is_closed(place):
    """Every method says so; closing twice is nothing; a given Maestro stays open."""
    async with AsyncMaestro(**place) as maestro:
        session = MaestroSession("t", maestro=maestro)
        await session.add_items(ITEMS[:1])
        await session.close()
        await session.close()
        calls = (
            session.get_items(),
            session.add_items([]),
            session.pop_item(),
            session.clear_session(),
            session.ping(),
        )
        for call in calls:
            with pytest.raises(RuntimeError):
                await call
        assert len(await maestro.messages.since(ref="openai:t")) == 1


async def test_sixteen_writers_write_whole_batches(place):
    """Every batch is there, once and in one piece."""
    sessions = [MaestroSession("t", **place) for _ in range(16)]

    async def write(number: int) -> None:
        for turn in range(5):
            await sessions[number].add_items([{"writer": number, "turn": turn, "n": n} for n in range(3)])

    await asyncio.gather(*(write(number) for number in range(16)))
    found = await sessions[0].get_items()
    batches = [found[at : at + 3] for at in range(0, len(found), 3)]
    assert all([one["n"] for one in batch] == [0, 1, 2] for batch in batches)
    assert len({(batch[0]["writer"], batch[0]["turn"]) for batch in batches}) == len(batches) == 80
    for session in sessions:
        await session.close()


def test_one_object_serves_several_loops(place):
    """One after another, and at once."""
    session = MaestroSession("t", **place)

    async def add(name: str) -> None:
        for number in range(10):
            await session.add_items([{"name": name, "number": number}])

    for name in ("first", "second"):
        asyncio.run(add(name))
    threads = [threading.Thread(target=asyncio.run, args=(add(f"thread {number}"),)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = asyncio.run(session.get_items())
    assert len(found) == 60
    for name in ("first", "second", *(f"thread {number}" for number in range(4))):
        assert [item["number"] for item in found if item["name"] == name] == list(range(10))
    asyncio.run(session.close())


async def test_a_cancelled_write_is_whole_or_absent(place):
    """The caller is told after it is settled."""
    async with MaestroSession("t", **place) as session:
        await session.add_items(ITEMS[:1])
        for turns in range(6):
            task = asyncio.create_task(session.add_items([{"n": turns}, {"n": turns}]))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        numbers = [item["n"] for item in (await session.get_items())[1:]]
        assert numbers[::2] == numbers[1::2]


class Scripted(Model):
    """A model that says what it was told before."""

    async def get_response(self, *args: Any, **options: Any) -> ModelResponse:
        """Answer with how much it was told."""
        told = options["input"] if "input" in options else args[1]
        text = ResponseOutputText(annotations=[], text=f"told {len(told)}", type="output_text")
        message = ResponseOutputMessage(id="m", content=[text], role="assistant", status="completed", type="message")
        return ModelResponse(output=[message], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **options: Any) -> Any:
        """Nobody asks for it here."""
        raise NotImplementedError


async def test_a_runner_remembers(place):
    """The second turn is told the first one; compaction's wrapper works on top."""
    agent = Agent("a", model=Scripted())
    async with MaestroSession("t", **place) as session:
        assert (await Runner.run(agent, "one", session=session)).final_output == "told 1"
        assert (await Runner.run(agent, "two", session=session)).final_output == "told 3"
        said = [(one.role, one.content) for one in await session.maestro.messages.since(ref="openai:t")]
        assert said == [("user", "one"), ("assistant", "told 1"), ("user", "two"), ("assistant", "told 3")]

    async with MaestroSession("compacted", **place) as session:
        never = OpenAIResponsesCompactionSession(
            "compacted", session, client=object(), should_trigger_compaction=lambda _: False
        )
        assert (await Runner.run(agent, "one", session=never)).final_output == "told 1"
        assert len(await session.get_items()) == 2
        await never._replace_underlying_session_items(output_items=ITEMS[:1], previous_items=await session.get_items())
        assert await session.get_items() == ITEMS[:1]


async def test_encrypted(place, real):
    """The SDK's own wrapper on top: items come back, nobody else can read them, and they may be popped and cleared."""
    agent = Agent("a", model=Scripted())
    async with MaestroSession("t", **place) as session:
        sealed = EncryptedSession("t", session, encryption_key="a long secret of mine", ttl=600)
        assert (await Runner.run(agent, "a secret", session=sealed)).final_output == "told 1"
        assert (await Runner.run(agent, "two", session=sealed)).final_output == "told 3"
        await sealed.add_items(ITEMS[:4])
        assert (await sealed.get_items())[4:] == ITEMS[:4]
        assert await sealed.get_items(2) == ITEMS[2:4]
        assert await sealed.pop_item() == ITEMS[3]
        said = await session.maestro.messages.since(ref="openai:t")
        assert len(said) == 8
        assert "a secret" not in str(said)
        await session.maestro.sessions.end("openai:t")
        real.raw.flushall()
        again = EncryptedSession("t", session, encryption_key="a long secret of mine", ttl=600)
        assert (await again.get_items())[4:] == ITEMS[:3]
        other = EncryptedSession("t", session, encryption_key="another", ttl=600)
        assert await other.get_items() == []
        compacted = OpenAIResponsesCompactionSession(
            "t", again, client=object(), should_trigger_compaction=lambda _: False
        )
        assert (await Runner.run(agent, "three", session=compacted)).final_output == "told 8"
        await again.clear_session()
        assert await again.get_items() == []


def test_settings_are_the_sdks(place):
    """Also as a dictionary, with the SDK's own words for a slip."""
    assert MaestroSession("t", session_settings={"limit": 3}, **place).session_settings == SessionSettings(limit=3)
    with pytest.raises(TypeError, match="limt"):
        MaestroSession("t", session_settings={"limt": 3}, **place)
