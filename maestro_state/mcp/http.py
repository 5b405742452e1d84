"""Streamable HTTP: the application that serves `/mcp`, whom it answers, and what it remembers for who comes back."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.server.transport_security import TransportSecuritySettings

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer
    from mcp_types import JSONRPCMessage
    from starlette.applications import Starlette
    from starlette.types import ASGIApp, Receive, Scope, Send

#: Names of this machine by which no page of another site can reach it.
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
#: Answers that are kept for a client that lost its connection.
_KEPT = 512


def application(server: MCPServer, allowed_hosts: Sequence[str], retry_interval_ms: int) -> Starlette:
    """Return the application; requests in the name of another host get 421, from another site 403."""
    names = (*LOOPBACK, *allowed_hosts)
    hosts = [form for name in names for form in (name, f"{name}:*")]
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=hosts,
        allowed_origins=[f"{scheme}://{host}" for host in hosts for scheme in ("http", "https")],
    )
    made: Starlette = server.streamable_http_app(
        event_store=Recent(), retry_interval=retry_interval_ms, transport_security=security
    )
    made.add_middleware(Trimmed)
    return made


class Trimmed:
    """What stands in headers, without the blanks around it: they are no part of a value (RFC 9110, 5.5), and not every
    server of HTTP takes them off. The protocol compares headers with what is asked for.
    """

    def __init__(self, app: ASGIApp) -> None:
        """Take what answers."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand it on."""
        if scope["type"] == "http":
            scope = {**scope, "headers": [(name, value.strip(b" \t")) for name, value in scope["headers"]]}
        await self._app(scope, receive, send)


class Recent(EventStore):
    """The newest answers, in memory: enough for a client that comes back at once."""

    def __init__(self, kept: int = _KEPT) -> None:
        """Keep so many."""
        self._events: deque[tuple[int, str, JSONRPCMessage | None]] = deque(maxlen=kept)
        self._number = 0

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        """Keep what is sent on a stream; return the id it can be continued after."""
        self._number += 1
        self._events.append((self._number, stream_id, message))
        return str(self._number)

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        """Send again what came on the same stream after an id; None for one that is not kept any more."""
        stream = next((stream for number, stream, _ in self._events if str(number) == last_event_id), None)
        if stream is None:
            return None
        for number, where, message in list(self._events):
            if where == stream and number > int(last_event_id) and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream
