"""Where the `maestro` program starts: a command that only reads is handed to the stack's resident process.

Nearly all of such a command is Python importing modules; the resident process has them already (`cli.resident`). It
gets the words, the environment and the terminal itself, and answers with the exit code. Whenever anything about that
is not plain, the command runs here instead: slower, with the same answer. This module imports next to nothing.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # typing's own takes as long to import as all the rest here
if TYPE_CHECKING:
    from _socket import socket
    from typing import NoReturn

#: Commands that ask nothing, change nothing and soon end. A test holds this table against the commands themselves.
READS = frozenset(
    {
        "context list",
        "context show",
        "messages",
        "runs",
        "session get",
        "session list",
        "session status",
        "show",
        "status",
        "wsession breadcrumbs",
        "wsession list",
        "wsession show",
        "wsession stats",
        "wsession timeline",
        "wsession tree",
    }
)

#: Where the resident process listens, below the project's top folder.
SOCKET = os.path.join(".maestro", "server", "r.sock")

#: Longest path of a socket that every system takes, in bytes; a project deeper down does without.
_MAX_SOCKET_BYTES = 100
#: Seconds to wait for the resident process to take the command.
_PATIENCE_S = 1.0


def main() -> NoReturn:
    """Run one command line and leave with its exit code."""
    words = sys.argv[1:]
    try:
        code = _hand_over(words) if _is_read(words) else None
        if code is None:
            from cli.main import run

            code = run(words)
    except KeyboardInterrupt:
        code = 130  # before there was anything to interrupt: Python was importing
    sys.exit(code)


def _is_read(words: list[str]) -> bool:
    if words[:1] == ["--session"]:
        words = words[2:]
    return " ".join(words[:1]) in READS or " ".join(words[:2]) in READS


def _hand_over(words: list[str]) -> int | None:
    """Have the resident process run a command; None when there is none, or it does not take it."""
    if os.environ.get("MAESTRO_DEBUG"):
        return None
    path = _socket_path()
    if path is None:
        return None
    # The module that `socket` is built on: enum and selectors, which it adds, take longer than the whole exchange.
    import _socket

    line = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        if line.fileno() <= 2:
            return None  # one of the streams is closed, and this took its place
        line.settimeout(_PATIENCE_S)
        line.connect(path)
        # The environment holds secrets: nobody but this user gets it.
        if peer(line.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)) != os.geteuid():
            return None
        # It speaks first: handed to a process that is stopped, our streams would stay open for as long as it is.
        if line.recv(4, _socket.MSG_WAITALL) != installation():
            return None  # another version, or on its way out
        streams = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
        request = _request(words)
        line.sendmsg([len(request).to_bytes(4, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
        line.sendall(request)
        line.settimeout(None)
        return _await_end(line)
    except (OSError, AttributeError):
        return None  # nobody there, not taken in time, or a system that cannot tell who listens
    finally:
        line.close()


def peer(credentials: bytes) -> int:
    """Return the user at the other end, from what the kernel says: process, user, group."""
    return int.from_bytes(credentials[4:8], sys.byteorder)


def _await_end(line: socket) -> int:
    """Wait for the exit code; what interrupts this process is passed on to the one that runs the command."""
    while True:
        try:
            code = line.recv(1)
        except KeyboardInterrupt:
            _pass_on(line)
            continue
        except OSError:
            code = b""
        if not code:
            sys.stderr.write("maestro: the process that ran this ended in the middle of it \u2192 run it again\n")
            return 1
        return code[0]


def _pass_on(line: socket) -> None:
    try:
        line.send(b"!")
    except OSError:
        return  # it has just ended: the exit code is on its way


def _socket_path() -> str | None:
    """Return the socket of the project this folder belongs to, if it is in a folder that is this user's alone."""
    try:
        folder = os.getcwd()
        while not os.path.lexists(os.path.join(folder, ".maestro")):
            folder, below = os.path.dirname(folder), folder
            if folder == below:
                return None
        path = os.path.join(folder, SOCKET)
        inner = os.lstat(os.path.dirname(path))
        outer = os.lstat(os.path.join(folder, ".maestro"))
    except OSError:
        return None
    is_private = inner.st_mode & 0o170777 == 0o040700 and inner.st_uid == os.geteuid()
    is_folder = outer.st_mode & 0o170000 == 0o040000
    return path if is_private and is_folder and len(os.fsencode(path)) <= _MAX_SOCKET_BYTES else None


def _request(words: list[str]) -> bytes:
    """Say all that the command would know here: where it is, what it was told, how its streams write."""
    streams = [sys.stdout.encoding, sys.stdout.errors, sys.stderr.encoding, sys.stderr.errors]
    parts = [*(os.fsencode(text or "") for text in streams), os.getcwdb(), b"%d" % len(words)]
    environment = [name + b"=" + value for name, value in os.environb.items()]
    # No part can hold a NUL: the kernel ends each of them with one.
    return b"\0".join([*parts, *map(os.fsencode, words), *environment])


def installation() -> bytes:
    """Return four bytes that both sides have in common when they are the same interpreter and the same package."""
    import binascii

    return binascii.crc32(f"{sys.version}\0{__file__}".encode()).to_bytes(4, "big")
