"""What AsyncMaestro does in threads: canceled, closed and forked without harm, on every server."""

from __future__ import annotations

import asyncio
import os
import signal
import threading

import pytest

from maestro_state import AsyncMaestro
from tests.support.backends import Backend


async def test_a_canceled_call_is_not_made_or_done_to_its_end(backend: Backend):
    """Whoever gives up waiting leaves nothing half done, and the rooms go on."""
    async with backend.open_async() as maestro:
        starting = [asyncio.create_task(maestro.sessions.start(f"s{number}")) for number in range(40)]
        await starting[0]
        for task in starting[1:]:
            task.cancel()
        await asyncio.wait(starting)
    async with backend.open_async() as maestro:
        rows = await maestro.sessions.list()
        assert starting[0].result().id in {row.id for row in rows}
        for row in rows:
            await maestro.archive.checkpoint(row.id)
            assert (await maestro.archive.verify(row.id)).ok


async def test_closing_waits_for_a_call_whose_caller_was_canceled(backend: Backend):
    """Nothing is closed under a thread that is still at work."""
    begun, go_on, done = threading.Event(), threading.Event(), []
    maestro = await backend.open_async().open()
    session = await maestro.sessions.start("slow")
    original = maestro.blocking.server.fetch

    def slow(query):
        begun.set()
        go_on.wait()
        done.append(original(query))
        return done[-1]

    maestro.blocking.server.fetch = slow
    asked = asyncio.create_task(maestro.archive.checkpoint(session.id))
    await asyncio.to_thread(begun.wait)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    closing = asyncio.create_task(maestro.close())
    await asyncio.sleep(0)
    assert not done
    assert not closing.done()
    go_on.set()
    await closing
    assert done


async def test_a_canceled_follower_is_closed_behind_its_last_pull(backend: Backend):
    """A generator is pulled by one thread at a time, and closed when nobody pulls it any more."""
    async with backend.open_async() as maestro:
        work = await maestro.work.start("task")
        closed = []

        def endless(_cookie, *, until_idle_ms=None):
            try:
                while True:
                    pulled.set()
                    go_on.wait()
                    yield None
            finally:
                closed.append(threading.current_thread().name)

        pulled, go_on = threading.Event(), threading.Event()
        maestro.blocking.work.follow = endless

        async def follow() -> None:
            async for _ in maestro.work.follow(work.session_id):
                pass

        following = asyncio.create_task(follow())
        await asyncio.to_thread(pulled.wait)
        following.cancel()
        await asyncio.sleep(0)
        assert not closed
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await following
        assert [name.startswith("maestro") for name in closed] == [True]


async def test_a_room_is_entered_once(backend: Backend):
    """However many threads come at once, they share one room."""
    async with backend.open_async() as maestro:
        await asyncio.gather(*(maestro.sessions.start(f"s{number}") for number in range(20)))
        entered = await asyncio.gather(
            *(maestro._companion.call(lambda one: one.archive, lambda room: room) for _ in range(20))
        )
        assert len({id(room) for room in entered}) == 1


def test_a_forked_child_has_threads_of_its_own(real: Backend):
    """A child of a process that used AsyncMaestro uses its own: it has none of its parent's threads."""

    async def start(name: str) -> str:
        async with AsyncMaestro(real.project) as maestro:
            return (await maestro.sessions.start(name)).id

    asyncio.run(start("parent"))
    child = os.fork()
    if not child:
        signal.alarm(60)  # without threads it would wait for ever
        try:
            asyncio.run(start("child"))
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    with real.open() as maestro:
        assert {row.slug for row in maestro.sessions.list()} == {"parent", "child"}
