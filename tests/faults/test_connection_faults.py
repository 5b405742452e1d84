"""What happens when the server, the network or the process fails in the middle of a call."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
from contextlib import closing

import pytest

from maestro_state.errors import ServerUnavailable
from maestro_state.net import connect, connect_async, parse_url
from maestro_state.net.faults import ConnectionLostError, ReplyError
from maestro_state.net.retry import RetryPolicy
from tests.support.servers import free_port, lossy_proxy, raw_call, raw_socket, valkey
from tests.support.waiting import wait_until

EVERY_SEVENTH = 7


@pytest.fixture
def server(tmp_path):
    """Run one server for the test."""
    with valkey(tmp_path) as running:
        yield running


def restart_soon(server):
    """Start a killed server from another thread, so that a call is under way meanwhile."""
    thread = threading.Thread(target=server.restart)
    thread.start()
    return thread


async def test_call_survives_kill_and_restart(server):
    """A client that was connected goes on after kill -9 and a restart, and finds what was acknowledged."""
    later = connect_async(server.url)
    with closing(connect(server.url)) as wire, raw_socket(server) as bare:
        wire.retry_s = later.retry_s = 30.0
        wire.call("SET", "kept", "1")
        await later.call("PING")
        server.kill()
        # Control: the break is real, a plain socket sees the end of its connection.
        assert bare.recv(1) == b""
        thread = restart_soon(server)
        assert wire.call("GET", "kept") == b"1"
        thread.join()
        assert await later.call("GET", "kept") == b"1"
        server.restart()
        assert await later.calls([("GET", "kept"), ("PING",)]) == [b"1", b"PONG"]
        assert wire.calls([("GET", "kept"), ("PING",)]) == [b"1", b"PONG"]
    await later.close()


async def test_blocking_read_survives_kill_and_restart(server):
    """A read that waits in the server is asked again when the server is back."""
    for waits in (True, False):
        later = connect_async(server.url)
        with closing(connect(server.url)) as wire:
            wire.retry_s = later.retry_s = 30.0
            wire.call("DEL", "stream")

            def blocked():
                return b"blocked_clients:1" in raw_call(server, "INFO", "clients")

            args = ("XREAD", "BLOCK", 20_000, "STREAMS", "stream", "0")
            read = asyncio.create_task(
                later.block(*args, block_ms=20_000) if waits else asyncio.to_thread(wire.block, *args, block_ms=20_000)
            )
            await asyncio.to_thread(wait_until, blocked, "the read does not wait")
            await asyncio.to_thread(server.restart)
            await asyncio.to_thread(wait_until, blocked, "the read does not wait again")
            wire.call("XADD", "stream", "1-1", "f", "v")
            assert await read == [[b"stream", [[b"1-1", [b"f", b"v"]]]]]
        await later.close()


def test_lost_replies_are_asked_again(server):
    """Every call succeeds though replies are lost, and plain appends are then doubled: hence command ids."""
    with lossy_proxy(server, lambda number: number % EVERY_SEVENTH == 0) as proxy:
        with closing(connect(proxy.url)) as wire:
            for number in range(200):
                wire.call("XADD", "appended", "*", "n", number)
                wire.call("HSET", "assigned", number, number)
        lost = proxy.lost
    # Control: the fault bites.
    assert lost > 20
    appended = raw_call(server, "XLEN", "appended")
    assert 200 < appended <= 200 + lost
    assert raw_call(server, "HLEN", "assigned") == 200


async def test_lost_replies_are_asked_again_async(server):
    """The same with many asyncio callers on one connection: each gets its own answer."""
    with lossy_proxy(server, lambda number: number % EVERY_SEVENTH == 0) as proxy:
        later = connect_async(proxy.url)
        later.retry_s = 30.0

        async def one(number):
            for turn in range(20):
                assert await later.call("ECHO", f"{number}-{turn}") == f"{number}-{turn}".encode()
                await later.call("XADD", "appended", "*", "n", number)

        await asyncio.gather(*(one(number) for number in range(10)))
        await later.close()
        assert proxy.lost > 0
    assert raw_call(server, "XLEN", "appended") > 200


def test_nobody_there_fails_at_once(tmp_path):
    """A first connection that is refused is tried once more and then reported, with the cause."""
    for url in (f"unix://{tmp_path}/none", f"redis://:s3cret@127.0.0.1:{free_port()}"):
        wire = connect(url)
        wire.retry_s = 3600.0
        with pytest.raises(ServerUnavailable, match="cannot reach") as failed:
            wire.call("PING")
        assert isinstance(failed.value.__cause__, OSError)
        assert failed.value.hint
        assert "s3cret" not in str(failed.value)


async def test_nobody_there_fails_at_once_async(tmp_path):
    """The same over asyncio."""
    for url in (f"unix://{tmp_path}/none", f"redis://127.0.0.1:{free_port()}"):
        later = connect_async(url)
        later.retry_s = 3600.0
        with pytest.raises(ServerUnavailable, match="cannot reach"):
            await later.call("PING")
        await later.close()


def test_gives_up_after_its_time(server):
    """A client that was connected gives up when the server stays away."""
    with closing(connect(server.url)) as wire:
        wire.retry_s = 0.2
        wire.call("PING")
        server.kill()
        with pytest.raises(ServerUnavailable, match="cannot reach unix://"):
            wire.call("PING")
        with pytest.raises(ServerUnavailable):
            wire.calls([("PING",), ("PING",)])


async def test_absent_server_is_revived_once(server):
    """A server that is not there is started through `revive`, once per call, also when it went away later."""
    for fresh in (True, False):
        revived = []

        def revive(revived=revived):
            revived.append(1)
            server.restart()

        later = connect_async(server.url, revive=revive)
        with closing(connect(server.url, revive=revive)) as wire:
            if not fresh:
                wire.call("PING")
                await later.call("PING")
            assert revived == []
            server.kill()
            assert wire.call("PING") == b"PONG"
            assert revived == [1]
            server.kill()
            assert await later.call("PING") == b"PONG"
            assert revived == [1, 1]
        await later.close()


def test_revival_in_vain_ends(tmp_path):
    """A `revive` that does not help is not called over and over."""
    revived = []
    wire = connect(f"unix://{tmp_path}/none", revive=lambda: revived.append(1))
    wire.retry_s = 0.1
    with pytest.raises(ServerUnavailable):
        wire.call("PING")
    assert revived == [1]


async def test_silence_ends_in_a_new_connection(server):
    """An answer that never comes is given up after the timeout and asked for on a new connection."""
    with lossy_proxy(server) as proxy:
        for asynchronous in (False, True):
            connection = (connect_async if asynchronous else connect)(proxy.url, timeout_s=0.1)
            connection.retry_s = 30.0

            async def call(connection=connection, asynchronous=asynchronous):
                if asynchronous:
                    return await connection.call("INCR", "counter")
                return await asyncio.to_thread(connection.call, "INCR", "counter")

            first = await call()
            before = proxy.replies
            proxy.silent.set()
            waiting = asyncio.create_task(call())
            # One reply swallowed is the fault; a second one, beside the greeting's, is the call asked again.
            wanted = before + 2
            await asyncio.to_thread(wait_until, lambda least=wanted: proxy.replies > least, "not asked again")
            proxy.silent.clear()
            assert await waiting > first + 1
            if asynchronous:
                await connection.close()
            else:
                connection.close()


def test_stopped_server_is_reported(server):
    """A server that hangs is reported as such when the time is over."""
    with closing(connect(server.url, timeout_s=0.1)) as wire:
        wire.retry_s = 30.0
        wire.call("PING")
        os.kill(server.pid, signal.SIGSTOP)
        wire.retry_s = 0.1  # only now: while it runs it may be slow
        try:
            with pytest.raises(ServerUnavailable, match="did not answer in time"):
                wire.call("PING")
        finally:
            os.kill(server.pid, signal.SIGCONT)
        wire.retry_s = 30.0
        assert wire.call("PING") == b"PONG"


async def test_busy_and_read_only_pass(server):
    """BUSY and READONLY are waited out; when they stay, the answer is quoted."""
    with closing(connect(server.url)) as wire:
        later = connect_async(server.url)
        await later.call("PING")
        wire.retry_s = later.retry_s = 0.2
        raw_call(server, "REPLICAOF", "127.0.0.1", free_port())
        for attempt in (wire.call, lambda *args: wire.calls([args])):
            with pytest.raises(ServerUnavailable, match="READONLY"):
                attempt("SET", "a", "b")
        with pytest.raises(ServerUnavailable, match="READONLY"):
            await later.call("SET", "a", "b")
        wire.retry_s = later.retry_s = 30.0
        waiting = asyncio.create_task(asyncio.to_thread(wire.call, "SET", "a", "b"))
        also = asyncio.create_task(later.call("SET", "c", "d"))
        await asyncio.sleep(0)
        raw_call(server, "REPLICAOF", "NO", "ONE")
        assert await waiting == b"OK"
        assert await also == b"OK"
        raw_call(server, "CONFIG", "SET", "busy-reply-threshold", "1")
        with raw_socket(server) as script:
            script.sendall(b"EVAL 'while true do end' 0\r\n")
            wait_until(lambda: str(raw_call(server, "PING")).startswith("BUSY"), "the script does not run")
            waiting = asyncio.create_task(asyncio.to_thread(wire.call, "GET", "a"))
            also = asyncio.create_task(later.call("GET", "c"))
            await asyncio.sleep(0)
            raw_call(server, "SCRIPT", "KILL")
            assert (await waiting, await also) == (b"b", b"d")
        await later.close()


def test_interrupted_call_leaves_no_stale_reply(server):
    """After Ctrl-C in the middle of a call, the next one gets its own reply and not the old one."""
    with closing(connect(server.url)) as wire:
        wire.call("PING")
        blocked = threading.Thread(
            target=lambda: (
                wait_until(lambda: b"blocked_clients:1" in raw_call(server, "INFO", "clients"), "not there"),
                os.kill(os.getpid(), signal.SIGINT),
            )
        )
        blocked.start()
        with pytest.raises(KeyboardInterrupt):
            wire.call("BLPOP", "list", 20)
        blocked.join()
        wire.call("RPUSH", "list", "late")
        assert wire.call("ECHO", "mine") == b"mine"


def test_not_a_redis_server_is_reported():
    """Something else that listens at the address is reported, not waited for."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            for _ in range(2):
                client, _ = listener.accept()
                with client:
                    client.recv(100)
                    client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(ServerUnavailable, match="not RESP"):
            connect(f"redis://127.0.0.1:{listener.getsockname()[1]}").call("PING")
        thread.join()


