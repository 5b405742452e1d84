"""Checkpoints of LangGraph in Maestro: what is Maestro's beyond the conformance suite."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from maestro_state import AsyncMaestro, Maestro
from maestro_state.adapters.langgraph import MaestroSaver
from maestro_state.errors import Conflict, InvalidValue


def config(thread_id: str = "t", **more: str) -> Any:
    """Return a config of a thread."""
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": "", **more}}


def checkpoint(**values: Any) -> Any:
    """Return a checkpoint whose channels have the version 1."""
    return empty_checkpoint() | {"channel_values": values, "channel_versions": dict.fromkeys(values, 1)}


def put(saver: Any, where: Any, **values: Any) -> Any:
    """Put a checkpoint, all of whose values are new."""
    made = checkpoint(**values)
    return saver.put(where, made, {"step": 1, "source": "loop"}, made["channel_versions"])


async def aput(saver: Any, where: Any, **values: Any) -> Any:
    """Put as `put` does."""
    made = checkpoint(**values)
    return await saver.aput(where, made, {"step": 1, "source": "loop"}, made["channel_versions"])


async def test_twenty_first_puts_make_one_session(place):
    """However many savers come at once; every checkpoint is there."""
    savers = [MaestroSaver(**place) for _ in range(4)]
    await asyncio.gather(*(aput(savers[number % 4], config("a b/c:{d}*.. é"), n=number) for number in range(20)))
    assert len([one async for one in savers[0].alist(config("a b/c:{d}*.. é"))]) == 20
    rows = [row for row in await savers[0].maestro.sessions.list(everything=True) if row.bound_to]
    assert len(rows) == 1
    assert rows[0].id == await savers[3].amaestro_id("a b/c:{d}*.. é")
    for saver in savers:
        await saver.close()


def test_a_put_from_an_older_checkpoint_is_refused_or_forks(place):
    """As the saver was told; what is refused changes nothing, and of several at once one is first."""
    with MaestroSaver(on_conflict="reject", **place) as saver:
        first = put(saver, config(), n=1)
        second = put(saver, first, n=2)
        for parent in (config(), first):
            with pytest.raises(Conflict, match="not its newest"):
                put(saver, parent, n=3)
        assert saver.get_tuple(config()).config == second
        assert len([*saver.list(config())]) == 2
        assert put(saver, config() | {"configurable": {**config()["configurable"], "checkpoint_ns": "child"}}, n=1)

        results: list[Any] = []

        def race() -> None:
            try:
                results.append(put(saver, second, n=3))
            except Conflict as error:
                results.append(error)

        threads = [threading.Thread(target=race) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(isinstance(one, Conflict) for one in results) == [False] + [True] * 7
    with MaestroSaver(**place) as saver:
        third = put(saver, first, n=3)
        assert saver.get_tuple(third).parent_config == first
    with pytest.raises(InvalidValue):
        MaestroSaver(on_conflict="merge")


@pytest.mark.parametrize("is_let_go", [False, True])
async def test_a_thread_that_has_ended_goes_on(place, real, is_let_go):
    """Reads answer as before, from the archive; the next write is in a fork, which has all checkpoints."""
    async with MaestroSaver(**place) as saver:
        first = await aput(saver, config(), n=1)
        await saver.aput_writes(first, [("n", "more")], "task")
        before = [one async for one in saver.alist(config())]
        ended = await saver.amaestro_id("t")
        await saver.maestro.sessions.end(ended)
        if is_let_go:
            real.raw.flushall()

        assert [one async for one in saver.alist(config())] == before
        assert await saver.aget_tuple(config()) == before[0]
        assert [one.config async for one in saver.alist(None)] == [first]
        second = await aput(saver, first, n=2)
        assert [one.config async for one in saver.alist(config())] == [second, first]
        assert (await saver.maestro.sessions.read(await saver.amaestro_id("t"))).forked_from == ended


def test_deleted_is_gone(place, real):
    """Nothing is left on the server or on disk."""
    with MaestroSaver(**place) as saver:
        where = put(saver, config("secret-thread"), n="secret-value")
        saver.put_writes(where, [("n", "secret-value")], "task")
        ended = saver.maestro_id("secret-thread")
        saver.maestro.blocking.sessions.end(ended)
        put(saver, where, n="secret-value")
        assert _holders(place, b"secret-value")
        saver.delete_thread("secret-thread")
        assert saver.get_tuple(config("secret-thread")) is None
        assert saver.maestro_id("secret-thread") is None
        assert [*saver.list(None)] == []
        assert [row for row in saver.maestro.blocking.sessions.list(everything=True) if row.bound_to] == []
    assert [key for key in real.raw.keys("*") if b"binding" in key or b":kept" in key] == []
    assert _holders(place, b"secret-value") == []


def test_what_is_said_anew_in_a_thread_that_another_saver_deleted(place):
    """Is a message of the new session, also where nothing but its place and its words tell it from the one before."""
    hello = {"role": "user", "content": "hello"}
    with MaestroSaver(**place) as saver, MaestroSaver(**place) as other:
        for _ in range(2):
            put(saver, put(saver, config(), messages=[hello]), messages=[hello], n=1)
            (said,) = other.maestro.blocking.messages.since(ref="langgraph:t")
            assert said.content == "hello"
            other.delete_thread("t")
        assert other.maestro.blocking.sessions.list() == []


def _holders(place: Any, text: bytes) -> list[Path]:
    import base64

    wanted = (text, base64.b64encode(text)[:8])
    files = [path for path in Path(place["project"], ".maestro", "sessions").rglob("*") if path.is_file()]
    return [path for path in files if any(one in path.read_bytes() for one in wanted) or b"kept" in path.name.encode()]


def test_a_thread_may_be_a_session_of_maestro(place):
    """By its full id: what a graph does there is in that session."""
    with Maestro(**place) as maestro:
        started = maestro.sessions.start("mine")
        with MaestroSaver(**place) as saver:
            put(saver, config(started.id), n=1)
            assert saver.maestro_id(started.id) == started.id
            assert saver.maestro_id("another") is None
            assert len([*saver.list(None)]) == 1
            (event,) = asyncio.run(saver.binding("langgraph", started.id).events("checkpoint.added"))
            assert (event.data["step"], event.data["source"]) == ("1", "loop")


async def test_both_halves_in_any_loop(place):
    """One object, blocking in threads and awaited in several loops, at once."""
    saver = MaestroSaver(**place)

    def blocking() -> None:
        for number in range(5):
            put(saver, config("one"), n=number)

    async def awaited() -> None:
        for number in range(5):
            await aput(saver, config("one"), n=number)

    threads = [threading.Thread(target=blocking) for _ in range(4)]
    threads += [threading.Thread(target=asyncio.run, args=(awaited(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    await awaited()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    assert len([one async for one in saver.alist(config("one"))]) == 45
    assert len({one.config["configurable"]["checkpoint_id"] for one in saver.list(config("one"))}) == 45
    await saver.close()
    assert saver.get_tuple(config("one")) is not None  # as Maestro: closed is not the end
    await saver.close()


async def test_a_given_maestro_stays_open(place):
    """And a clone with another allowlist works on the same."""
    async with AsyncMaestro(**place) as maestro:
        async with MaestroSaver(maestro=maestro) as saver:
            clone = saver.with_allowlist([("maestro_state.models.message", "Message")])
            where = await aput(clone, config(), n=1)
            assert (await saver.aget_tuple(config())).config == where
        assert await maestro.sessions.list()


def test_writes_are_kept_as_in_memory(place):
    """Before their checkpoint, again, out of order, by several tasks, in the framework's own channels."""
    told = [
        ("b", "~path 2", [("x", 1), ("y", 2)]),
        ("a", "~path 1", [("x", 3), ("__error__", "first")]),
        ("a", "~path 1", [("x", "again"), ("__error__", "last")]),
        ("c", "", [("__interrupt__", "stop"), ("__resume__", ["go"])]),
    ]
    made, memory = checkpoint(n=1), InMemorySaver()
    with MaestroSaver(**place) as saver:
        for one in (saver, memory):
            where = config(checkpoint_id=made["id"])
            for task, path, writes in told:
                one.put_writes(where, writes, task, path)
            one.put(config(), made, {"step": 1}, {"n": 1})
        assert saver.get_tuple(config()) == memory.get_tuple(config())
        assert len(saver.get_tuple(config()).pending_writes) == 6


