"""One blocking connection shared by threads and by forked children."""

from __future__ import annotations

import os
import threading
import warnings
from contextlib import closing

import pytest

from maestro_state.net import connect
from tests.support.servers import raw_call, raw_socket, valkey
from tests.support.waiting import wait_until

THREADS = 24
CALLS = 200


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Run one server for the module."""
    with valkey(tmp_path_factory.mktemp("s")) as running:
        yield running


def in_child(work):
    """Fork, run `work` in the child, and return whether it came back true."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads about is the point
        pid = os.fork()
    if pid == 0:
        status = 1
        try:
            status = 0 if work() else 2
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_threads_get_their_own_replies(server):
    """Threads that call at the same time never see each other's replies, and keep few sockets."""
    wrong = []
    with closing(connect(server.url)) as wire:

        def work(name):
            for number in range(CALLS):
                text = f"{name}-{number}".encode()
                if wire.call("ECHO", text) != text:
                    wrong.append(text)
                if number % 10 == 0 and wire.calls([("ECHO", text), ("PING",)]) != [text, b"PONG"]:
                    wrong.append(text)

        threads = [threading.Thread(target=work, args=(name,)) for name in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []
        clients = raw_call(server, "CLIENT", "LIST").count(b"\n")
        assert clients <= 17


def test_waiting_thread_does_not_hold_up_others(server):
    """A thread in a blocking read leaves the connection to the others."""
    with closing(connect(server.url)) as wire:
        got = []
        args = ("XREAD", "BLOCK", 20_000, "STREAMS", "stream", "$")
        thread = threading.Thread(target=lambda: got.append(wire.block(*args, block_ms=20_000)))
        thread.start()
        wait_until(lambda: b"blocked_clients:1" in raw_call(server, "INFO", "clients"), "no read waits")
        assert wire.call("PING") == b"PONG"
        wire.call("XADD", "stream", "1-1", "f", "v")
        thread.join()
        assert got == [[[b"stream", [[b"1-1", [b"f", b"v"]]]]]]


def test_forked_child_has_sockets_of_its_own(server):
    """Parent and children call at the same time, and all of them get their own replies."""
    with closing(connect(server.url)) as wire:
        mine = wire.call("CLIENT", "ID")

        def child():
            if wire.call("CLIENT", "ID") == mine:
                return False
            return all(wire.call("ECHO", n) == str(n).encode() for n in range(CALLS))

        results = []
        threads = [threading.Thread(target=lambda: results.append(in_child(child))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for number in range(CALLS):
            assert wire.call("ECHO", -number) == str(-number).encode()
        for thread in threads:
            thread.join()
        assert results == [True] * 4
        # The child's letting go did not end the parent's conversation.
        assert wire.call("CLIENT", "ID") == mine


def test_shared_socket_would_mix_replies(server):
    """Control: a bare socket is shared with a forked child, which can take the parent's reply from it."""
    with raw_socket(server) as bare:
        bare.sendall(b"*2\r\n$4\r\nECHO\r\n$6\r\nparent\r\n")
        assert in_child(lambda: bare.recv(100) == b"$6\r\nparent\r\n")