def test_retries_pause_longer_and_end():
    """Pauses start at none, grow, stay bounded, and end when the time is over."""
    now = [0.0]
    policy = RetryPolicy(parse_url("redis://h"), known=True, retry_s=5.0, clock=lambda: now[0])
    pauses = []

    def go_on():
        while True:
            pauses.append(policy.pause_after(ConnectionLostError("gone")))
            now[0] += pauses[-1]

    with pytest.raises(ServerUnavailable, match="redis://h:6379: gone"):
        go_on()
    assert pauses[0] == 0.0
    assert pauses[1:-1] == sorted(pauses[1:-1])
    assert max(pauses) == 0.5
    assert now[0] == pytest.approx(5.0)


def test_retries_of_a_server_that_was_never_reached():
    """A server never reached gets one more try, one that answers LOADING gets the whole time."""
    policy = RetryPolicy(parse_url("redis://h"), known=False, retry_s=5.0, clock=lambda: 0.0)
    policy.pause_after(ConnectionRefusedError(111, "Connection refused"))
    with pytest.raises(ServerUnavailable, match="cannot reach redis://h:6379: Connection refused"):
        policy.pause_after(ConnectionRefusedError(111, "Connection refused"))
    policy = RetryPolicy(parse_url("redis://h"), known=False, retry_s=5.0, clock=lambda: 0.0)
    for _ in range(10):
        policy.pause_after(ReplyError("LOADING the dataset"))
