"""Sees to it that no tool outlives its worker, however the worker dies.

A small process of its own waits on a pipe that closes when the worker is gone, and then kills the process groups the
worker had open. A tool that is just being started has no known group yet: it is found by the pipe it was given.
Without a guard the kernel kills a worker's direct child with it (where it can), but not what that child started.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress

_PR_SET_PDEATHSIG = 1


class Guard:
    """The worker's end of the pipe."""

    def __init__(self) -> None:
        """Fork the process that waits; call this before there are threads."""
        self._fork()

    def _fork(self) -> None:
        reader, writer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(writer)
                _wait(reader)
            finally:
                os._exit(0)
        os.close(reader)
        self._writer: int | None = writer

    def expect(self, pipe: int) -> None:
        """Have killed what holds the other end of this pipe, until `watch` names its group; call it before threads."""
        line = f"?{os.fstat(pipe).st_ino}\n"
        if not self._say(line):
            with suppress(ChildProcessError):
                os.waitpid(self.pid, 0)
            self._fork()
            self._say(line)

    def expect_nothing(self) -> None:
        """Nothing was started: the pipe's number may soon be another's."""
        self._say("-0\n")

    def watch(self, group: int) -> None:
        """Have this group killed when the worker dies."""
        self._say(f"+{group}\n")

    def forget(self, group: int) -> None:
        """The group is gone: its number may soon be somebody else's."""
        self._say(f"-{group}\n")

    def close(self) -> None:
        """Let the other process go; it kills what is still open."""
        self.expect_nothing()  # whoever closes is alive, and holds the pipe itself
        if self._writer is not None:
            os.close(self._writer)
            self._writer = None
            os.waitpid(self.pid, 0)

    def _say(self, line: str) -> bool:
        """Tell the other process; False when somebody killed it."""
        if self._writer is not None:
            try:
                os.write(self._writer, line.encode())
            except BrokenPipeError:
                os.close(self._writer)
                self._writer = None
                return False
        return True


def _wait(reader: int) -> None:
    """Wait until the worker is gone, then kill what it left."""
    os.setsid()  # what ends the worker's group must not end this too
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    devnull = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(devnull, descriptor)
    os.closerange(3, reader)
    os.closerange(reader + 1, os.sysconf("SC_OPEN_MAX") if os.sysconf("SC_OPEN_MAX") < 4096 else 4096)
    open_groups: set[int] = set()
    expected: int | None = None
    rest = b""
    while data := os.read(reader, 4096):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            named = int(line[1:])
            expected = named if line[:1] == b"?" else None
            if expected is None:
                (open_groups.add if line[:1] == b"+" else open_groups.discard)(named)
    for group in open_groups:
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
    if expected is not None:
        _kill_holders(f"pipe:[{expected}]")


def _kill_holders(pipe: str) -> None:
    """Kill what holds a pipe: a tool that was being started when its worker died. Where /proc tells."""
    with suppress(FileNotFoundError):
        for name in os.listdir("/proc"):
            # Gone meanwhile, or another user's, who cannot have it.
            with suppress(ValueError, OSError):
                if _holds(int(name), pipe):
                    os.kill(int(name), signal.SIGKILL)


def _holds(pid: int, pipe: str) -> bool:
    folder = f"/proc/{pid}/fd"
    for descriptor in os.listdir(folder):
        with suppress(FileNotFoundError):  # closed meanwhile: others are still to be looked at
            if os.readlink(f"{folder}/{descriptor}") == pipe:
                return True
    return False


def bound_to_parent() -> Callable[[], None] | None:
    """Return what a child has to do first so that it is killed when this process dies, where that exists."""
    if sys.platform != "linux":
        return None
    # Loaded here: between fork and exec nothing may be imported.
    prctl = ctypes.CDLL(None).prctl
    parent = os.getpid()

    def bind() -> None:
        prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)  # it died before the line above; nobody will tell us

    return bind
