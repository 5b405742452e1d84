"""Servers that have to be found first: a real cluster of three nodes, and a master behind a sentinel."""

from __future__ import annotations

import asyncio
from contextlib import closing

import pytest
from redis.asyncio.connection import AbstractConnection

from maestro_state.errors import ServerUnavailable
from maestro_state.net import ReplyError, connect, connect_async
from maestro_state.net.faults import ConnectionLostError
from tests.support.sentinels import watched_master
from tests.support.servers import Lua, free_port, raw_call
from tests.support.waiting import wait_until

pytestmark = pytest.mark.xdist_group("cluster")


APPEND = Lua("redis.call('XADD', KEYS[1], '*', 'v', ARGV[1]) return {redis.call('HINCRBY', KEYS[2], 'n', 1), KEYS[2]}")


def test_two_key_scripts_on_a_cluster(nodes):
    """A script on two keys of one hash tag runs on whichever node has them, known there or not."""
    with closing(connect(nodes.url)) as connection:
        for number in range(30):
            keys = [f"a:{{s{number}}}:events", f"a:{{s{number}}}"]
            for turn in (1, 2):
                assert connection.script(APPEND, keys, [turn]) == [turn, keys[1].encode()]
            assert connection.call("HGETALL", keys[1]) == [b"n", b"2"]
            assert len(connection.call("XRANGE", keys[0], "-", "+")[0][1]) == 2
        assert connection.calls([("HGET", f"a:{{s{n}}}", "n") for n in range(30)]) == [b"2"] * 30
        with pytest.raises(ReplyError):
            connection.script(APPEND, ["one", "two"], [1])
    # Control: it is a cluster, every node has some of the keys.
    assert all(raw_call(node, "DBSIZE") > 0 for node in nodes.nodes)
    assert str(raw_call(nodes.nodes[0], "EVAL", "return 1", 2, "one", "two")).startswith("CROSSSLOT")


async def test_two_key_scripts_on_a_cluster_async(nodes):
    """The same over asyncio."""
    connection = connect_async(nodes.url)
    for number in range(30):
        keys = [f"b:{{s{number}}}:events", f"b:{{s{number}}}"]
        for turn in (1, 2):
            assert await connection.script(APPEND, keys, [turn]) == [turn, keys[1].encode()]
        assert await connection.call("HGETALL", keys[1]) == [b"n", b"2"]
        assert len((await connection.call("XRANGE", keys[0], "-", "+"))[0][1]) == 2
    assert await connection.calls([("HGET", f"b:{{s{n}}}", "n") for n in range(30)]) == [b"2"] * 30
    with pytest.raises(ReplyError):
        await connection.script(APPEND, ["one", "two"], [1])
    await connection.close()


async def test_blocking_reads_on_a_cluster(nodes):
    """A read that waits longer than the usual timeout is not cut short, and returns raw entries."""
    args = ("XREAD", "BLOCK", 1200, "STREAMS", "{w}:events", "0")
    later = connect_async(nodes.url, timeout_s=1.0)
    with closing(connect(nodes.url, timeout_s=1.0)) as connection:
        connection.retry_s = later.retry_s = 60.0
        waiting = asyncio.create_task(later.block(*args, block_ms=1200))
        assert await asyncio.to_thread(connection.block, *args, block_ms=1200) is None
        assert await waiting is None
        connection.call("XADD", "{w}:events", "1-1", "f", "v")
        entries = [[b"{w}:events", [[b"1-1", [b"f", b"v"]]]]]
        assert connection.block(*args, block_ms=1200) == entries
        assert await later.block(*args, block_ms=1200) == entries
    await later.close()


async def test_closing_after_a_fault_leaves_no_socket(nodes):
    """A client that was told to look for its nodes anew, as after a broken connection, is closed all the same."""
    connection = connect_async(nodes.url)
    assert await connection.calls([("GET", f"{{s{number}}}") for number in range(30)]) == [None] * 30
    client = connection._made[0]
    sockets = [link for node in client.nodes_manager.nodes_cache.values() for link in node._connections]
    assert any(link.is_connected for link in sockets)
    client._initialize = True
    await connection.close()
    assert not any(link.is_connected for link in sockets)


async def test_calls_whose_socket_another_one_closes_are_made_again(nodes, monkeypatch):
    """A client that closes all its sockets, as it does when one node is silent, costs other calls a moment: those that
    are between having a socket and writing to it, too.
    """
    connection = connect_async(nodes.url)
    assert await connection.call("GET", "{s0}") is None
    send, whole = AbstractConnection._send_packed_command, connection._try
    lost: list[BaseException | None] = []
    is_closed = False

    async def closed_meanwhile(self, command):
        nonlocal is_closed
        if not is_closed:
            is_closed = True
            for client in connection._made:
                await client.aclose()
        return await send(self, command)

    async def noted(*args):
        try:
            return await whole(*args)
        except ConnectionLostError as error:
            lost.append(error.__cause__)
            raise

    monkeypatch.setattr(AbstractConnection, "_send_packed_command", closed_meanwhile)
    connection._try = noted
    calls = [asyncio.create_task(connection.call("GET", f"{{s{number}}}")) for number in range(12)]
    assert await asyncio.gather(*calls) == [None] * 12
    assert [type(error) for error in lost[:1]] == [AttributeError], "control: redis-py says it so"
    await connection.close()


async def test_absent_cluster_is_reported():
    """A cluster that cannot be reached is reported like any other server."""
    url = f"redis+cluster://u:s3cret@127.0.0.1:{free_port()},127.0.0.1:{free_port()}"
    connection = connect(url)
    with pytest.raises(ServerUnavailable, match="cannot reach") as failed:
        connection.call("GET", "a")
    assert "s3cret" not in str(failed.value)
    later = connect_async(url)
    with pytest.raises(ServerUnavailable, match="cannot reach"):
        await later.call("GET", "a")
    await later.close()


async def test_master_behind_a_sentinel(tmp_path):
    """The master is found through the sentinel, also after a failover in the middle of the work."""
    with watched_master(tmp_path) as watched:
        replica = watched.replica
        later = connect_async(watched.url)
        with closing(connect(watched.url)) as connection:
            connection.retry_s = later.retry_s = 60.0
            assert connection.script(APPEND, ["{s}e", "{s}"], [1]) == [1, b"{s}"]
            assert await later.script(APPEND, ["{s}e", "{s}"], [2]) == [2, b"{s}"]
            assert connection.call("WAIT", 1, 60_000) == 1
            wait_until(lambda: raw_call(replica, "HGET", "{s}", "n") == b"2", "the replica lags")
            watched.lose_master()
            assert connection.script(APPEND, ["{s}e", "{s}"], [3]) == [3, b"{s}"]
            assert await later.script(APPEND, ["{s}e", "{s}"], [4]) == [4, b"{s}"]
            assert raw_call(replica, "HGET", "{s}", "n") == b"4"
        await later.close()
