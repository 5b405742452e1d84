"""One connection to `maestro serve`: what comes before anybody is known is bounded, in size and in time.

uvicorn bounds neither with httptools: one header without an end would take all memory, before a body or behind it, and
connections that never say what they want, or never finish saying it, all files.
"""

from __future__ import annotations

import asyncio
import re
from typing import NoReturn

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from maestro_state.serve.request import encode

#: Most bytes around a body: its head, what stands between its pieces, and what comes behind; a little more is let pass
#: where it comes in one piece.
HEAD_MAX = 64 * 1024
#: Seconds that a head may take to come, and the rest of a request that is answered already.
HEAD_S = 30.0
#: An address with the server in it.
_ADDRESS = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]*://([^/?#]*)")
#: Headers of requests with a body.
_OF_BODIES = (b"content-length", b"transfer-encoding")


class BoundedHttpProtocol(HttpToolsProtocol):
    """A connection that lets go of whoever sends no head, or one without end, or hangs on to an answered request."""

    _in_head = True
    _is_whole = True  #: the request that came last was sent to its end
    _around = 0  #: bytes since the last one of a body
    _head_timeout: asyncio.TimerHandle | None = None
    _refused = ""  #: why it is read no further

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first head."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Read on, unless there is too much around the body by now."""
        self._around += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._around > HEAD_MAX:
            self.send_400_response("The head of the request is too long.")
        elif self._in_head and self._head_timeout is None:
            self._wait()

    def on_message_begin(self) -> None:
        """Begin with a head."""
        self._in_head, self._is_whole = True, False
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; what stands behind the body is none, and kept by nobody."""
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Go on with who has said what they want. Not with who wants another protocol, and sends a body: the parser
        would pass it over, and take what of it comes later for requests of their own.
        """
        self._in_head, self._around = False, 0
        self._stop_waiting()
        if self.parser.should_upgrade() and any(name in _OF_BODIES for name, _ in self.headers):
            self._refuse("This server speaks HTTP/1.1: send a body without Upgrade.")
        if self._is_for_another():
            self._refuse("The address and the Host of the request are of two servers.")
        super().on_headers_complete()

    def _is_for_another(self) -> bool:
        """Tell whether a request names a server in its address, as to a proxy, and another one as its Host: the guards
        look at the Host, and who stands in between may have looked at the address.
        """
        found = _ADDRESS.match(self.url)
        return found is not None and any(
            name == b"host" and value.lower() != found[1].lower() for name, value in self.headers
        )

    def _refuse(self, reason: str) -> NoReturn:
        self._refused = reason
        raise ValueError(reason)  # the parser stops

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body, which whoever reads it bounds."""
        self._around = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Note that there is nothing more to come."""
        self._is_whole, self._around = True, 0
        self._stop_waiting()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Go on with the next request; of one that was refused before it was read, the rest has its time, too."""
        super().on_response_complete()
        if not self._is_whole and self.cycle.response_complete and self._head_timeout is None:
            self._wait()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, in the form of every error."""
        message = self._refused or msg
        content = encode({"error": {"code": "usage", "message": message, "hint": "see /openapi.json"}})
        head = f"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: {len(content)}\r\n"
        self.transport.write(head.encode() + b"connection: close\r\n\r\n" + content)
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._head_timeout = self.loop.call_later(HEAD_S, self.timeout_keep_alive_handler)

    def _stop_waiting(self) -> None:
        if self._head_timeout is not None:
            self._head_timeout.cancel()
            self._head_timeout = None
