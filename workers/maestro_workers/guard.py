"""Sees to it that nothing a tool started outlives its run, however the run or its worker ends.

A small process of its own starts the tools of one worker, one after the other, and adopts whatever they detach: so
everything a run started is below it. It ends all of that when it is told to, and when the line to the worker breaks,
because the worker was killed. If it is killed itself, the worker does the same.

Marks that a tool hands on to all it starts are the last resort: by them what is left of a run is found whose worker
and guard were both killed (`maestro_workers.orphans`).
"""

from __future__ import annotations

import errno
import os
import secrets
import select
import signal
import socket
import struct
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from weakref import ref

import msgspec

from maestro_state.local.process import adopt_orphans
from maestro_state.local.process_tree import below
from maestro_workers import orphans, process_ending

#: Longest time that a worker waits for the end of a tree, in seconds: less than its lease. What is killed and still
#: there is in the kernel's hands.
END_S = 2.0
#: The same when there is no worker that waits.
_ALONE_S = 60.0
#: An answer of the guard's: a byte for what happened, and a number.
_ANSWER = struct.Struct("=cq")
_STARTED, _NOT_STARTED, _EXITED, _ENDED = b"s", b"n", b"x", b"e"
#: What the worker asks for: start a tool (and a description follows), ask the tree to end, kill it, kill it and say so.
_START, _ASK, _KILL, _END = b"S", b"A", b"K", b"E"
_SIZE = struct.Struct("=I")


class GuardLost(Exception):
    """The guard was killed."""


class Guard:
    """The worker's end of the line."""

    def __init__(self, *, alone: bool = False) -> None:
        """Fork the process that starts tools; call this before there are threads.

        `alone` says that this process has no other children: then it adopts the children of a guard that is killed.
        """
        self._is_adopting = alone and adopt_orphans()
        self._fork()
        os.register_at_fork(after_in_child=partial(_let_go, ref(self)))

    def _fork(self) -> None:
        self._line, other = socket.socketpair()
        worker = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                self._line.close()
                _Keeper(other).serve()
            finally:
                os._exit(0)
        other.close()
        self._place = orphans.place(worker, self.pid)

    def start(self, argv: Sequence[str], folder: str, environment: Mapping[str, str], streams: Sequence[int]) -> int:
        """Start a tool with these three streams and return its pid; OSError when it cannot be started."""
        self._ensure_alive()
        self.mark = f"{self._place}.{secrets.token_hex(8)}"
        variables = {name: value for name, value in environment.items() if not _is_address(name)}
        variables[orphans.MARK] = self.mark
        request = msgspec.msgpack.encode(
            [[os.fsencode(word) for word in argv], os.fsencode(folder),
             {os.fsencode(name): os.fsencode(value) for name, value in variables.items()}]
        )  # fmt: skip
        try:
            socket.send_fds(self._line, [_START], streams)
            self._line.sendall(_SIZE.pack(len(request)) + request)
            kind, number = self._answer()
            while kind not in (_STARTED, _NOT_STARTED):
                kind, number = self._answer()  # the end of an earlier tool that took its time
        except (OSError, GuardLost) as error:
            raise OSError(errno.ECHILD, "the process that guards it was killed") from error
        if kind == _NOT_STARTED:
            raise OSError(number, os.strerror(number))
        return number

    def _ensure_alive(self) -> None:
        """Fork a guard anew if somebody killed the last one."""
        try:
            if self._line.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT):
                return
        except BlockingIOError:
            return
        except ConnectionError:
            pass
        self.close()
        self._fork()

    def fileno(self) -> int:
        """Return what is readable when the tool has ended, or the guard is gone."""
        return self._line.fileno()

    def exit_code(self) -> int:
        """Return how the tool ended, negative for a signal; waits for it. GuardLost when that cannot be known."""
        return self._answer()[1]

    def ask_to_end(self) -> None:
        """Ask everything the tool started to end."""
        self._say(_ASK)

    def kill(self) -> None:
        """Kill everything the tool started, and come back at once."""
        self._say(_KILL)

    def end(self) -> int:
        """Kill everything the tool started and wait until there is nothing left; return what could not be killed.

        A guard that was killed is replaced by what this process finds itself.
        """
        self._say(_END)
        try:
            while True:
                kind, number = self._answer()
                if kind == _ENDED:
                    return number
        except GuardLost:
            left = orphans.end_marked(self.mark)
            return process_ending.end_all(END_S)[1] if self._is_adopting else left

    def close(self) -> None:
        """End the guard; it ends what is still there."""
        self._line.close()
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)

    def _answer(self) -> tuple[bytes, int]:
        data = b""
        while len(data) < _ANSWER.size:
            try:
                part = self._line.recv(_ANSWER.size - len(data))
            except ConnectionError:
                part = b""
            if not part:
                raise GuardLost
            data += part
        kind, number = _ANSWER.unpack(data)
        return kind, number

    def _say(self, word: bytes) -> None:
        with suppress(OSError):  # it is gone: the next answer says so
            self._line.sendall(word)


