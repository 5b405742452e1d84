"""The socket that a server of ours listens on: taken before anything else is done; and who connects to it."""

from __future__ import annotations

import socket
from contextlib import suppress
from itertools import islice

from maestro_state.errors import UsageError


def listen(host: str, port: int) -> socket.socket:
    """Take the address; UsageError when it cannot be had."""
    # By name of its protocol: else asyncio does not know that it is TCP, and each answer waits for the last one's echo.
    line = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    line.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        line.bind((host, port))
    except OSError as error:
        line.close()
        raise UsageError(f"cannot listen on {host}:{port}: {error.strerror}", hint="choose another --port") from None
    line.listen(2048)
    line.setblocking(False)
    return line


#: Where Linux tells whose connections are.
_CONNECTIONS = ("/proc/net/tcp", "/proc/net/tcp6")


def users_between(port: int, other: int) -> set[int]:
    """Return the users of this machine who connect from a port to another one; none where the system does not tell."""
    found = set()
    for name in _CONNECTIONS:
        with suppress(OSError), open(name, encoding="ascii") as table:
            for row in islice(table, 1, None):
                said = row.split()
                ports = [int(end.rpartition(":")[2], 16) for end in said[1:3]]
                if ports == [port, other]:
                    found.add(int(said[7]))
    return found
