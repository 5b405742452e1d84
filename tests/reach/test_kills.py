"""kill -9 of the server, and of the agent, under every adapter: what was acknowledged is there, once, and whole."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from typing import Any

import pytest

from maestro_state.adapters.binding import Adapter
from tests.support.framework_agents import ALL, FRAMEWORKS, ids
from tests.support.servers import free_port, raw_call, valkey

#: Batches said between two kills, and what is in a batch.
TURNS, TOGETHER = 12, 3


async def wait_longer(agent: Any) -> None:
    """Give an agent more time than a restart needs on a busy machine; a recorder has all the time there is."""
    if isinstance(agent.store, Adapter):
        for server in ((await agent.store.here()).server, agent.store.maestro.blocking.server):
            server.connection.retry_s = 60.0


@pytest.mark.parametrize("kind", ALL, ids=ids)
async def test_a_server_that_is_killed_loses_and_doubles_nothing(project, tmp_path, kind):
    """Killed while agents write, several times; each agent is told of a batch only when it is on disk."""
    settings = ["--appendfsync", "always"]
    with valkey(tmp_path, port=free_port(), args=settings) as server:
        place = {"project": project, "redis_url": server.url}
        agents, told, starts = [kind(**place) for _ in range(4)], list[int](), set[int]()
        for number, agent in enumerate(agents):  # one that never reached a server gives up at once
            await wait_longer(agent)
            await agent.say(10_000 + number, together=TOGETHER)
        for turn in range(3):
            half_way = asyncio.Event()

            async def write(number: int, turn: int = turn, half_way: asyncio.Event = half_way) -> None:
                for at in range(TURNS):
                    name = (turn * 10 + number) * 100 + at
                    await agents[number].say(name, together=TOGETHER)
                    told.append(name)
                    if at == 2:
                        half_way.set()

            starts.add(server.pid)
            writing = asyncio.gather(*(write(number) for number in range(4)))
            await half_way.wait()
            assert not writing.done()  # the fault bites: they are at it
            await asyncio.to_thread(server.restart)
            await writing
        assert len(starts | {server.pid}) == 4
        again = kind(**place)
        found = await again.read()
        assert set(told) <= set(found)
        assert all(found.count(name) == TOGETHER for name in set(found))
        assert len(set(found)) == 3 * 4 * TURNS + 4
        for agent in (*agents, again):
            await agent.store.close()


@pytest.mark.parametrize("kind", FRAMEWORKS, ids=ids)
async def test_a_server_without_its_log_is_noticed(project, tmp_path, kind):
    """The control: the check above sees what a server loses that keeps nothing."""
    with valkey(tmp_path, port=free_port()) as server:
        place = {"project": project, "redis_url": server.url}
        agent = kind(**place)
        await agent.say(0)
        raw_call(server, "CONFIG", "SET", "appendonly", "no")
        await agent.say(1)
        server.restart()
        again = kind(**place)
        assert await again.read() != [0, 1]
        await again.store.close()
        await agent.store.close()


PROGRAM = """
import asyncio, sys
from tests.support import framework_agents

async def main():
    agent = getattr(framework_agents, sys.argv[1])(project=sys.argv[2])
    for number in range(100_000):
        await agent.say(int(sys.argv[3]) * 1_000_000 + number, together=3)
        print(number, flush=True)

asyncio.run(main())
"""


def killed_after(batches: int, *args: str) -> int:
    """Have a program say batches and kill it; returns how many it was told of."""
    with subprocess.Popen([sys.executable, "-c", PROGRAM, *args], stdout=subprocess.PIPE) as agent:
        assert agent.stdout is not None
        for _ in range(batches):
            assert agent.stdout.readline()
        agent.send_signal(signal.SIGKILL)
        told = batches + len(agent.stdout.read().split())
        assert agent.wait() == -signal.SIGKILL  # the fault bites: it had 100 000 to say
    return told


@pytest.mark.parametrize("kind", FRAMEWORKS, ids=ids)
async def test_an_agent_that_is_killed_leaves_whole_batches(place, kind):
    """Several one after another, on one key; the next one goes on."""
    told = {}
    for turn in range(3):
        told[turn] = await asyncio.to_thread(killed_after, 4 + turn, ids(kind), str(place["project"]), str(turn))
    agent = kind(**place)
    found = await agent.read()
    assert all(found.count(name) == TOGETHER for name in set(found))
    for turn, count in told.items():
        mine = sorted({name - turn * 1_000_000 for name in found if name // 1_000_000 == turn})
        assert mine == list(range(len(mine)))
        assert count <= len(mine) <= count + 1
    await agent.say(9_000_000)
    assert (await agent.read())[-1] == 9_000_000
    await agent.store.close()
