"""The few words of the server's protocol that looking after it needs, over a bare socket.

Not a client: starting, asking and stopping must work before a client library is worth its import.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Self

from maestro_state.net.private_socket import connect_path

if TYPE_CHECKING:
    from types import TracebackType

#: How long one answer may take, in seconds; a server busy with a script answers late, not never.
ANSWER_S = 2.0


class Answer(Enum):
    """What a server says to PING."""

    #: Nobody listens: no socket, or one left over.
    DOWN = "down"
    #: Somebody listens and reads its data from disk.
    LOADING = "loading"
    #: Somebody listens and says nothing in time.
    SILENT = "silent"
    #: It takes commands.
    READY = "ready"


class WireError(Exception):
    """The server answered with an error; the text is the server's."""


class Wire:
    """One connection to the server on a unix socket. Raises OSError when it breaks."""

    def __init__(self, path: str, *, timeout_s: float | None = None) -> None:
        """Connect at once."""
        self._socket = connect_path(path, timeout_s=ANSWER_S if timeout_s is None else timeout_s)
        self._replies = self._socket.makefile("rb")

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        self.close()

    def close(self) -> None:
        """Close the connection; repeatable."""
        self._replies.close()
        self._socket.close()

    def call(self, *words: str) -> str:
        """Send one command and return its answer as text; raise WireError for an error of the server's."""
        parts = [word.encode() for word in words]
        request = b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts)
        self._socket.sendall(request)
        line = self._replies.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionResetError("the server closed the connection")
        kind, rest = line[:1], line[1:-2].decode(errors="replace")
        if kind == b"-":
            raise WireError(rest)
        if kind != b"$":
            return rest
        body = self._replies.read(int(rest) + 2)
        if len(body) != int(rest) + 2:
            raise ConnectionResetError("the server closed the connection")
        return body[:-2].decode(errors="replace")


def ping(path: str) -> Answer:
    """Ask whoever listens on the socket how it is."""
    try:
        with Wire(path) as wire:
            wire.call("PING")
    except WireError as error:
        # Any other refusal (a script is running, say) comes from a server that is up.
        return Answer.LOADING if str(error).startswith("LOADING") else Answer.READY
    except (TimeoutError, BlockingIOError):
        return Answer.SILENT
    except OSError:
        return Answer.DOWN
    return Answer.READY


def read_info(text: str) -> dict[str, str]:
    """Turn the text of INFO into its fields."""
    pairs = (line.partition(":") for line in text.splitlines() if ":" in line and not line.startswith("#"))
    return {name: value for name, _, value in pairs}
