"""How the project's server is, asked over net's own socket: one try, nothing is started, nothing waits for long."""

from __future__ import annotations

from contextlib import closing
from enum import Enum

from maestro_state.net.faults import ReplyError
from maestro_state.net.sync_socket import Link, open_link
from maestro_state.net.url import CLIENT_NAME, Address

__all__ = ["Answer", "Link", "ReplyError", "open_server", "ping", "read_info"]

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


def open_server(path: str, *, timeout_s: float | None = None, name: str = CLIENT_NAME) -> Link:
    """Connect to the server on a unix socket; raise OSError when it breaks, ReplyError for what it answers."""
    address = Address(scheme="unix", path=path, client_name=name)
    return open_link(address, ANSWER_S if timeout_s is None else timeout_s)


def ping(path: str) -> Answer:
    """Ask whoever listens on the socket how it is."""
    try:
        with closing(open_server(path)) as link:
            link.call("PING")
    except ReplyError as error:
        # Any other refusal (a script is running, say) comes from a server that is up.
        return Answer.LOADING if error.kind == "LOADING" else Answer.READY
    except (TimeoutError, BlockingIOError):
        return Answer.SILENT
    except OSError:
        return Answer.DOWN
    return Answer.READY


def read_info(reply: bytes) -> dict[str, str]:
    """Turn the reply to INFO into its fields."""
    lines = reply.decode(errors="replace").splitlines()
    pairs = (line.partition(":") for line in lines if ":" in line and not line.startswith("#"))
    return {name: value for name, _, value in pairs}