def _let_go(guard: ref[Guard]) -> None:
    """Close the line in a forked child: one that kept it would hide from the guard that the worker died."""
    if (found := guard()) is not None:
        found._line.close()  # noqa: SLF001 - the other half of one thing


def _is_address(name: str) -> bool:
    """Say whether a variable is the address of one of Maestro's servers, with a password in it: no tool gets that."""
    return name.startswith("MAESTRO_") and name.endswith("_URL")


class _Keeper:
    """The guard's own process."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._leader: int | None = None

    def serve(self) -> None:
        """Start and end tools until the worker is gone."""
        self._settle()
        while True:
            readable, _, _ = select.select([self._line.fileno(), self._wake], [], [])
            if self._wake in readable:
                with suppress(BlockingIOError):
                    os.read(self._wake, 4096)
                self._note(process_ending.reap()[0])
            if self._line.fileno() in readable and not self._obey():
                return

    def _settle(self) -> None:
        os.setsid()  # what ends the worker's group must not end this too
        adopt_orphans()
        orphans.mark_by_limit()
        # Not ignored: what is ignored here would be ignored by every tool.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, lambda _number, _frame: None)
        devnull = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(devnull, descriptor)
        line = self._line.fileno()
        os.closerange(3, line)
        os.closerange(line + 1, min(os.sysconf("SC_OPEN_MAX"), 4096))
        self._wake, writer = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)

    def _obey(self) -> bool:
        """Do what the worker asks for next; False when it is gone."""
        try:
            # The streams of a tool come along with the first byte that asks for it.
            word, streams, _, _ = socket.recv_fds(self._line, 1, 3)
        except ConnectionError:
            word, streams = b"", []
        if word == _START:
            self._start(streams)
        elif word == _ASK:
            for process in below(os.getpid()):
                process_ending.send(process, signal.SIGTERM)
        elif word == _KILL:
            process_ending.kill(process_ending.freeze(os.getpid()))
        else:
            left = self._end(END_S if word == _END else _ALONE_S)
            self._tell(_ENDED, left)
        return bool(word)

    def _start(self, streams: list[int]) -> None:
        try:
            size = _SIZE.unpack(self._line.recv(_SIZE.size, socket.MSG_WAITALL))[0]
            request = self._line.recv(size, socket.MSG_WAITALL)
            argv, folder, environment = msgspec.msgpack.decode(request)
            stdin, stdout, stderr = streams
            process = subprocess.Popen(argv, stdin=stdin, stdout=stdout, stderr=stderr, cwd=folder, env=environment,
                                       start_new_session=True)  # fmt: skip
        except OSError as error:
            self._tell(_NOT_STARTED, error.errno or 0)
        except (msgspec.DecodeError, struct.error):
            return  # the worker was killed in the middle of it
        else:
            self._leader = process.pid
            process.returncode = 0  # collected below, with everything else that ends
            self._tell(_STARTED, process.pid)
        finally:
            for stream in streams:
                os.close(stream)

    def _end(self, within_s: float) -> int:
        """End everything; return how many processes are left."""
        if self._leader is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._leader, signal.SIGKILL)  # all there is where trees cannot be followed
        codes, left = process_ending.end_all(within_s)
        self._note(codes)
        return left

    def _note(self, codes: Mapping[int, int]) -> None:
        """Tell how the tool ended if it is among these."""
        if self._leader is not None and self._leader in codes:
            self._tell(_EXITED, codes[self._leader])
            self._leader = None

    def _tell(self, kind: bytes, number: int) -> None:
        with suppress(OSError):  # the worker is gone, of which the line tells next
            self._line.sendall(_ANSWER.pack(kind, number))
