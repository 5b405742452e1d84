"""The wire client's methods over a redis-py client: for Sentinel, for Cluster, and for fakeredis.

Replies, errors and repeats are those of the wire client, so that nobody can tell which one is in use.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from maestro_state.net.faults import (
    BLOCK_MARGIN_S,
    RETRY_S,
    TIMEOUT_S,
    ConnectionLostError,
    Fault,
    ReplyError,
    RetryPolicy,
    Where,
    is_passing,
    refusal,
)
from maestro_state.net.translation import (
    LIBRARY_ERRORS,
    all_clients,
    is_closed_under,
    keep_raw,
    read_error,
    sentinel_answered,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence

    from maestro_state.net.shape import Script


#: A server that nobody named.
_SOMEWHERE = Where("the server")
#: Answers of a node that does not have the slot, or not any more.
_ELSEWHERE = ("MOVED", "ASK")


class _Clients:
    """What the blocking and the asyncio face share: which client to use, and what its replies mean."""

    #: A cluster refuses commands on keys of several sessions.
    is_one_server = False

    def __init__(
        self,
        client: Any = None,
        *,
        make: Callable[[float], Any] | None = None,
        where: Where = _SOMEWHERE,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """Use `client` for everything, or clients that `make(timeout_s)` returns, blocking reads apart."""
        if (client is None) == (make is None):
            raise TypeError("either a client or a way to make one")
        self.retry_s = RETRY_S
        self.timeout_s = timeout_s
        self._make = make
        self._where = where
        self._known = client is not None
        self._client = client
        self._waiting = client
        self._waiting_s = 0.0
        self._made: list[Any] = [] if client is None else [client]
        if client is not None:
            keep_raw(client)

    def _pick(self, limit_s: float | None) -> Any:
        """Return the client for a call, made on first use, as a cluster client connects when it is made."""
        if self._make is None:
            return self._client
        if limit_s is None:
            if self._client is None:
                self._client = self._new(self.timeout_s)
            return self._client
        if self._waiting is None or limit_s > self._waiting_s:
            # redis-py has one timeout per client; the old one is left to whoever is using it.
            self._waiting = self._new(limit_s)
            self._waiting_s = limit_s
        return self._waiting

    def _new(self, timeout_s: float) -> Any:
        assert self._make is not None  # noqa: S101 - asked only then
        client = self._make(timeout_s)
        keep_raw(client)
        self._made += all_clients(client)
        return client

    def _policy(self) -> RetryPolicy:
        return RetryPolicy(self._where, known=self._known, retry_s=self.retry_s)

    def _first_passing(self, replies: list[Any]) -> ReplyError | None:
        self._known = True
        return next((r for r in replies if type(r) is ReplyError and is_passing(r)), None)

    def _checked(self, replies: list[Any]) -> list[Any]:
        for reply in replies:
            if type(reply) is ReplyError:
                raise refusal(reply, self._where)
        return replies


def _read(reply: Any) -> Any:
    """Return a pipeline's reply with redis-py's exceptions read."""
    return read_error(reply) if isinstance(reply, LIBRARY_ERRORS) else reply


def _limit_s(block_ms: int) -> float:
    """Return how long a blocking read may take, in seconds; a day stands for ever."""
    return block_ms / 1000 + BLOCK_MARGIN_S if block_ms else 86_400.0


def _is_cluster(client: Any) -> bool:
    """Tell whether commands must go one by one: a cluster's pipeline takes no scripts."""
    return hasattr(client, "get_default_node")


def _is_elsewhere(replies: list[Any]) -> bool:
    return any(type(reply) is ReplyError and reply.kind in _ELSEWHERE for reply in replies)


def _later(reply: Any) -> Any:
    """Return a redirection as an answer that passes: the layout is read anew, then all is sent again."""
    return ReplyError(f"TRYAGAIN {reply}") if _is_elsewhere([reply]) else reply


