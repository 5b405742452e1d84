"""What a call returns or raises: the same from the wire client, from redis-py and from fakeredis."""

from __future__ import annotations

from contextlib import closing

import fakeredis
import pytest
import redis

from maestro_state.errors import ServerStorageError, ServerUnavailable
from maestro_state.net import ReplyError, connect, connect_async
from maestro_state.net.own_client import async_connection_of, connection_of
from tests.support.servers import Lua, free_port, raw_call, valkey

COMMANDS = [
    ("SET", "text", "é"),
    ("GET", "text"),
    ("GET", "absent"),
    ("SET", b"\x00\xff", b"\r\n$3\r\n"),
    ("GET", b"\x00\xff"),
    ("HSET", "hash", "a", 1, "b", 2.5),
    ("HGETALL", "hash"),
    ("HGETALL", "absent"),
    ("XADD", "stream", "1-1", "f", "v", "g", ""),
    ("XADD", "stream", "1-2", "f", "w"),
    ("XRANGE", "stream", "-", "+"),
    ("XREAD", "COUNT", 1, "STREAMS", "stream", "0"),
    ("XGROUP", "CREATE", "stream", "group", "0"),
    ("XREADGROUP", "GROUP", "group", "me", "STREAMS", "stream", ">"),
    ("ZADD", "scores", 1.5, "a", 2, "b"),
    ("ZRANGE", "scores", 0, -1, "WITHSCORES"),
    ("ZSCORE", "scores", "a"),
    ("EXPIRE", "hash", 100),
    ("TTL", "hash"),
    ("EXISTS", "hash", "absent"),
    ("SADD", "set", "one"),
    ("SMEMBERS", "set"),
    ("PING",),
    ("EVAL", "return {1, 'two', {3}, false}", 0),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Run one server for the module."""
    with valkey(tmp_path_factory.mktemp("s"), port=free_port()) as running:
        yield running


@pytest.fixture
def wire(server):
    """Connect to an empty server."""
    raw_call(server, "FLUSHALL")
    connection = connect(server.url)
    yield connection
    connection.close()


def bare_redis(server):
    """Return a redis-py client that speaks RESP2."""
    return redis.Redis(unix_socket_path=server.socket, protocol=2)


def test_library_returns_what_the_wire_returns(server, wire):
    """Every reply is equal over the wire, over redis-py and from fakeredis."""
    expected = [wire.call(*command) for command in COMMANDS]
    assert expected[1:3] == ["é".encode(), None]
    assert wire.call("GET", b"\x00\xff") == b"\r\n$3\r\n"
    for client in (bare_redis(server), fakeredis.FakeRedis(protocol=2)):
        raw_call(server, "FLUSHALL")
        library = connection_of(client)
        assert [library.call(*command) for command in COMMANDS] == expected
        library.call("FLUSHALL")
        assert library.calls(COMMANDS) == expected
        library.close()
    library = connection_of(bare_redis(server))
    # fakeredis answers [] here, so nobody may tell the two apart.
    assert library.call("XREAD", "STREAMS", "stream", "9") is None
    assert wire.call("XREAD", "STREAMS", "stream", "9") is None
    library.close()


async def test_async_returns_what_the_wire_returns(server, wire):
    """Every reply is equal over the asyncio wire and over redis-py's asyncio client."""
    expected = [wire.call(*command) for command in COMMANDS]
    library = async_connection_of(redis.asyncio.Redis(unix_socket_path=server.socket, protocol=2))
    fake = async_connection_of(fakeredis.FakeAsyncRedis(protocol=2))
    for connection in (connect_async(server.url), library, fake):
        raw_call(server, "FLUSHALL")
        assert [await connection.call(*command) for command in COMMANDS] == expected
        await connection.call("FLUSHALL")
        assert await connection.calls(COMMANDS) == expected
        await connection.close()


def test_redis_py_alone_returns_something_else(server, wire):
    """Control: without removing its callbacks redis-py does not return what the server sent."""
    wire.call("HSET", "hash", "a", 1)
    assert bare_redis(server).execute_command("HGETALL", "hash") != wire.call("HGETALL", "hash")


def test_large_replies_and_pipelines(wire):
    """Replies and requests much larger than any buffer arrive whole and in order."""
    big = bytes(range(256)) * 20_000
    wire.call("SET", "big", big)
    assert wire.call("GET", "big") == big
    many = [("SET", f"k{n}", b"x" * n) for n in range(3000)] + [("GET", f"k{n}") for n in range(3000)]
    assert wire.calls([("ECHO", big), ("ECHO", b"small"), ("ECHO", big[1:])]) == [big, b"small", big[1:]]
    replies = wire.calls(many)
    assert replies[3000:] == [b"x" * n for n in range(3000)]
    assert wire.calls([]) == []


async def test_large_replies_and_pipelines_async(server, wire):
    """The same over asyncio."""
    connection = connect_async(server.url)
    big = bytes(range(256)) * 20_000
    replies = await connection.calls([("SET", "big", big), ("GET", "big"), ("PING",)])
    assert replies == [b"OK", big, b"PONG"]
    await connection.close()


def test_pipeline_raises_after_everything_ran(server, wire):
    """An error in a pipeline is raised when all replies are read; the connection stays in step."""
    fake = connection_of(fakeredis.FakeRedis(protocol=2))
    for connection in (wire, connection_of(bare_redis(server)), fake):
        connection.call("FLUSHALL")
        with pytest.raises(ReplyError, match="WRONGTYPE"):
            connection.calls([("SET", "s", "1"), ("HGET", "s", "f"), ("SET", "after", "ran")])
        assert connection.call("GET", "after") == b"ran"
    fake.close()


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        (("NOSUCHCOMMAND",), "ERR"),
        (("HGET", "s", "f"), "WRONGTYPE"),
        (("EVALSHA", "0" * 40, 0), "NOSCRIPT"),
        (("EVAL", "return redis.error_reply('MYOWN word')", 0), "MYOWN"),
    ],
)
def test_error_replies(server, wire, command, kind):
    """An error reply keeps its first word and its text, whichever client read it."""
    wire.call("SET", "s", "1")
    texts = set()
    for connection in (wire, connection_of(bare_redis(server))):
        with pytest.raises(ReplyError) as raised:
            connection.call(*command)
        assert (raised.value.kind, raised.value.code) == (kind, "server_reply")
        texts.add(str(raised.value))
    assert len(texts) == 1