def test_pickle_is_never_read(place):
    """Nor written: a serializer that falls back to it is refused where it does."""
    with MaestroSaver(serde=JsonPlusSerializer(pickle_fallback=True), **place) as saver:
        put(saver, config(), n=1)
        with pytest.raises(InvalidValue, match="pickle"):
            put(saver, config(), n=len)
        assert len([*saver.list(config())]) == 1


def test_bad_words_are_refused(place):
    """Before anything is removed."""
    with MaestroSaver.from_conn_string(f"unix://{place['project']}/none.sock") as saver:
        with pytest.raises(InvalidValue):
            saver.prune(["t"], strategy="some")
        with pytest.raises(InvalidValue):
            saver.prune(["t"], keep_last=0)


def test_a_thread_in_use_is_not_forgotten_for_others(place, monkeypatch):
    """What a task said is a message with the checkpoint behind it, whatever other threads come in between."""
    monkeypatch.setattr("maestro_state.adapters.langgraph._REMEMBERED", 2)
    with MaestroSaver(**place) as saver:
        where = put(saver, config("a"))
        put(saver, config("b"))
        saver.put_writes(where, [("messages", [HumanMessage("hello", id="1")])], "task")
        put(saver, config("c"))
        saver.put(where, checkpoint(), {"step": 2, "source": "loop"}, {"messages": 1})
        assert [one.content for one in saver.maestro.blocking.messages.since(ref="langgraph:a")] == ["hello"]
