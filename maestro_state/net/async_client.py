"""The asyncio wire client: the blocking one's methods with await, all callers pipelined over one socket.

Holds sockets, no state.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from hiredis import pack_command

from maestro_state.fs.private_socket import connect_path
from maestro_state.net.async_calls import AsyncCalls
from maestro_state.net.async_socket import Pipe
from maestro_state.net.faults import AnswerLateError, ConnectionLostError, Fault, ReplyError, is_passing, refusal
from maestro_state.net.fork import let_go_in_child
from maestro_state.net.handshake import check_greeting, greeting, tls_context
from maestro_state.net.retry import TIMEOUT_S
from maestro_state.net.threads import in_thread

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import AsyncIterator, Callable, Sequence

    from maestro_state.net.interfaces import Command
    from maestro_state.net.url import Address


class AsyncConnection(AsyncCalls):
    """A server, reached over one socket for all callers, and one more for each blocking read at a time.

    For one event loop at a time; a new loop gets new sockets. A cancelled call may or may not have been run.
    """

    def __init__(
        self, address: Address, *, revive: Callable[[], object] | None = None, timeout_s: float = TIMEOUT_S
    ) -> None:
        """Remember the address; the first call connects. `revive` runs in a thread."""
        super().__init__(address, revive=revive)
        self.timeout_s = address.timeout_s or timeout_s
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
            return (await self._retried([args]))[0]
        try:
            reply = await pipe.ask(packed)
        except OSError as fault:
            return (await self._retried([args], fault=fault))[0]
        if type(reply) is ReplyError:
            if is_passing(reply):
                return (await self._retried([args], fault=reply))[0]
            raise refusal(reply, self.address)
        return reply

    async def replies(self, command: Command | None, following: Callable[[Any], Command | None]) -> AsyncIterator[Any]:
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

    async def close(self) -> None:
        """Close every socket; a later call connects again."""
        opening, self._opening = self._opening, None
        if opening is not None and not opening.done():
            opening.cancel()
            await asyncio.wait([opening])
        self._drop()
        # The transports close in the next turn of the loop; a return before that would leak them.
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

    async def _try(self, commands: Sequence[Command], limit_s: float | None, together: Any) -> list[Any]:
        del together  # what is asked in one write goes over one socket
        packed = b"".join([pack_command(command) for command in commands])
        if limit_s is not None:
            return await self._wait_apart(packed, len(commands), limit_s)
        pipe = await self._shared()
        replies: list[Any] = await pipe.ask_all(packed, len(commands))
        return replies

    def _after(self, fault: Fault) -> None:
        if isinstance(fault, ReplyError) and fault.kind == "READONLY":
            self._drop()  # the name may lead to the new master by now

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
        try:
            replies: list[Any] = await pipe.ask_all(packed, count)
        except BaseException:
            # Also when cancelled: the server would go on waiting on this socket for its whole time.
            pipe.close()
            raise
        self._idle_blocking.append(pipe)
        return replies

    async def _open(self, timeout_s: float) -> Pipe:
        """Connect, secure and greet."""
        loop = asyncio.get_running_loop()
        address = self.address
        if address.tls and self._context is None:
            self._context = await in_thread(tls_context, address)
        pipe = Pipe(loop, timeout_s)
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
                    check_greeting(address, await pipe.ask_all(packed, count))
        except BaseException as error:
            pipe.close()
            if isinstance(error, TimeoutError):
                raise AnswerLateError from error
            raise
        self._known = True
        return pipe


async def _own_socket(path: str | None, timeout_s: float) -> socket.socket:
    """Connect to the project's own server, and to nobody else's."""
    line = await in_thread(connect_path, path or "", timeout_s=timeout_s)
    line.setblocking(False)
    return line