async def test_script_unknown_to_the_server_is_sent(server, wire):
    """A script runs by digest, and by body where the server has lost it; then the digest works again."""
    script = Lua("return {KEYS[1], KEYS[2], ARGV[1]}")
    expected = [b"a", b"b", b"c"]
    later = connect_async(server.url)
    fake = connection_of(fakeredis.FakeRedis(protocol=2))
    assert fake.script(script, ["a", "b"], ["c"]) == expected
    fake.close()
    for lose in (True, False):
        if lose:
            raw_call(server, "SCRIPT", "FLUSH")
        assert wire.script(script, ["a", "b"], ["c"]) == expected
        if lose:
            raw_call(server, "SCRIPT", "FLUSH")
        assert await later.script(script, ["a", "b"], ["c"]) == expected
        assert connection_of(bare_redis(server)).script(script, ["a", "b"], ["c"]) == expected
    await later.close()
    with pytest.raises(ReplyError, match="broken"):
        wire.script(Lua("return redis.error_reply('ERR broken')"), [], [])


def test_full_memory_is_a_storage_error(server, wire):
    """A server out of memory is named as such, for plain commands and for scripts."""
    raw_call(server, "CONFIG", "SET", "maxmemory", "1")
    try:
        for connection in (wire, connection_of(bare_redis(server))):
            with pytest.raises(ServerStorageError, match="cannot store"):
                connection.call("SET", "a", "b")
            with pytest.raises(ServerStorageError):
                connection.script(Lua("return redis.call('SET', KEYS[1], 'x')"), ["a"], [])
    finally:
        raw_call(server, "CONFIG", "SET", "maxmemory", "0")
    assert wire.call("SET", "a", "b") == b"OK"


async def test_passwords_databases_and_users(tmp_path):
    """Credentials and database are used on every connection; a wrong one is refused and not shown."""
    with valkey(tmp_path, port=free_port(), args=["--requirepass", "s3cret"]) as server:
        plain = f"127.0.0.1:{server.port}"
        good = connect(f"redis://:s3cret@{plain}/2")
        good.call("SET", "here", "1")
        with closing(connect(f"unix://default:s3cret@{server.socket}?db=2")) as local:
            assert local.call("GET", "here") == b"1"
        assert good.call("CLIENT", "GETNAME") == b"maestro"
        other = connect_async(f"redis://:s3cret@{plain}/3")
        assert await other.call("GET", "here") is None
        await other.close()
        good.call("ACL", "SETUSER", "limited", "on", ">pw", "~*", "+get", "+auth", "+select")
        limited = connect(f"redis://limited:pw@{plain}/2")
        assert limited.call("GET", "here") == b"1"
        with pytest.raises(ServerUnavailable, match="NOPERM"):
            limited.call("SET", "here", "2")
        wrong_ones = (f"redis://:wr0ng@{plain}/9", f"redis://u:wr0ng@{plain}", f"redis://{plain}")
        for wrong in (*wrong_ones, f"unix://{server.socket}"):
            with closing(connect(wrong)) as refusing, pytest.raises(ServerUnavailable) as refused:
                refusing.call("GET", "here")
            assert "wr0ng" not in f"{refused.value} {refused.value.hint}"
            asynchronous = connect_async(wrong)
            with pytest.raises(ServerUnavailable, match="does not let Maestro in"):
                await asynchronous.call("GET", "here")
            await asynchronous.close()
        for connection in (good, limited):
            connection.close()


def test_blocking_read_leaves_other_calls_alone(wire):
    """A read that waits in the server returns what comes, and None when nothing does."""
    assert wire.block("XREAD", "BLOCK", 20, "STREAMS", "stream", "$", block_ms=20) is None
    wire.call("XADD", "stream", "5-1", "f", "v")
    entries = wire.block("XREAD", "BLOCK", 5000, "STREAMS", "stream", "0", block_ms=5000)
    assert entries == [[b"stream", [[b"5-1", [b"f", b"v"]]]]]
