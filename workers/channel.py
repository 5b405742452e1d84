"""The worker's line to the process it was forked from: it says whether it is free, and asks for environments."""

from __future__ import annotations

import os
import socket
from contextlib import suppress

from maestro_state.frames import Unpacked, packed

#: Seconds an answer may take; the process at the other end only hands on what it has.
_ANSWER_S = 30.0


class Channel:
    """One worker's end. Used by its main thread only."""

    def __init__(self, line: socket.socket, holder: str) -> None:
        """Take the connected socket, and the name under which runs say that their environment is at the other end."""
        self._line = line
        self._line.settimeout(_ANSWER_S)
        self.holder = holder

    def say_free(self) -> None:
        """Tell that this worker waits for a job."""
        self._say(b"free")

    def say_busy(self) -> None:
        """Tell that it has one."""
        self._say(b"busy")

    def say_over(self, session_id: str, run_id: str) -> None:
        """Tell that a run has ended: nobody needs its environment any more."""
        self._say(b"over", session_id.encode(), run_id.encode())

    def environment(self, session_id: str, run_id: str) -> dict[str, str] | None:
        """Return the environment that was handed over for a run; None when it is not there."""
        self._say(b"get", session_id.encode(), run_id.encode())
        found = Unpacked()
        messages: list[list[bytes]] = []
        while not messages:
            try:
                data = self._line.recv(1 << 16)
            except OSError:
                return None
            if not data:
                return None
            messages = found.feed(data)
        word, *variables = messages[0]
        if word != b"environment":
            return None
        pairs = (variable.partition(b"=") for variable in variables)
        return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}

    def _say(self, *parts: bytes) -> None:
        with suppress(OSError):  # the other end is gone: so is this process, in a moment
            self._line.sendall(packed(*parts))
