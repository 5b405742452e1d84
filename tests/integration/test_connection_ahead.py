"""Reads sent ahead: each reply once, in order and to its own caller, whatever breaks or is left in between."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

import fakeredis
import pytest

from maestro_state.net import ReplyError, connect, connect_async
from maestro_state.net.own_client import async_connection_of, connection_of
from tests.support.servers import lossy_proxy, raw_call, valkey
from tests.support.waiting import wait_until

Command = tuple[object, ...]

COUNT = 60


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Run one server, which has a stream."""
    with valkey(tmp_path_factory.mktemp("s")) as running:
        for number in range(1, COUNT + 1):
            raw_call(running, "XADD", "stream", f"{number}-0", "n", str(number) * 5000)
        yield running


def page_after(last: str) -> Command:
    """Ask for two entries after one."""
    return ("XRANGE", "stream", f"({last}", "+", "COUNT", 2)


def following(reply: list[list[bytes]]) -> Command | None:
    """Ask for the entries after those that came."""
    return page_after(reply[-1][0].decode()) if reply else None


def numbers(pages: list[list[list[bytes]]]) -> list[int]:
    """Return which entries the pages have."""
    return [int(entry[0].partition(b"-")[0]) for page in pages for entry in page]


def counted(then: Callable[[], object]) -> Callable[[list[list[bytes]]], Command | None]:
    """Do something before the fifth page is asked for."""
    pages = iter(range(1000))

    def ask(reply: list[list[bytes]]) -> Command | None:
        if next(pages) == 4:
            then()
        return following(reply)

    return ask


async def test_every_page_comes_once_and_in_order(server):
    """Over the wire, with other calls between two pages, and over a library; nothing to ask for is no page."""
    fake = fakeredis.FakeServer(version=(7,))
    filled = fakeredis.FakeRedis(server=fake)
    for number in range(1, COUNT + 1):
        filled.xadd("stream", {"n": number}, id=f"{number}-0")
    for connection in (connect(server.url), connection_of(fakeredis.FakeRedis(server=fake, protocol=2))):
        found = []
        for page in connection.replies(page_after("0"), following):
            found.append(page)
            assert connection.call("PING") in (b"PONG", True)
        assert numbers(found) == list(range(1, COUNT + 1))
        assert list(connection.replies(None, following)) == []
        connection.close()
    library = async_connection_of(fakeredis.FakeAsyncRedis(server=fake, protocol=2))
    for connection in (connect_async(server.url), library):
        found = []
        async for page in connection.replies(page_after("0"), following):
            found.append(page)
            assert await connection.call("PING") in (b"PONG", True)
        assert numbers(found) == list(range(1, COUNT + 1))
        assert [page async for page in connection.replies(None, following)] == []
        await connection.close()


async def test_the_next_is_sent_before_a_reply_is_handed_out(server):
    """Control: what the tests here break is a read on its way."""
    connection, aio = connect(server.url), connect_async(server.url)

    def commands() -> int:
        info = raw_call(server, "INFO", "commandstats").decode()
        return int(info.partition("cmdstat_xrange:calls=")[2].partition(",")[0] or 0)

    connection.call("PING")
    before = commands()
    pages = connection.replies(page_after("0"), following)
    next(pages)
    wait_until(lambda: commands() == before + 2, "the second page is asked for")
    pages.close()
    before = commands()
    async_pages = aio.replies(page_after("0"), following)
    await anext(async_pages)
    wait_until(lambda: commands() == before + 2, "the second page is asked for")
    await async_pages.aclose()
    connection.close()
    await aio.close()


async def test_pages_that_nobody_wants_any_more_reach_nobody(server):
    """Left halfway, the reply on its way is not taken for that of the next call."""
    connection, aio = connect(server.url), connect_async(server.url)
    for _ in range(20):
        pages = connection.replies(page_after("0"), following)
        next(pages)
        pages.close()
        assert connection.call("ECHO", "mine") == b"mine"
        async_pages = aio.replies(page_after("0"), following)
        await anext(async_pages)
        await async_pages.aclose()
        assert await aio.call("ECHO", "mine") == b"mine"
    connection.close()
    await aio.close()


async def test_a_connection_that_breaks_with_a_read_on_its_way(server):
    """Every page comes all the same, once."""

    def kill() -> None:
        raw_call(server, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

    connection, aio = connect(server.url), connect_async(server.url)
    assert numbers(list(connection.replies(page_after("0"), counted(kill)))) == list(range(1, COUNT + 1))
    found = [page async for page in aio.replies(page_after("0"), counted(kill))]
    assert numbers(found) == list(range(1, COUNT + 1))
    connection.close()
    await aio.close()


def test_replies_that_get_lost_are_asked_for_again(server):
    """Every page comes, once, though some of what was sent is lost on the way."""
    with lossy_proxy(server, lambda number: number % 7 == 0) as proxy:
        connection = connect(proxy.url)
        assert numbers(list(connection.replies(page_after("0"), following))) == list(range(1, COUNT + 1))
        connection.close()
        assert proxy.lost > 0  # control: the fault bites


async def test_an_error_is_raised_to_whoever_asked(server):
    """A read that the server refuses raises where its reply would be; the connection is as good as before."""

    def wrong(_: object) -> Command:
        return ("XRANGE", "stream", "no id", "+")

    connection, aio = connect(server.url), connect_async(server.url)
    pages = connection.replies(page_after("0"), wrong)
    assert numbers([next(pages)]) == [1, 2]
    with pytest.raises(ReplyError, match="Invalid stream ID"):
        next(pages)
    assert [connection.call("ECHO", str(number)) for number in range(20)] == [b"%d" % n for n in range(20)]
    async_pages = aio.replies(page_after("0"), wrong)
    assert numbers([await anext(async_pages)]) == [1, 2]
    with pytest.raises(ReplyError, match="Invalid stream ID"):
        await anext(async_pages)
    assert await asyncio.gather(*(aio.call("ECHO", str(n)) for n in range(20))) == [b"%d" % n for n in range(20)]
    connection.close()
    await aio.close()


def test_a_fork_halfway_gets_its_own_replies(server):
    """Parent and child both go on with the same pages: each gets all that are left, none the other's."""
    for _ in range(10):
        connection = connect(server.url)
        pages = connection.replies(page_after("0"), following)
        assert numbers([next(pages)]) == [1, 2]
        child = os.fork()
        if child == 0:
            is_right = False
            try:
                is_right = numbers(list(pages)) == list(range(3, COUNT + 1))
            finally:
                os._exit(0 if is_right else 1)
        assert numbers(list(pages)) == list(range(3, COUNT + 1))
        assert os.waitpid(child, 0)[1] == 0
        connection.close()
