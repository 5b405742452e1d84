"""The worker's line to the process it was forked from: it says whether it is free, and asks for environments."""

from __future__ import annotations

import os
import socket
from contextlib import suppress

from maestro_state.local.frames import Unpacked, packed

#: Seconds an answer may take; the process at the other end only hands on what it has.
_ANSWER_S = 30.0


class Channel:
    """One worker's end. Used by its main thread only."""

    def __init__(self, line: socket.socket, holder: str) -> None:
        self._line = line
        self._line.settimeout(_ANSWER_S)
        self.holder = holder
        self._unpacked = Unpacked()
        self._asked: tuple[bytes, bytes] | None = None

    def say_free(self) -> None:
        """Tell that this worker waits for a job."""
        self._say(b"free")

    def say_busy(self) -> None:
        """Tell that it has one."""
        self._say(b"busy")

    def say_over(self, session_id: str, run_id: str) -> None:
        """Tell that a run has ended: nobody needs its environment any more."""
        self._say(b"over", session_id.encode(), run_id.encode())

    def say_lacks(self, what: str) -> None:
        """Tell that a run asked for a folder or a program that is not here."""
        self._say(b"lacks", what.encode(errors="replace"))

    def ask(self, session_id: str, run_id: str) -> None:
        """Ask for the environment of a run ahead of time: the answer comes while there is other work."""
        self._asked = (session_id.encode(), run_id.encode())
        self._say(b"get", *self._asked)

    def environment(self, session_id: str, run_id: str) -> dict[str, str] | None:
        """Return the environment that was handed over for a run; None when it is not there."""
        name = (session_id.encode(), run_id.encode())
        if self._asked != name:
            self.ask(session_id, run_id)
        self._asked = None
        while True:
            try:
                data = self._line.recv(1 << 16)
            except OSError:
                return None
            if not data:
                return None
            # An answer to what was asked ahead and never needed is passed over.
            for word, *told in self._unpacked.feed(data):
                if tuple(told[:2]) == name:
                    return None if word != b"environment" else _variables(told[2:])

    def _say(self, *parts: bytes) -> None:
        with suppress(OSError):  # the other end is gone: so is this process, in a moment
            self._line.sendall(packed(*parts))


def _variables(told: list[bytes]) -> dict[str, str]:
    pairs = (variable.partition(b"=") for variable in told)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}
