"""Where asking terminals hand over the environment of a run, before they ask for it: a socket of this user's alone."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from maestro_state.local.frames import Unpacked, packed
from maestro_state.local.handover import is_own, listen_as, unlist
from maestro_workers.pool.environments import Environments
from maestro_workers.pool.loop import Loop

#: Seconds a caller may take to say what it wants, and how many may be about it at once.
_TIMEOUT_S = 30.0
_MAX_CALLERS = 512


@dataclass(slots=True)
class _Caller:
    line: socket.socket
    since_s: float
    unpacked: Unpacked = field(default_factory=Unpacked)


class Listener:
    """The listening side of `maestro_state.local.handover`."""

    def __init__(self, loop: Loop, environments: Environments, key: str, on_call: Callable[[], None]) -> None:
        self._loop = loop
        self._environments = environments
        self._on_call = on_call
        self._key = key
        #: The name under which runs say that their environment is here. A new process is another holder.
        self.holder = os.urandom(4).hex()
        self._callers: dict[int, _Caller] = {}
        self._listener: socket.socket | None = None
        self._folder: int | None = None

    def open(self, folder: int) -> None:
        """Listen in an open folder, which is kept; names that nobody listens at any more are removed."""
        self._folder = os.dup(folder)
        self._listener = listen_as(folder, self._key, self.holder)
        self._loop.add(self._listener, self._accept)

    def close(self) -> None:
        """Listen no more."""
        for caller in list(self._callers.values()):
            self._drop(caller)
        if self._listener is not None and self._folder is not None:
            unlist(self._folder, self._key, self.holder)
            self._loop.drop(self._listener)
            os.close(self._folder)
            self._listener = self._folder = None

    def tend(self, now_s: float) -> None:
        """Drop callers that say nothing."""
        for caller in list(self._callers.values()):
            if now_s - caller.since_s > _TIMEOUT_S:
                self._drop(caller)

    def _accept(self) -> None:
        assert self._listener is not None  # noqa: S101  # called only while it is open
        while True:
            try:
                line, _ = self._listener.accept()
            except OSError:
                return  # nobody waits any more; or no more files can be open, and callers that are silent go first
            if not is_own(line) or len(self._callers) >= _MAX_CALLERS:
                line.close()
                continue
            line.setblocking(False)
            caller = _Caller(line, time.monotonic())
            self._callers[line.fileno()] = caller
            self._loop.add(line, lambda caller=caller: self._hear(caller))  # type: ignore[misc]

    def _hear(self, caller: _Caller) -> None:
        try:
            data = caller.line.recv(1 << 16)
            messages = caller.unpacked.feed(data)
        except BlockingIOError:
            return
        except (OSError, ValueError):
            data, messages = b"", []
        if not data:
            self._drop(caller)
            return
        for message in messages:
            self._take(caller, message)

    def _take(self, caller: _Caller, message: list[bytes]) -> None:
        answer = b"refused"
        match message:
            case [b"hand", session_id, run_id, *variables]:
                name = session_id.decode(errors="replace"), run_id.decode(errors="replace")
                answer = b"taken" if self._environments.put(name, variables) else b"full"
        with suppress(OSError):  # the caller is gone
            caller.line.sendall(packed(answer))
        if answer == b"taken":
            self._on_call()

    def _drop(self, caller: _Caller) -> None:
        self._callers.pop(caller.line.fileno(), None)
        self._loop.drop(caller.line)
