"""Reach a state server: one address, one face, whichever kind of server it is.

Plain, TLS and unix addresses are served by a thin wire client; Sentinel, Cluster and a user's own client by redis-py
behind the same methods (`call`, `calls`, `script`, `block`, `close`). Nothing heavy is imported before it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from maestro_state.net.faults import ReplyError, is_forbidden
from maestro_state.net.retry import TIMEOUT_S
from maestro_state.net.url import Address, masked, parse_url

if TYPE_CHECKING:
    from collections.abc import Callable

    from maestro_state.net.async_client import AsyncConnection
    from maestro_state.net.redis_py import AsyncLibraryConnection, LibraryConnection
    from maestro_state.net.sync_client import Connection

    AnyConnection = Connection | LibraryConnection
    AnyAsyncConnection = AsyncConnection | AsyncLibraryConnection

__all__ = ["Address", "ReplyError", "connect", "connect_async", "is_forbidden", "masked", "parse_url"]

_LIBRARY = ("redis+sentinel", "redis+cluster")


def connect(
    address: Address | str,
    *,
    revive: Callable[[], object] | None = None,
    timeout_s: float = TIMEOUT_S,
    client: Any = None,
) -> AnyConnection:
    """Return a blocking connection; nothing is sent before the first call.

    `revive` is called once when nobody listens at a plain, TLS or unix address, and should start the server. With a
    redis-py `client`, whose address it is, connections are made like its own.
    """
    if client is not None:
        from maestro_state.net.own_client import connection_of

        return connection_of(client)
    if isinstance(address, str):
        address = parse_url(address)
    if address.scheme in _LIBRARY:
        from maestro_state.net.discovery import library_connection

        return library_connection(address, timeout_s)
    from maestro_state.net.sync_client import Connection

    return Connection(address, revive=revive, timeout_s=timeout_s)


def connect_async(
    address: Address | str,
    *,
    revive: Callable[[], object] | None = None,
    timeout_s: float = TIMEOUT_S,
    client: Any = None,
) -> AnyAsyncConnection:
    """Return an asyncio connection; nothing is sent before the first call."""
    if client is not None:
        from maestro_state.net.own_client import async_connection_of

        return async_connection_of(client)
    if isinstance(address, str):
        address = parse_url(address)
    if address.scheme in _LIBRARY:
        from maestro_state.net.discovery import async_library_connection

        return async_library_connection(address, timeout_s)
    from maestro_state.net.async_client import AsyncConnection

    return AsyncConnection(address, revive=revive, timeout_s=timeout_s)
