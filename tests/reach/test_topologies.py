"""Every adapter on every kind of server: Sentinel, Cluster, a team's over TCP, and a redis-py client of one's own."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
import redis
import redis.asyncio
from redis.asyncio.cluster import RedisCluster
from redis.asyncio.sentinel import Sentinel

from maestro_state import AsyncMaestro
from maestro_state.net.url import parse_url
from tests.support.framework_agents import ALL, FRAMEWORKS, ids
from tests.support.sentinels import watched_master
from tests.support.servers import free_port, raw_call, valkey
from tests.support.waiting import wait_until


async def walk(agent: Any, maestro: AsyncMaestro | None = None) -> None:
    """Say, read, end, go on, and find it in a list."""
    await agent.say(0, together=3)
    assert await agent.read() == [0, 0, 0]
    maestro = maestro or getattr(agent.store, "maestro", agent.store)
    ended = await maestro.sessions.resolve(agent.ref)
    await maestro.sessions.end(agent.ref)
    assert await agent.read() == [0, 0, 0]
    await agent.say(1)
    assert await agent.read() == [0, 0, 0, 1]
    live = await maestro.sessions.resolve(agent.ref)
    assert (await maestro.sessions.read(live)).forked_from == ended
    rows = {row.id: row.bound_to for row in await maestro.sessions.list()}
    assert f"{rows[live].kind}:{rows[live].key}" == agent.ref


@pytest.mark.xdist_group("cluster")
@pytest.mark.parametrize("kind", ALL, ids=ids)
async def test_on_a_cluster(project, nodes, kind):
    """Three nodes; the session's keys, the binding's and the index's lie on different ones."""
    agent = kind(project=project, redis_url=nodes.url)
    await walk(agent)
    await agent.store.close()
    assert len([node for node in nodes.nodes if raw_call(node, "DBSIZE")]) > 1


@pytest.mark.parametrize("kind", ALL, ids=ids)
async def test_a_failover_loses_nothing_that_was_told(project, tmp_path, kind):
    """By Sentinel: what the replica had is read from it, and the agent goes on there."""
    with watched_master(tmp_path) as watched:
        agent = kind(project=project, redis_url=watched.url, wait_replicas=1)
        await walk(agent)
        wait_until(lambda: raw_call(watched.master, "WAIT", 1, 1000) == 1, "the replica is behind")
        await asyncio.to_thread(watched.lose_master)
        await asyncio.to_thread(wait_until, watched.is_promoted, "nobody was promoted")
        again = kind(project=project, redis_url=watched.url)
        assert await again.read() == [0, 0, 0, 1]
        await again.say(2)
        assert await again.read() == [0, 0, 0, 1, 2]
        await again.store.close()
        await agent.store.close()


@pytest.mark.parametrize("kind", FRAMEWORKS, ids=ids)
async def test_with_a_client_of_ones_own(project, tmp_path, kind):
    """redis-py with a password and decoded replies; the client itself is neither used nor closed."""
    with valkey(tmp_path, port=free_port()) as server:
        raw_call(server, "ACL", "SETUSER", "ana", "on", ">secret", "~*", "&*", "+@all")
        options = {"port": server.port, "username": "ana", "password": "secret", "decode_responses": True}
        client = redis.asyncio.Redis(**options)
        agent = kind(project=project, client=client)
        await walk(agent)
        await agent.store.close()
        async with AsyncMaestro(project, client=client) as maestro:
            given = kind(maestro=maestro)
            assert await given.read() == [0, 0, 0, 1]
            await given.store.close()
            assert await maestro.messages.since(ref=kind.ref) is not None  # still open
        await client.aclose()


@pytest.mark.parametrize("kind", FRAMEWORKS, ids=ids)
async def test_with_a_sentinels_client(project, tmp_path, kind):
    """One that finds the master by itself."""
    with watched_master(tmp_path) as watched:
        sentinel = Sentinel([("127.0.0.1", watched.sentinel.port)])
        client = sentinel.master_for("mymaster")
        agent = kind(project=project, client=client)
        await walk(agent)
        await agent.store.close()
        await client.aclose()
        for one in sentinel.sentinels:
            await one.aclose()


@pytest.mark.xdist_group("cluster")
@pytest.mark.parametrize("kind", FRAMEWORKS, ids=ids)
async def test_with_a_clusters_client(project, nodes, kind):
    """One that knows which node has what."""
    host, port = parse_url(nodes.url).hosts[0]
    client = RedisCluster(host=host, port=port)
    agent = kind(project=project, client=client)
    await walk(agent)
    await agent.store.close()
    await client.aclose()


@pytest.mark.parametrize("kind", FRAMEWORKS, ids=ids)
def test_one_object_serves_several_loops(place, kind):
    """One after another, and at once: B7."""
    agent = kind(**place)
    asyncio.run(agent.say(0))
    asyncio.run(agent.say(1))
    numbers = iter(range(2, 14))

    async def some(mine: list[int]) -> None:
        for number in mine:
            await agent.say(number)

    shares = [[next(numbers) for _ in range(3)] for _ in range(4)]
    threads = [threading.Thread(target=asyncio.run, args=(some(share),)) for share in shares]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = asyncio.run(agent.read())
    assert sorted(found) == list(range(14))
    asyncio.run(agent.store.close())


@pytest.mark.parametrize("kind", FRAMEWORKS, ids=ids)
async def test_a_cancelled_write_is_whole_or_absent(place, kind):
    """Whenever it is cancelled: B7."""
    agent = kind(**place)
    await agent.say(0, together=3)
    for number in range(1, 9):
        task = asyncio.create_task(agent.say(number, together=3))
        for _ in range(number):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
    again = kind(**place)
    found = await again.read()
    assert all(found.count(number) == 3 for number in set(found))
    await again.say(9)
    assert (await again.read())[-1] == 9
    await again.store.close()
    await agent.store.close()


@pytest.mark.parametrize("kind", FRAMEWORKS, ids=ids)
async def test_writes_renew_the_time_to_live_and_reads_do_not(place, real, kind):
    """Of all keys of the session together: B3."""
    agent = kind(**place, ttl_seconds=1000)
    await agent.say(0)
    session_id = await agent.store.maestro.sessions.resolve(kind.ref)

    def ends() -> set[int]:
        return {real.raw.pexpiretime(key) for key in real.raw.keys(f"*{{{session_id}}}*")}

    full = min(ends())
    for key in real.raw.keys(f"*{{{session_id}}}*"):
        real.raw.pexpireat(key, full - 500_000)
    record = agent.store.maestro.server.terms.keys.of_session(session_id, "session")
    real.raw.hset(record, "touched_at", 0)  # renewed once a second at most
    await agent.read()
    assert ends() == {full - 500_000}
    await agent.say(1)
    (renewed,) = ends()
    assert renewed >= full
    await agent.store.close()


@pytest.mark.parametrize("kind", FRAMEWORKS, ids=ids)
async def test_sixteen_first_uses_make_one_session(place, kind):
    """Each with a Maestro of its own: B1."""
    agents = [kind(**place) for _ in range(16)]
    await asyncio.gather(*(agent.say(number) for number, agent in enumerate(agents)))
    assert sorted(await agents[0].read()) == list(range(16))
    maestro = agents[0].store.maestro
    key = kind.ref.split(":", 1)[1]
    assert len([row for row in await maestro.sessions.list() if row.bound_to and row.bound_to.key == key]) == 1
    for agent in agents:
        await agent.store.close()
