"""What all adapters stand on: a Maestro for every event loop, and one key of a framework bound to one session.

    adapter = Adapter(project=…)                         # or maestro=…, which is not closed
    thread = adapter.binding("langgraph", "thread-1")    # nothing is asked yet
    await thread.write(Entries().message("user", "hello", metadata={"langgraph": item}).set("name", b"value"))
    await thread.messages(), await thread.kept(["name"]), await thread.pop(), await thread.delete()

A write finds or makes the session, and goes on in a fork where it has ended; reads answer from the archive then.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeVar
from weakref import WeakKeyDictionary

from maestro_state.aio.maestro import AsyncMaestro
from maestro_state.errors import InvalidTransition, SessionExpired, SessionNotFound
from maestro_state.live.bindings import AsyncBoundKeys
from maestro_state.live.records import AsyncRecords
from maestro_state.live.server import AsyncServer
from maestro_state.live.source import AsyncLive, AsyncSource
from maestro_state.models.binding import Bound
from maestro_state.models.message import Event, Message
from maestro_state.state.calls.bindings import Entries
from maestro_state.upkeep.expiry import Expiry

__all__ = ["Adapter", "Binding", "Entries", "settled"]

T = TypeVar("T")

#: How often a write is tried again on what the key means by then.
_TRIES = 5
#: Sessions that are read of in one round trip.
_TOGETHER = 100
#: What a write is told when the session that its key meant has ended or is gone.
_OVER = (InvalidTransition, SessionExpired, SessionNotFound)


#: The loop that uses a Maestro's own connection; loops may come to it at once, each in its thread.
_claiming = threading.Lock()
_claims: WeakKeyDictionary[AsyncMaestro, asyncio.AbstractEventLoop] = WeakKeyDictionary()


class _Loop:
    """What talks to the server on one event loop."""

    def __init__(self, maestro: AsyncMaestro, server: AsyncServer) -> None:
        blocking = maestro.blocking
        self.server = server
        self.keys = AsyncBoundKeys(server, blocking.places)
        self.records = AsyncRecords(
            server,
            blocking.project,
            blocking.pinned,
            lambda: blocking.places,
            Expiry(blocking.server, blocking.places).freeze,
            lambda: [row.id for row in blocking.sessions.list(everything=True)],
        )


async def settled(change: Awaitable[T]) -> T:
    """Wait for what becomes of a change, also when the caller is cancelled meanwhile: then he is told after that."""
    task = asyncio.ensure_future(change)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = cancelled or error
    if cancelled is not None:
        with suppress(BaseException):
            task.result()
        raise cancelled
    return task.result()


class Adapter:
    """A Maestro as frameworks use one: from several event loops, one after another and at once."""

    def __init__(
        self,
        *,
        project: str | os.PathLike[str] | None = None,
        maestro: AsyncMaestro | None = None,
        ttl_seconds: int | None = None,
        **settings: Any,
    ) -> None:
        """Take the Maestro to use, or what one is made with; nothing is opened yet."""
        if maestro is not None and (project is not None or settings):
            raise TypeError("give either maestro or what one is made with (project, settings), not both")
        self.maestro = maestro or AsyncMaestro(project, **settings)
        self.ttl_seconds = ttl_seconds
        self._is_own = maestro is None
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, _Loop] = WeakKeyDictionary()

    async def here(self) -> _Loop:
        """Return what talks to the server on the running loop."""
        loop = asyncio.get_running_loop()
        found = self._loops.get(loop)
        if found is None:
            await self.maestro.open()
            found = self._loops[loop] = _Loop(self.maestro, self._server(loop))
        return found

    def _server(self, loop: asyncio.AbstractEventLoop) -> AsyncServer:
        """Return the Maestro's own server to the first loop, to others one with sockets of their own: loops that are
        at it at once cannot take turns on one.
        """
        with _claiming:
            claimed_by = _claims.get(self.maestro)
            if claimed_by is None or claimed_by is loop or claimed_by.is_closed():
                _claims[self.maestro] = loop
                return self.maestro.server
        return self.maestro.another_server()

    def binding(self, kind: str, key: str) -> Binding:
        """Return a key of a framework; nothing is asked yet."""
        return Binding(self, Bound.of(kind, key))

    async def kept_in(self, ids: Sequence[str], names: list[str]) -> list[dict[str, bytes]]:
        """Return what several sessions keep under some names, in their order: of those that the server has, a hundred
        in one round trip; of others, from the archive. Nothing of those that are gone by now.
        """
        here = await self.here()
        found: list[dict[str, bytes]] = []
        for at in range(0, len(ids), _TOGETHER):
            some = ids[at : at + _TOGETHER]
            for session_id, live in zip(some, await here.keys.kept_of(some, names), strict=True):
                kept = live
                if not kept:
                    with suppress(SessionNotFound):
                        kept = await (await here.records.source(session_id)).kept(names)
                found.append(kept)
        return found

    async def close(self) -> None:
        """Close the connections of this loop, and the Maestro unless it was given."""
        here = self._loops.pop(asyncio.get_running_loop(), None)
        if here is not None and here.server is not self.maestro.server:
            await here.server.close()
        if self._is_own:
            await self.maestro.close()

    async def __aenter__(self) -> Self:
        """Use as a context manager."""
        await self.here()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        await self.close()


class Binding:
    """One key of a framework and the session that it means."""

    def __init__(self, adapter: Adapter, bound: Bound) -> None:
        """Take the key; what it means is found out when it is needed, and again when that has ended."""
        self._adapter = adapter
        self.bound = bound
        self._known: str | None = None

    async def find(self) -> str | None:
        """Return the id of the session, live or archived; None when there is none yet."""
        source = await self.source()
        return None if source is None else source.id

    async def ensure(self) -> str:
        """Return the id of a session that can be written to: found, made, or a fork of one that has ended."""
        ttl_seconds = self._adapter.ttl_seconds
        room = self._adapter.maestro.bindings
        self._known = await room.ensure(self.bound.kind, self.bound.key, ttl_seconds=ttl_seconds)
        return self._known

    async def write(self, entries: Entries, *, begins: bool = True) -> str:
        """Write, all of it in one step; returns the id of the last entry. Cancelled, it is whole or absent."""

        async def write(here: _Loop, session_id: str) -> str:
            return await here.keys.write(session_id, entries)

        return await self.change(write, begins=begins)

    async def pop(self) -> Message | None:
        """Take the newest message back that is handed out, and return it."""

        async def pop(here: _Loop, session_id: str) -> Message | None:
            message_id = await here.keys.retract_last(session_id)
            if message_id is None:
                return None
            found = await AsyncLive(here.server, session_id).entry(message_id)
            return found if isinstance(found, Message) else None

        with suppress(SessionNotFound):
            return await self.change(pop, begins=False)
        return None

    async def change(self, change: Callable[[_Loop, str], Awaitable[T]], *, begins: bool = True) -> T:
        """Change the session, whichever the key means by then: it may end between two steps of ours. Unless this
        `begins` one where there is none, SessionNotFound is raised there: what was deleted stays so.
        """
        here = await self._adapter.here()
        for _ in range(_TRIES):
            if self._known is None and not begins and await self.find() is None:
                raise SessionNotFound(f"{self.bound.kind}:{self.bound.key[:80]}")
            with suppress(*_OVER):
                return await change(here, self._known or await self.ensure())
            self._known = None
        return await change(here, await self.ensure())

    async def source(self) -> AsyncSource | None:
        """Return what the session can be read by, from the server or the disk; None when there is none yet."""
        here = await self._adapter.here()
        found = await here.keys.find(self.bound.kind, self.bound.key)
        if found is None:
            return None
        try:
            source = await here.records.source(found)
        except SessionNotFound:
            return None  # bound, and whoever was about to make it is gone
        if not source.archived:
            self._known = found
        return source

    async def messages(self, last: int | None = None) -> list[Message]:
        """Return what is handed out: all messages that were not taken back, or the last ones, oldest first."""
        wanted = last
        while wanted is None or wanted > 0:
            page = await self._page(wanted)
            found = [message for message in page if not message.retracted_at]
            if last is None or wanted is None or len(page) < wanted or len(found) >= last:
                return found if last is None else found[-last:]
            wanted *= 4
        return []

    async def items(self, read: Callable[[list[Any]], T], of_message: Callable[[Message], T]) -> list[T]:
        """Return what all messages hold that are handed out, oldest first; `read` takes it from what is stored."""
        if self._known is not None:
            found = await (await self._adapter.here()).keys.items(self._known, read, of_message)
            if found is not None:
                return found
            self._known = None
        return [of_message(message) for message in await self.messages()]

    async def _page(self, last: int | None) -> list[Message]:
        """Read the last messages, or all: in one round trip where the session is known and goes on."""
        if self._known is not None:
            here = await self._adapter.here()
            found = await here.keys.messages(self._known, last)
            if found is not None:
                return found
            self._known = None
        source = await self.source()
        return [] if source is None else await source.messages(last=last)

    async def events(self, kind: str) -> list[Event]:
        """Return the events of one type, oldest first."""
        source = await self.source()
        if source is None:
            return []
        return [event async for event in source.events(printed=False) if event.type == kind]

    async def record(
        self, prefix: str, read: Callable[[list[Any]], T], of_message: Callable[[Message], T]
    ) -> tuple[list[T], dict[str, bytes]]:
        """Return what all messages hold that are handed out, as `items` does, and what is kept under names with a
        prefix.
        """
        if self._known is not None:
            found = await (await self._adapter.here()).keys.record(self._known, prefix, read, of_message)
            if found is not None:
                return found
            self._known = None
        source = await self.source()
        if source is None:
            return [], {}
        messages, kept = await source.messages(), await source.kept(prefix=prefix)
        return [of_message(message) for message in messages if not message.retracted_at], kept

    async def kept(self, names: list[str] | None = None, *, prefix: str = "") -> dict[str, bytes]:
        """Return what is kept under some names, those with a prefix, or all."""
        source = await self.source()
        return {} if source is None else await source.kept(names, prefix=prefix)

    async def peek(self, names: list[str]) -> dict[str, bytes] | None:
        """Return what is kept under some names in one round trip; None unless the session is known and goes on."""
        if self._known is None or not names:
            return None
        found = await (await self._adapter.here()).keys.kept(self._known, names)
        if found is None:
            self._known = None
        return found

    async def delete(self) -> bool:
        """Remove the session, its archive and the binding; tell whether there was one."""
        self._known = None
        return await self._adapter.maestro.bindings.delete(self.bound.kind, self.bound.key)