class LibraryConnection(_Clients):
    """A server behind a redis-py client; thread-safe as far as that client is."""

    def call(self, *args: Any) -> Any:
        """Run one command and return its raw reply."""
        return self._checked(self._attempt([args]))[0]

    def calls(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Run commands (pipelined, on a cluster one by one), then raise the first error reply, if any."""
        return self._checked(self._attempt(commands)) if commands else []

    def replies(
        self, command: tuple[Any, ...] | None, following: Callable[[Any], tuple[Any, ...] | None]
    ) -> Iterator[Any]:
        """Run reads one after another, as `following` makes each of the reply before; yield their replies."""
        while command is not None:
            reply = self.call(*command)
            command = following(reply)
            yield reply

    def script(self, script: Script, keys: Sequence[Any], args: Sequence[Any]) -> Any:
        """Run a script by its digest, else by its body, where its first key lives."""
        try:
            return self.call("EVALSHA", script.sha, len(keys), *keys, *args)
        except ReplyError as error:
            if error.kind != "NOSCRIPT":
                raise
        return self.call("EVAL", script.body, len(keys), *keys, *args)

    def script_then(
        self, script: Script, keys: Sequence[Any], args: Sequence[Any], then: Sequence[tuple[Any, ...]], *, wait_ms: int
    ) -> list[Any]:
        """Run a script and commands behind it on one connection, all again when it breaks."""
        commands = [("EVAL", script.body, len(keys), *keys, *args), *then]
        return self._checked(self._attempt(commands, _limit_s(wait_ms), together=keys[0]))

    def block(self, *args: Any, block_ms: int) -> Any:
        """Run a command that waits up to `block_ms` in the server, beside all other calls."""
        return self._checked(self._attempt([args], _limit_s(block_ms)))[0]

    def close(self) -> None:
        """Close the clients."""
        for client in self._made:
            client.close()

    def _attempt(
        self, commands: Sequence[tuple[Any, ...]], limit_s: float | None = None, *, together: Any = None
    ) -> list[Any]:
        """Send until there are whole answers; those that belong `together` go where that key is, on one connection."""
        policy: RetryPolicy | None = None
        while True:
            fault: Fault | None
            try:
                replies = self._try(commands, limit_s, together)
                fault = self._first_passing(replies)
                if fault is None:
                    return replies
            except OSError as broken:
                fault = broken
                self._known = self._known or sentinel_answered(self._made, broken)
            policy = policy or self._policy()
            time.sleep(policy.pause_after(fault))

    def _try(self, commands: Sequence[tuple[Any, ...]], limit_s: float | None, together: Any = None) -> list[Any]:
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
        return [self._try([command], limit_s)[0] for command in commands]

    def _on_node(self, client: Any, commands: Sequence[tuple[Any, ...]], key: Any) -> list[Any]:
        node = client.get_redis_connection(client.get_node_from_key(key))
        with node.pipeline(transaction=False) as pipeline:
            for command in commands:
                pipeline.execute_command(*command)
            replies = [_read(reply) for reply in pipeline.execute(raise_on_error=False)]
        if _is_elsewhere(replies):
            client.nodes_manager.initialize()
        return [_later(reply) for reply in replies]


class AsyncLibraryConnection(_Clients):
    """A server behind a redis-py asyncio client."""

    async def call(self, *args: Any) -> Any:
        """Run one command and return its raw reply."""
        return self._checked(await self._attempt([args]))[0]

    async def calls(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Run commands (pipelined, on a cluster one by one), then raise the first error reply, if any."""
        return self._checked(await self._attempt(commands)) if commands else []

    async def replies(
        self, command: tuple[Any, ...] | None, following: Callable[[Any], tuple[Any, ...] | None]
    ) -> AsyncIterator[Any]:
        """Run reads one after another, as `following` makes each of the reply before; yield their replies."""
        while command is not None:
            reply = await self.call(*command)
            command = following(reply)
            yield reply

    async def script(self, script: Script, keys: Sequence[Any], args: Sequence[Any]) -> Any:
        """Run a script by its digest, else by its body, where its first key lives."""
        try:
            return await self.call("EVALSHA", script.sha, len(keys), *keys, *args)
        except ReplyError as error:
            if error.kind != "NOSCRIPT":
                raise
        return await self.call("EVAL", script.body, len(keys), *keys, *args)

    async def script_then(
        self, script: Script, keys: Sequence[Any], args: Sequence[Any], then: Sequence[tuple[Any, ...]], *, wait_ms: int
    ) -> list[Any]:
        """Run a script and commands behind it on one connection, all again when it breaks."""
        commands = [("EVAL", script.body, len(keys), *keys, *args), *then]
        return self._checked(await self._attempt(commands, _limit_s(wait_ms), together=keys[0]))

    async def block(self, *args: Any, block_ms: int) -> Any:
        """Run a command that waits up to `block_ms` in the server, beside all other calls."""
        return self._checked(await self._attempt([args], _limit_s(block_ms)))[0]

    async def close(self) -> None:
        """Close the clients."""
        for client in self._made:
            await client.aclose()
            if _is_cluster(client):
                # One that was about to look for its nodes anew counts itself as closed, with all sockets open.
                await client.nodes_manager.aclose()
                await client.nodes_manager.aclose("startup_nodes")

    async def _attempt(
        self, commands: Sequence[tuple[Any, ...]], limit_s: float | None = None, *, together: Any = None
    ) -> list[Any]:
        """Send until there are whole answers; those that belong `together` go where that key is, on one connection."""
        policy: RetryPolicy | None = None
        while True:
            fault: Fault | None
            try:
                replies = await self._try(commands, limit_s, together)
                fault = self._first_passing(replies)
                if fault is None:
                    return replies
            except OSError as broken:
                fault = broken
                self._known = self._known or sentinel_answered(self._made, broken)
            policy = policy or self._policy()
            await asyncio.sleep(policy.pause_after(fault))

    async def _try(self, commands: Sequence[tuple[Any, ...]], limit_s: float | None, together: Any = None) -> list[Any]:
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
        return [(await self._try([command], limit_s))[0] for command in commands]

    async def _on_node(self, client: Any, commands: Sequence[tuple[Any, ...]], key: Any) -> list[Any]:
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
