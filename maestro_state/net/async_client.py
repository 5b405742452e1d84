"""The asyncio wire client: the blocking one's methods with await, all callers pipelined over one socket.

Same rules for errors and repeats as the blocking client. Holds sockets, no state.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from hiredis import pack_command

from maestro_state.net.async_socket import Pipe
from maestro_state.net.faults import (
    BLOCK_MARGIN_S,
    RETRY_S,
    TIMEOUT_S,
    AnswerLateError,
    ConnectionLostError,
    Fault,
    ReplyError,
    RetryPolicy,
    Where,
    is_passing,
    refusal,
)
from maestro_state.net.fork import let_go_in_child
from maestro_state.net.handshake import check_greeting, greeting, tls_context
from maestro_state.net.private_socket import connect_path
from maestro_state.net.threads import in_thread
from maestro_state.net.url import masked

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import AsyncIterator, Callable, Sequence

    from maestro_state.net.shape import Script
    from maestro_state.net.url import Address


class AsyncConnection:
    """A server, reached over one socket for all callers, and one more for each blocking read at a time.

    For one event loop at a time; a new loop gets new sockets. Every command is repeated when its connection
    breaks or times out, so pass only what is safe to repeat. A cancelled call may or may not have been run.
    """

    #: One command may name keys of several sessions.
    is_one_server = True

    def __init__(
        self, address: Address, *, revive: Callable[[], object] | None = None, timeout_s: float = TIMEOUT_S
    ) -> None:
        """Remember the address; the first call connects. `revive` starts the server; it runs in a thread."""
        self.address = address
        self.retry_s = RETRY_S
        self.timeout_s = address.timeout_s or timeout_s
        self._revive = revive
        self._where = Where(masked(address), address.setting, address.is_embedded)
        self._known = False
        self._context: ssl.SSLContext | None = None
        self._pipe: Pipe | None = None
        self._opening: asyncio.Task[Pipe] | None = None
        self._idle_blocking: list[Pipe] = []
        let_go_in_child(self)

    async def call(self, *args: Any) -> Any:
        """Run one command in one round trip and return its raw reply."""
        packed = pack_command(args)
        pipe = self._pipe
        if pipe is None or not pipe.is_open or pipe.loop is not asyncio.get_running_loop():
            return self._checked((await self._attempt(packed, 1, None))[0])
        try:
            reply = await pipe.ask(packed)
        except OSError as fault:
            return self._checked((await self._attempt(packed, 1, fault))[0])
        if type(reply) is ReplyError:
            if is_passing(reply):
                return self._checked((await self._attempt(packed, 1, reply))[0])
            raise refusal(reply, self._where)
        return reply

    async def calls(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Run commands in one write and return their replies in order.

        Not a transaction: all of them are run, then the first error reply, if any, is raised.
        """
        if not commands:
            return []
        packed = b"".join([pack_command(command) for command in commands])
        replies = await self._attempt(packed, len(commands), None)
        for reply in replies:
            if type(reply) is ReplyError:
                raise refusal(reply, self._where)
        return replies

    async def replies(
        self, command: tuple[Any, ...] | None, following: Callable[[Any], tuple[Any, ...] | None]
    ) -> AsyncIterator[Any]:
        """Run reads one after another, as `following` makes each of the reply before; yield their replies.

        The next one is sent before a reply is handed out: the server is at it while the caller uses what it has.
        """
        asked = asyncio.ensure_future(self.call(*command)) if command else None
        try:
            while asked is not None:
                reply = await asked
                command = following(reply)
                if command is None:
                    asked = None
                else:
                    asked = asyncio.ensure_future(self.call(*command))
                    await asyncio.sleep(0)  # a task does nothing before its first turn
                yield reply
        finally:
            if asked is not None and not asked.cancel() and not asked.cancelled():
                asked.exception()  # it failed before anybody wanted it: nobody is told later either

    async def script(self, script: Script, keys: Sequence[Any], args: Sequence[Any]) -> Any:
        """Run a script by its digest, and by its body when the server does not know it yet."""
        try:
            return await self.call("EVALSHA", script.sha, len(keys), *keys, *args)
        except ReplyError as error:
            if error.kind != "NOSCRIPT":
                raise
        return await self.call("EVAL", script.body, len(keys), *keys, *args)

    async def script_then(
        self, script: Script, keys: Sequence[Any], args: Sequence[Any], then: Sequence[tuple[Any, ...]], *, wait_ms: int
    ) -> list[Any]:
        """Run a script and commands behind it on one socket, all again when it breaks; the last may take `wait_ms`."""
        # By its body: a digest that the server does not know would make the commands behind it wait for nothing.
        commands = [("EVAL", script.body, len(keys), *keys, *args), *then]
        packed = b"".join([pack_command(command) for command in commands])
        replies = await self._attempt(packed, len(commands), None, wait_ms / 1000 + BLOCK_MARGIN_S)
        return [self._checked(reply) for reply in replies]

    async def block(self, *args: Any, block_ms: int) -> Any:
        """Run a command that waits up to `block_ms` in the server, on its own socket; 0 waits for ever."""
        limit_s = block_ms / 1000 + BLOCK_MARGIN_S if block_ms else 0.0
        return self._checked((await self._attempt(pack_command(args), 1, None, limit_s))[0])

    async def close(self) -> None:
        """Close every socket; a later call connects again."""
        opening, self._opening = self._opening, None
        if opening is not None and not opening.done():
            opening.cancel()
            await asyncio.wait([opening])
        self._drop()
        # The transports close in the next turn of the loop; leaving before that would leak them.
        await asyncio.sleep(0)

    def forget(self) -> None:
        """Let go of all sockets without touching the loop, which after a fork belongs to the parent."""
        self._pipe = self._opening = None
        self._idle_blocking.clear()

    def _drop(self) -> None:
        """Close the sockets that belong to the running loop."""
        loop = asyncio.get_running_loop()
        for pipe in (self._pipe, *self._idle_blocking):
            if pipe is not None and pipe.loop is loop:
                pipe.close()
        self._pipe = None
        self._idle_blocking.clear()

    async def _attempt(self, packed: bytes, count: int, fault: Fault | None, limit_s: float | None = None) -> list[Any]:
        """Send until there are whole answers; `fault` is that of a try already made."""
        policy: RetryPolicy | None = None
        while True:
            if fault is not None:
                policy = policy or RetryPolicy(self._where, known=self._known, retry_s=self.retry_s)
                await self._recover(policy, fault)
            try:
                if limit_s is None:
                    pipe = await self._shared()
                    replies = await pipe.ask_all(packed, count)
                else:
                    replies = await self._wait_apart(packed, count, limit_s)
            except OSError as broken:
                fault = broken
                continue
            except ReplyError as unready:
                fault = unready
                continue
            fault = next((r for r in replies if type(r) is ReplyError and is_passing(r)), None)
            if fault is None:
                return replies
            if limit_s is None and fault.kind == "READONLY":
                pipe.close()  # the name may lead to the new master by now

    async def _shared(self) -> Pipe:
        """Return the socket of all callers, opened by whoever comes first."""
        loop = asyncio.get_running_loop()
        pipe = self._pipe
        if pipe is not None and pipe.is_open and pipe.loop is loop:
            return pipe
        opening = self._opening
        if opening is None or opening.done() or opening.get_loop() is not loop:
            opening = self._opening = loop.create_task(self._open(self.timeout_s))
        # Shielded: the others still want it when the caller that came first is cancelled.
        pipe = await asyncio.shield(opening)
        self._pipe = pipe
        if not pipe.is_open:
            raise ConnectionLostError
        return pipe

    async def _wait_apart(self, packed: bytes, count: int, limit_s: float) -> list[Any]:
        """Make one try on a socket that nobody else uses meanwhile."""
        loop = asyncio.get_running_loop()
        while self._idle_blocking:
            pipe = self._idle_blocking.pop()
            if pipe.is_open and pipe.loop is loop:
                break
        else:
            pipe = await self._open(self.timeout_s)
        pipe.timeout_s = limit_s
        whole = False
        try:
            replies: list[Any] = await pipe.ask_all(packed, count)
            whole = True
            return replies
        finally:
            # Also when cancelled: the server would go on waiting on this socket for its whole time.
            if whole:
                self._idle_blocking.append(pipe)
            else:
                pipe.close()

    async def _open(self, timeout_s: float) -> Pipe:
        """Connect, secure and greet."""
        loop = asyncio.get_running_loop()
        address = self.address
        if address.tls and self._context is None:
            self._context = await in_thread(tls_context, address)
        pipe = Pipe(loop, timeout_s)
        greeted = False
        try:
            async with asyncio.timeout(timeout_s):
                if address.is_embedded:
                    await loop.create_unix_connection(lambda: pipe, sock=await _own_socket(address.path, timeout_s))
                elif address.scheme == "unix":
                    await loop.create_unix_connection(lambda: pipe, address.path)
                else:
                    host, port = address.hosts[0]
                    await loop.create_connection(lambda: pipe, host, port, ssl=self._context)
                packed, count = greeting(address)
                if count:
                    check_greeting(address, await pipe.ask_all(packed, count), self._where)
            greeted = True
        except TimeoutError as error:
            raise AnswerLateError from error
        finally:
            if not greeted:
                pipe.close()
        self._known = True
        return pipe

    async def _recover(self, policy: RetryPolicy, fault: Fault) -> None:
        """Wait as long as it makes sense after a fault, or raise ServerUnavailable."""
        if self._revive is not None and policy.wants_revival(fault):
            await asyncio.to_thread(self._revive)
        pause_s = policy.pause_after(fault)
        if pause_s:
            await asyncio.sleep(pause_s)

    def _checked(self, reply: Any) -> Any:
        """Return a reply, or raise it if it is an error."""
        if type(reply) is ReplyError:
            raise refusal(reply, self._where)
        return reply


async def _own_socket(path: str | None, timeout_s: float) -> socket.socket:
    """Connect to the project's own server, and to nobody else's."""
    line = await in_thread(connect_path, path or "", timeout_s=timeout_s)
    line.setblocking(False)
    return line
