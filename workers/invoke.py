"""Run one tool as a child process: no shell, a process group of its own, exact bytes, and nothing left behind.

One loop feeds stdin, reads stdout and stderr, keeps time and listens for a reason to stop; memory is bounded by the
pieces it hands on. When the tool itself has ended, what it started gets a moment to finish writing, then is killed.
"""

from __future__ import annotations

import fcntl
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, Self

from workers.guard import Guard, bound_to_parent

#: Output is handed on in pieces of at most this many bytes,
PIECE_BYTES = 512 * 1024
#: and at most once in so many seconds: a million short lines are not a million pieces, one line comes at once.
PIECE_S = 0.02
#: How long a tool that was asked to end may take, in seconds.
GRACE_S = 2.0
#: How long what a tool started may go on writing after the tool itself has ended, in seconds.
DRAIN_S = 0.5
#: How much of stderr's end is kept.
STDERR_BYTES = 8192
#: Size asked for the pipe of stdout: the tool is held up less often.
_PIPE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Finished:
    """How a call of a tool ended."""

    #: None when it was killed by a signal.
    exit_code: int | None
    #: Why it was stopped; None when it ended by itself.
    stopped: str | None
    stderr: bytes


@dataclass(frozen=True, slots=True)
class Invocation:
    """One call of a tool: what to execute, and whom to tell."""

    argv: Sequence[str]
    stdin: bytes
    folder: str
    environment: Mapping[str, str]
    timeout_s: float
    #: Takes a piece of stdout; returns why to stop, or None.
    on_output: Callable[[bytes], str | None]
    #: Called at least every `beat_s`; returns why to stop, or None.
    on_beat: Callable[[], str | None]
    beat_s: float
    guard: Guard | None = None
    on_stderr: Callable[[bytes], None] = field(default=lambda _: None)
    grace_s: float = GRACE_S


def invoke(call: Invocation) -> Finished:
    """Run a tool to its end; OSError when it cannot be started."""
    process, stdin = _start(call)
    try:
        with selectors.DefaultSelector() as selector, _Exit(process.pid) as exits:
            attendant = _Attendant(call, process, stdin, selector, exits)
            attendant.attend()
    finally:
        # Also when we are interrupted: the tool is ended with everything it started. The leader is not reaped
        # before its group was killed, so the group's number cannot be anybody else's yet.
        _signal_group(process.pid, signal.SIGKILL)
        process.wait()
        if call.guard is not None:
            call.guard.forget(process.pid)
        for stream in (stdin, process.stdout, process.stderr):
            with suppress(OSError):
                stream.close()  # type: ignore[union-attr]
    code = process.returncode
    return Finished(code if code >= 0 else None, attendant.stopped, attendant.tail)


def _start(call: Invocation) -> tuple[subprocess.Popen[bytes], IO[bytes]]:
    """Start the tool; return it and its standard input."""
    reader, writer = os.pipe()
    stdin = os.fdopen(writer, "wb", buffering=0)
    try:
        if call.guard is not None:
            call.guard.expect(writer)
        process = subprocess.Popen(
            list(call.argv),
            stdin=reader,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=call.folder,
            env=dict(call.environment),
            start_new_session=True,
            # With a function to call in the child Python has to copy the whole worker's memory map to start one: 17 ms
            # instead of 1. The guard does the same from outside.
            preexec_fn=None if call.guard is not None else bound_to_parent(),
        )
    except BaseException:
        stdin.close()
        if call.guard is not None:
            call.guard.expect_nothing()
        raise
    finally:
        os.close(reader)
    if call.guard is not None:
        call.guard.watch(process.pid)
    return process, stdin


