"""The asyncio connection: callers share one socket, and none gets another one's reply."""

from __future__ import annotations

import asyncio

import pytest

from maestro_state.net import connect_async
from maestro_state.net.faults import ReplyError
from tests.support.servers import lossy_proxy, raw_call, valkey
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Run one server for the module."""
    with valkey(tmp_path_factory.mktemp("s")) as running:
        yield running


def counted(server, section, name):
    """Return a number from the server's own statistics."""
    info = raw_call(server, "INFO", section).decode()
    return int(info.partition(f"{name}:")[2].partition("\r")[0])


def clients(server):
    """Return how many connections have been accepted and not yet closed, that of the question included."""
    return counted(server, "clients", "connected_clients")


def blocked(server):
    """Tell whether somebody waits in the server."""
    return b"blocked_clients:0" not in raw_call(server, "INFO", "clients")


async def test_callers_share_one_connection(server):
    """A thousand calls at once go over one socket in few writes, and each gets its own reply."""
    connection = connect_async(server.url)
    before = clients(server)
    replies = await asyncio.gather(*(connection.call("ECHO", number) for number in range(1000)))
    assert replies == [str(number).encode() for number in range(1000)]
    assert clients(server) == before + 1
    before = counted(server, "stats", "total_reads_processed")
    await asyncio.gather(*(connection.call("ECHO", number) for number in range(1000)))
    assert counted(server, "stats", "total_reads_processed") - before < 200
    await connection.close()


async def test_errors_reach_their_own_caller(server):
    """Of many callers, exactly those get an error whose command was wrong."""
    connection = connect_async(server.url)
    await connection.call("SET", "text", "1")
    commands = [("HGET", "text", "f") if number % 3 == 0 else ("ECHO", number) for number in range(90)]
    replies = await asyncio.gather(*(connection.call(*c) for c in commands), return_exceptions=True)
    for number, reply in enumerate(replies):
        if number % 3 == 0:
            assert isinstance(reply, ReplyError)
        else:
            assert reply == str(number).encode()
    await connection.close()


async def test_cancelled_callers_leave_replies_in_step(server):
    """When callers are cancelled at any moment, the others still get their own replies."""
    connection = connect_async(server.url)

    async def echo(number):
        if number % 5 == 0:
            texts = [str(number), f"{number}b"]
            return await connection.calls([("ECHO", text) for text in texts]) == [t.encode() for t in texts]
        return await connection.call("ECHO", number) == str(number).encode()

    for turns in range(12):
        tasks = [asyncio.create_task(echo(number)) for number in range(60)]
        for _ in range(turns):
            await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(result is True for result in results[1::2])
        assert await connection.call("ECHO", "after") == b"after"
    await connection.close()


async def test_cancelled_in_flight_reply_is_swallowed(server):
    """A reply that comes after its caller has gone is not given to the next caller."""
    with lossy_proxy(server) as proxy:
        connection = connect_async(proxy.url)
        await connection.call("PING")
        held = asyncio.create_task(connection.call("BLPOP", "held", 0))
        await asyncio.to_thread(wait_until, lambda: blocked(server), "the command is not under way")
        held.cancel()
        # Control: the caller is gone while its reply is still to come.
        with pytest.raises(asyncio.CancelledError):
            await held
        following = asyncio.create_task(connection.call("ECHO", "mine"))
        raw_call(server, "RPUSH", "held", "not yours")
        assert await following == b"mine"
        await connection.close()


async def test_first_caller_cancelled_while_connecting(server):
    """The connection is still made for the others when the caller that started it is cancelled."""
    connection = connect_async(server.url)
    tasks = [asyncio.create_task(connection.call("ECHO", number)) for number in range(5)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(results[0], asyncio.CancelledError)
    assert results[1:] == [b"1", b"2", b"3", b"4"]
    await connection.close()


async def test_blocking_reads_do_not_hold_up_calls(server):
    """Reads that wait have sockets of their own, and a cancelled one does not go on waiting in the server."""
    connection = connect_async(server.url)
    reads = [
        asyncio.create_task(connection.block("XREAD", "BLOCK", 20_000, "STREAMS", f"stream{n}", "$", block_ms=20_000))
        for n in range(3)
    ]
    await asyncio.to_thread(
        wait_until, lambda: b"blocked_clients:3" in raw_call(server, "INFO", "clients"), "reads do not wait"
    )
    assert await connection.call("PING") == b"PONG"
    await connection.call("XADD", "stream0", "7-1", "f", "v")
    assert await reads[0] == [[b"stream0", [[b"7-1", [b"f", b"v"]]]]]
    for read in reads[1:]:
        read.cancel()
    await asyncio.gather(*reads, return_exceptions=True)
    await asyncio.to_thread(wait_until, lambda: not blocked(server), "a cancelled read goes on waiting")
    assert await connection.block("XREAD", "BLOCK", 10, "STREAMS", "stream1", "$", block_ms=10) is None
    await connection.close()


def test_each_event_loop_gets_its_own_socket(server):
    """One connection object can be used by one event loop after the other."""
    connection = connect_async(server.url)

    async def use(text):
        reply = await connection.call("ECHO", text)
        await connection.block("XREAD", "BLOCK", 1, "STREAMS", "none", "$", block_ms=1)
        await connection.close()
        return reply

    assert [asyncio.run(use("a")), asyncio.run(use("b"))] == [b"a", b"b"]


async def test_close_can_be_followed_by_a_call(server):
    """Closing ends the sockets; the next call opens new ones."""
    before = clients(server)
    connection = connect_async(server.url)
    assert await connection.call("PING") == b"PONG"
    await connection.close()
    await asyncio.to_thread(wait_until, lambda: clients(server) == before, "the socket is still open")
    assert await connection.call("PING") == b"PONG"
    await connection.close()
