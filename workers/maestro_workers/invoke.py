"""Run one tool as a process: no shell, a session of its own, exact bytes, and nothing left behind.

The guard starts it. One loop feeds stdin, reads stdout and stderr, keeps time and listens for a reason to stop; memory
is bounded by the pieces it hands on. When the tool itself has ended, what it started gets a moment to finish writing,
then is killed, in whatever groups and sessions it is.
"""

from __future__ import annotations

import fcntl
import os
import selectors
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from typing import Self

from maestro_workers.guard import Guard, GuardLost

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
    if call.guard is None:
        with closing(Guard()) as guard:
            return invoke(replace(call, guard=guard))
    with _Streams() as streams, selectors.DefaultSelector() as selector:
        call.guard.start(call.argv, call.folder, call.environment, streams.theirs)
        try:
            streams.close_theirs()
            attendant = _Attendant(call, call.guard, streams, selector)
            attendant.attend()
        finally:
            # Also when we are interrupted: the tool is ended with everything it started.
            call.guard.end()
    code = attendant.exit_code
    return Finished(code if code is not None and code >= 0 else None, attendant.stopped, attendant.tail)


class _Streams:
    """The three pipes of a tool: our ends and its own."""

    def __init__(self) -> None:
        stdin, self.stdin = os.pipe()
        self.out, stdout = os.pipe()
        self.err, stderr = os.pipe()
        self.theirs = [stdin, stdout, stderr]
        self._ours = {self.stdin, self.out, self.err}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close_theirs()
        while self._ours:
            os.close(self._ours.pop())

    def close_theirs(self) -> None:
        """Close the tool's ends: they are to be closed when it has ended."""
        while self.theirs:
            os.close(self.theirs.pop())

    def close_stdin(self) -> None:
        """Tell the tool that there is no more."""
        self._ours.remove(self.stdin)
        os.close(self.stdin)


class _Attendant:
    """The loop around one child."""

    def __init__(
        self,
        call: Invocation,
        guard: Guard,
        streams: _Streams,
        selector: selectors.BaseSelector,
    ) -> None:
        self.call = call
        self.guard = guard
        self.streams = streams
        self.selector = selector
        self.exit_code: int | None = None
        self.stopped: str | None = None
        self.tail = b""
        now = time.monotonic()
        self.ends_at = now + call.timeout_s
        self.beat_at = now + call.beat_s
        self.kill_at: float | None = None
        self.exited_at: float | None = None
        self.pieces: list[bytes] = []
        self.size = 0
        self.sent_at = 0.0
        self.unsent = memoryview(call.stdin)
        self.out, self.err = streams.out, streams.err
        self.reading = True
        _enlarge(self.out)

    def attend(self) -> None:
        """Serve the child until it and its output have ended."""
        self.selector.register(self.out, selectors.EVENT_READ, self._read)
        self.selector.register(self.err, selectors.EVENT_READ, self._read_stderr)
        self.selector.register(self.guard, selectors.EVENT_READ, self._note_exit)
        if self.unsent:
            os.set_blocking(self.streams.stdin, False)
            self.selector.register(self.streams.stdin, selectors.EVENT_WRITE, self._write)
        else:
            self.streams.close_stdin()
        while not self._is_over(time.monotonic()):
            self._keep_time()
            for key, _ in self.selector.select(self._pause_s()):
                key.data()
            self._hand_on(final=False)
        self._hand_on(final=True)
        while _readable(self.err) and self._read_stderr():
            pass

    def _is_over(self, now: float) -> bool:
        return self.exited_at is not None and (not self.reading or now >= self.exited_at + DRAIN_S)

    def _keep_time(self) -> None:
        """Do what is due: force, the timeout, the beat."""
        now = time.monotonic()
        if self.kill_at is not None and now >= self.kill_at:
            self.guard.kill()
            self.kill_at = None
        if now >= self.ends_at:
            self._take("timeout")
        if now >= self.beat_at:
            self._take(self.call.on_beat())
            self.beat_at = time.monotonic() + self.call.beat_s

    def _pause_s(self) -> float:
        moments = [self.beat_at]
        if self.exited_at is not None:
            moments.append(self.exited_at + DRAIN_S)
        elif self.stopped is None:
            moments.append(self.ends_at)
        if self.pieces:
            moments.append(self.sent_at + PIECE_S)
        if self.kill_at is not None:
            moments.append(self.kill_at)
        return max(0.0, min(moments) - time.monotonic())

    def _note_exit(self) -> None:
        self.selector.unregister(self.guard)
        self.exited_at = time.monotonic()
        try:
            self.exit_code = self.guard.exit_code()
        except GuardLost:
            self.stopped = self.stopped or "unguarded"
            self.guard.end()

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
        if not self.pieces or (not final and time.monotonic() < self.sent_at + PIECE_S):
            return
        data = self.pieces[0] if len(self.pieces) == 1 else b"".join(self.pieces)
        self.pieces, self.size = [], 0
        self.sent_at = time.monotonic()
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
        descriptor = self.streams.stdin
        try:
            self.unsent = self.unsent[os.write(descriptor, self.unsent[:PIECE_BYTES]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self.unsent = self.unsent[:0]  # a tool need not read what it is given
        if not self.unsent:
            self.selector.unregister(descriptor)
            self.streams.close_stdin()

    def _take(self, reason: str | None) -> None:
        """Ask everything the tool started to end if there is a reason, and remember when to make it."""
        if reason is None or self.stopped is not None:
            return
        self.stopped = reason
        self.guard.ask_to_end()
        self.kill_at = time.monotonic() + self.call.grace_s


def _readable(descriptor: int) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        return bool(selector.select(0))


def _enlarge(pipe: int) -> None:
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with suppress(OSError):  # a limit of the system's: the usual size does, a little slower
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
