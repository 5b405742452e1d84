"""A process that looks after others goes on where the machine has no more processes, open files or room."""

from __future__ import annotations

import os
import resource
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from maestro_workers.pool.environments import Environments
from maestro_workers.pool.listener import Listener
from maestro_workers.pool.loop import Loop
from maestro_workers.stack import sweeps
from maestro_workers.stack.sweeps import Sweeps

from maestro_state.fs.private_socket import connect
from maestro_state.local.frames import packed


@pytest.fixture
def loop() -> Iterator[Loop]:
    """Return a loop; signals are heard as before afterwards."""
    numbers = (*Loop.STOP, signal.SIGCHLD)
    before = [signal.getsignal(number) for number in numbers]
    with Loop(lambda: None) as found:
        yield found
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


def test_a_sweep_that_cannot_be_forked_is_tried_again(tmp_path: Path, loop: Loop, monkeypatch: pytest.MonkeyPatch):
    """Without a process for it now the supervisor goes on, and comes back."""
    tried = []

    def fork(_: object) -> int:
        tried.append(1)
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(sweeps, "fork", fork)
    parts = Sweeps(tmp_path, loop, lambda _: None)
    again_s = parts.tend(1000.0)
    assert tried == [1]
    parts.tend(1000.0 + again_s)
    assert tried == [1, 1]


def test_a_caller_waits_while_no_more_files_can_be_open(tmp_path: Path, loop: Loop):
    """It is answered when they can."""
    held = Environments()
    listener = Listener(loop, held, "key", lambda: None)
    folder = os.open(tmp_path, os.O_RDONLY)
    tmp_path.chmod(0o700)
    listener.open(folder)
    (name,) = os.listdir(tmp_path)
    with connect(folder, name, timeout_s=30) as line:
        line.sendall(packed(b"hand", b"s", b"0001", b"A=b"))
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        lowest = os.dup(folder)
        os.close(lowest)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
        try:
            with pytest.raises(OSError, match="Too many open files"):
                socket.socket()
            loop.wait(0)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert held.names() == []
        for _ in range(2):  # accepted, then heard
            loop.wait(30)
        assert held.names() == [("s", "0001")]
    listener.close()
    os.close(folder)
