"""What every connection can be asked, over redis-py: Sentinel, Cluster, and a user's own client.

Replies and errors are those of the wire client, so that nobody can tell which one is in use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from maestro_state.net.async_calls import AsyncCalls
from maestro_state.net.faults import ConnectionLostError, Fault, ReplyError
from maestro_state.net.retry import Caller
from maestro_state.net.sync_calls import Calls
from maestro_state.net.translation import (
    LIBRARY_ERRORS,
    is_closed_under,
    keep_raw,
    read_error,
    sentinel_answered,
    sentinels_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from maestro_state.net.interfaces import Command
    from maestro_state.net.url import Address


#: Answers of a node that does not have the slot, or not any more.
_ELSEWHERE = ("MOVED", "ASK")
#: A read that waits for ever, in seconds: redis-py's clients have one limit for all they do.
_FOR_EVER_S = 86_400.0


class _Clients(Caller):
    """What the blocking and the asyncio face share: which client to use."""

    is_one_server = False

    def __init__(self, make: Callable[[float | None], Any], *, address: Address, owns_sentinels: bool = True) -> None:
        """Use clients that `make` returns: one for all calls, and one whose reads may wait for so many seconds."""
        super().__init__(address)
        self._make = make
        self._client: Any = None
        self._waiting: Any = None
        self._waiting_s = 0.0
        self._owns_sentinels = owns_sentinels
        self._made: list[Any] = []

    def _pick(self, limit_s: float | None) -> Any:
        """Return the client for a call, made on first use, as a cluster client connects when it is made."""
        if limit_s is None:
            if self._client is None:
                self._client = self._new(None)
            return self._client
        limit_s = limit_s or _FOR_EVER_S
        if self._waiting is None or limit_s > self._waiting_s:
            # redis-py has one timeout per client; the old one is left to whoever is using it.
            self._waiting = self._new(limit_s)
            self._waiting_s = limit_s
        return self._waiting

    def _new(self, limit_s: float | None) -> Any:
        client = self._make(limit_s)
        keep_raw(client)
        self._made.append(client)
        return client

    def _to_close(self) -> list[Any]:
        """Return the clients, with those that they ask where their server is: closing one alone leaves these open."""
        made, self._made = self._made, []
        self._client = self._waiting = None
        return [*made, *sentinels_of(made)] if self._owns_sentinels else made

    def _after(self, fault: Fault) -> None:
        if isinstance(fault, OSError):
            self._known = self._known or sentinel_answered(self._made, fault)


def _read(reply: Any) -> Any:
    """Return a pipeline's reply with redis-py's exceptions read."""
    return read_error(reply) if isinstance(reply, LIBRARY_ERRORS) else reply


def _is_cluster(client: Any) -> bool:
    """Tell whether commands must go one by one: a cluster's pipeline takes no scripts."""
    return hasattr(client, "get_default_node")


def _is_elsewhere(replies: list[Any]) -> bool:
    return any(type(reply) is ReplyError and reply.kind in _ELSEWHERE for reply in replies)


def _later(reply: Any) -> Any:
    """Return a redirection as an answer that passes: the layout is read anew, then all is sent again."""
    return ReplyError(f"TRYAGAIN {reply}") if _is_elsewhere([reply]) else reply


class LibraryConnection(_Clients, Calls):
    """A server behind a redis-py client; thread-safe as far as that client is."""

    def close(self) -> None:
        """Close the clients; a later call makes new ones."""
        for client in self._to_close():
            client.close()

    def _try(self, commands: Sequence[Command], limit_s: float | None, together: Any) -> list[Any]:
        try:
            client = self._pick(limit_s)
            if together is not None and _is_cluster(client):
                return self._on_node(client, commands, together)
            if len(commands) == 1:
                return [client.execute_command(*commands[0])]
            if not _is_cluster(client):
                with client.pipeline(transaction=False) as pipeline:
                    for command in commands:
                        pipeline.execute_command(*command)
                    return [_read(reply) for reply in pipeline.execute(raise_on_error=False)]
        except LIBRARY_ERRORS as error:
            return [read_error(error)] * len(commands)
        return [self._try([command], limit_s, None)[0] for command in commands]

    def _on_node(self, client: Any, commands: Sequence[Command], key: Any) -> list[Any]:
        node = client.get_redis_connection(client.get_node_from_key(key))
        with node.pipeline(transaction=False) as pipeline:
            for command in commands:
                pipeline.execute_command(*command)
            replies = [_read(reply) for reply in pipeline.execute(raise_on_error=False)]
        if _is_elsewhere(replies):
            client.nodes_manager.initialize()
        return [_later(reply) for reply in replies]


class AsyncLibraryConnection(_Clients, AsyncCalls):
    """A server behind a redis-py asyncio client."""

    async def close(self) -> None:
        """Close the clients; a later call makes new ones."""
        for client in self._to_close():
            await client.aclose()
            if _is_cluster(client):
                # One that was about to look for its nodes anew counts itself as closed, with all sockets open.
                await client.nodes_manager.aclose()
                await client.nodes_manager.aclose("startup_nodes")

    async def _try(self, commands: Sequence[Command], limit_s: float | None, together: Any) -> list[Any]:
        try:
            client = self._pick(limit_s)
            if together is not None and _is_cluster(client):
                return await self._on_node(client, commands, together)
            if len(commands) == 1:
                return [await client.execute_command(*commands[0])]
            if not _is_cluster(client):
                async with client.pipeline(transaction=False) as pipeline:
                    for command in commands:
                        pipeline.execute_command(*command)
                    return [_read(reply) for reply in await pipeline.execute(raise_on_error=False)]
        except LIBRARY_ERRORS as error:
            return [read_error(error)] * len(commands)
        except AttributeError as error:
            if not is_closed_under(error):
                raise
            raise ConnectionLostError("closed by another call on it") from error
        return [(await self._try([command], limit_s, None))[0] for command in commands]

    async def _on_node(self, client: Any, commands: Sequence[Command], key: Any) -> list[Any]:
        await client.initialize()
        node = client.get_node_from_key(key)
        connection = node.acquire_connection()
        whole = False
        try:
            await connection.connect()
            await connection.send_packed_command(connection.pack_commands(commands), False)
            replies = []
            for _ in commands:
                try:
                    replies.append(await connection.read_response())
                except LIBRARY_ERRORS as error:
                    replies.append(read_error(error))
            whole = True
        finally:
            # Also when cancelled: a socket with half an answer in it must never be used again.
            if not whole:
                await connection.disconnect(nowait=True)
            node.release(connection)
        if _is_elsewhere(replies):
            await client.nodes_manager.initialize()
        return [_later(reply) for reply in replies]
