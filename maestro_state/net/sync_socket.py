"""One blocking socket that speaks RESP2: write bytes, read replies.

Knows nothing of retries or pools. Replies are raw: bytes, int, list, None, and ReplyError in the place of an
error.
"""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING, Any, Final

from hiredis import ProtocolError, Reader, pack_command

from maestro_state.fs.private_socket import connect_path
from maestro_state.net.faults import AnswerLateError, ConnectionLostError, ReplyError
from maestro_state.net.handshake import check_greeting, greeting

if TYPE_CHECKING:
    import ssl
    from collections.abc import Sequence

    from maestro_state.net.url import Address

#: Bytes asked for first: more than nearly every reply has, little enough to be allocated at no cost.
_FIRST_READ: Final = 16 * 1024
#: Bytes asked for while a large reply is coming in.
_NEXT_READ: Final = 256 * 1024
#: Parts that one write of the kernel's takes.
_PARTS_MAX: Final = 512


class Link:
    """One open connection; not thread-safe, and closed by any exception."""

    __slots__ = ("_feed", "_gets", "_recv", "_sendall", "_socket", "_timeout_s")

    def __init__(self, connected: socket.socket, timeout_s: float) -> None:
        reader = Reader(replyError=ReplyError)
        self._socket = connected
        self._feed = reader.feed
        self._gets = reader.gets
        self._recv = connected.recv
        self._sendall = connected.sendall
        self._timeout_s = 0.0
        self.limit(timeout_s)

    def limit(self, timeout_s: float) -> None:
        """Set how long one read or write may take, in seconds; 0 is without limit."""
        if timeout_s == self._timeout_s:
            return
        self._timeout_s = timeout_s
        if hasattr(self._socket, "context"):
            # TLS retries a read that the kernel gave up, for ever; only Python's own timeout ends it.
            self._socket.settimeout(timeout_s or None)
            return
        # The kernel's timeout costs nothing per call; Python's adds a poll() to every read and write.
        seconds = int(timeout_s)
        limit = struct.pack("ll", seconds, int((timeout_s - seconds) * 1_000_000))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)

    def ask(self, packed: bytes) -> Any:
        """Send one packed command and return its reply."""
        try:
            self._sendall(packed)
            data = self._recv(_FIRST_READ)
            if not data:
                raise ConnectionLostError
            self._feed(data)
            reply = self._gets()
            return self._rest(_NEXT_READ) if reply is False else reply
        except BaseException as error:
            self._fail(error)
            raise

    def call(self, *args: Any) -> Any:
        """Run one command, without trying again; raise ReplyError for the server's error."""
        reply = self.ask(pack_command(args))
        if type(reply) is ReplyError:
            raise reply
        return reply

    def send(self, packed: bytes) -> None:
        """Send one packed command whose reply is received later."""
        try:
            self._sendall(packed)
        except BaseException as error:
            self._fail(error)
            raise

    def receive(self) -> Any:
        """Return the reply to the command that was sent."""
        try:
            return self._rest(_NEXT_READ)
        except BaseException as error:
            self._fail(error)
            raise

    def exchange(self, packed: Sequence[bytes], count: int) -> list[Any]:
        """Send packed commands, in one write if they fit, and return their `count` replies in order."""
        try:
            if len(packed) == 1:
                self._sendall(packed[0])
            else:
                self._send_parts(packed)
            replies = []
            for _ in range(count):
                reply = self._gets()
                replies.append(self._rest(_FIRST_READ) if reply is False else reply)
            return replies
        except BaseException as error:
            self._fail(error)
            raise

    def _fail(self, error: BaseException) -> None:
        """Close, also on KeyboardInterrupt: a socket with half a reply in it must never be used again."""
        self.close()
        if isinstance(error, (BlockingIOError, TimeoutError)):
            raise AnswerLateError from error
        if isinstance(error, ProtocolError):
            raise ConnectionLostError(f"what came is not RESP: {error}") from error

    def _send_parts(self, parts: Sequence[bytes]) -> None:
        """Send parts from where they are."""
        if hasattr(self._socket, "context"):
            self._sendall(b"".join(parts))  # TLS copies what it sends in any case
            return
        left = [memoryview(part) for part in parts]
        while left:
            sent = self._socket.sendmsg(left[:_PARTS_MAX])
            done = 0
            while done < len(left) and sent >= len(left[done]):
                sent -= len(left[done])
                done += 1
            left = left[done:]
            if sent:
                left[0] = left[0][sent:]

    def _rest(self, size: int) -> Any:
        """Read until one whole reply is there, `size` bytes at first."""
        while True:
            data = self._recv(size)
            size = _NEXT_READ
            if not data:
                raise ConnectionLostError
            self._feed(data)
            # RESP2 has no booleans: False can only mean that the reply is not complete.
            reply = self._gets()
            if reply is not False:
                return reply

    def close(self) -> None:
        """Close the socket; a reply still on its way is lost."""
        self._socket.close()


def open_link(address: Address, timeout_s: float, context: ssl.SSLContext | None = None) -> Link:
    """Connect, secure and greet; raise OSError or ReplyError for what may pass, else MaestroError."""
    link = Link(_connect(address, timeout_s, context), timeout_s)
    packed, count = greeting(address)
    try:
        if count:
            check_greeting(address, link.exchange([packed], count))
    except BaseException:
        link.close()
        raise
    return link


def _connect(address: Address, timeout_s: float, context: ssl.SSLContext | None) -> socket.socket:
    """Return a connected blocking socket."""
    if address.is_embedded:
        connected = connect_path(address.path or "", timeout_s=timeout_s)
        connected.settimeout(None)
        return connected
    is_unix = address.scheme == "unix"
    connected = (
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        if is_unix
        else socket.create_connection(address.hosts[0], timeout_s)
    )
    try:
        if is_unix:
            connected.settimeout(timeout_s)
            connected.connect(address.path or "")
        else:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if context is not None:
            # The handshake runs under the connection's timeout too.
            connected = context.wrap_socket(connected, server_hostname=address.hosts[0][0])
        connected.settimeout(None)
    except BaseException:
        connected.close()
        raise
    return connected