class _Attendant:
    """The loop around one child."""

    def __init__(
        self,
        call: Invocation,
        process: subprocess.Popen[bytes],
        stdin: IO[bytes],
        selector: selectors.BaseSelector,
        exits: _Exit,
    ) -> None:
        self.call = call
        self.selector = selector
        self.exits = exits
        self.group = process.pid
        self.stopped: str | None = None
        self.tail = b""
        now = time.monotonic()
        self.ends_at = now + call.timeout_s
        self.beat_at = now + call.beat_s
        self.kill_at: float | None = None
        self.left_at: float | None = None
        self.pieces: list[bytes] = []
        self.size = 0
        self.handed_at = 0.0
        self.unsent = memoryview(call.stdin)
        assert process.stdout and process.stderr  # noqa: S101, PT018 - asked for as pipes
        self.stdin, self.out, self.err = stdin, process.stdout.fileno(), process.stderr.fileno()
        self.reading = True
        _enlarge(self.out)

    def attend(self) -> None:
        """Serve the child until it and its output have ended."""
        self.selector.register(self.out, selectors.EVENT_READ, self._read)
        self.selector.register(self.err, selectors.EVENT_READ, self._read_stderr)
        if self.exits.descriptor is not None:
            self.selector.register(self.exits.descriptor, selectors.EVENT_READ, self._nothing)
        if self.unsent:
            os.set_blocking(self.stdin.fileno(), False)
            self.selector.register(self.stdin.fileno(), selectors.EVENT_WRITE, self._write)
        else:
            self.stdin.close()
        while not self._is_over(time.monotonic()):
            self._keep_time()
            for key, _ in self.selector.select(self._pause_s()):
                key.data()
            self._hand_on(final=False)
        self._hand_on(final=True)
        while _readable(self.err) and self._read_stderr():
            pass

    def _is_over(self, now: float) -> bool:
        if self.left_at is None and self.exits.happened():
            self.left_at = now
            if self.exits.descriptor is not None:
                self.selector.unregister(self.exits.descriptor)
        return self.left_at is not None and (not self.reading or now >= self.left_at + DRAIN_S)

    def _keep_time(self) -> None:
        """Do what is due: force, the timeout, the beat."""
        now = time.monotonic()
        if self.kill_at is not None and now >= self.kill_at:
            _signal_group(self.group, signal.SIGKILL)
            self.kill_at = None
        if now >= self.ends_at:
            self._take("timeout")
        if now >= self.beat_at:
            self._take(self.call.on_beat())
            self.beat_at = time.monotonic() + self.call.beat_s

    def _pause_s(self) -> float:
        moments = [self.beat_at]
        if self.left_at is not None:
            moments.append(self.left_at + DRAIN_S)
        elif self.stopped is None:
            moments.append(self.ends_at)
        if self.pieces:
            moments.append(self.handed_at + PIECE_S)
        if self.kill_at is not None:
            moments.append(self.kill_at)
        pause_s = max(0.0, min(moments) - time.monotonic())
        return pause_s if self.exits.descriptor is not None else min(pause_s, 0.05)

    def _nothing(self) -> bool:
        return True  # the end of the child is looked at in `_is_over`

    def _read(self) -> bool:
        data = os.read(self.out, PIECE_BYTES - self.size)
        if not data:
            self.reading = False
            self.selector.unregister(self.out)
            return False
        self.pieces.append(data)
        self.size += len(data)
        if self.size == PIECE_BYTES:
            self._hand_on(final=True)
        return True

    def _hand_on(self, *, final: bool) -> None:
        """Hand on what there is, if it is a whole piece or the last, or nothing was handed on just before."""
        if not self.pieces or (not final and time.monotonic() < self.handed_at + PIECE_S):
            return
        data = self.pieces[0] if len(self.pieces) == 1 else b"".join(self.pieces)
        self.pieces, self.size = [], 0
        self.handed_at = time.monotonic()
        self._take(self.call.on_output(data))

    def _read_stderr(self) -> bool:
        data = os.read(self.err, PIECE_BYTES)
        if data:
            self.call.on_stderr(data)
            self.tail = (self.tail + data)[-STDERR_BYTES:]
        elif self.err in self.selector.get_map():
            self.selector.unregister(self.err)
        return bool(data)

    def _write(self) -> None:
        descriptor = self.stdin.fileno()
        try:
            self.unsent = self.unsent[os.write(descriptor, self.unsent[:PIECE_BYTES]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self.unsent = self.unsent[:0]  # a tool need not read what it is given
        if not self.unsent:
            self.selector.unregister(descriptor)
            self.stdin.close()

    def _take(self, reason: str | None) -> None:
        """Ask the whole group to end if there is a reason, and remember when to make it."""
        if reason is None or self.stopped is not None:
            return
        self.stopped = reason
        _signal_group(self.group, signal.SIGTERM)
        self.kill_at = time.monotonic() + self.call.grace_s


class _Exit:
    """Tells when a child has ended, without reaping it: while it is a zombie its number stays its own."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.descriptor: int | None = None

    def __enter__(self) -> Self:
        if hasattr(os, "pidfd_open"):
            with suppress(OSError):  # an old kernel: looking now and then does it too
                self.descriptor = os.pidfd_open(self._pid)
        return self

    def __exit__(self, *_: object) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)

    def happened(self) -> bool:
        return os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _readable(descriptor: int) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        return bool(selector.select(0))


def _enlarge(pipe: int) -> None:
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with suppress(OSError):  # a limit of the system's: the usual size does, a little slower
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)


def _signal_group(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
