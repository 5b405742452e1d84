"""Who is told that a resource changed: a session's events become updates of what they touch, while somebody listens."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Any

from mcp.server.subscriptions import InMemorySubscriptionBus, ResourceUpdated

from maestro_state.aio.maestro import AsyncMaestro
from maestro_state.errors import MaestroError, Refused
from maestro_state.models.message import Event

SESSION, MESSAGES = "maestro://session", "maestro://session/messages"

#: After so long, in milliseconds, it is looked up whether another session is the current one.
_RESOLVE_MS = 2000
#: What happens within so many seconds is told once.
_TOGETHER_S = 0.05
#: Most subscriptions of the earlier protocol at a time.
_MOST = 1024

#: Tells one client that a resource changed.
Send = Callable[[str], Awaitable[None]]


def touched(session_id: str, event: Event) -> set[str]:
    """Return the resources that an event is a change of."""
    noun = event.type.partition(".")[0]
    uris = {SESSION, *named(session_id)}
    if noun == "message":
        uris.add(MESSAGES)
    if noun == "run" and (run := event.data.get("run")):
        uris.add(f"maestro://session/runs/{run}/output")
        if event.type == "run.output":
            return {f"maestro://session/runs/{run}/output"}
    if noun == "context":
        uris |= {f"maestro://session/context/{item}" for item in _items(event)}
    return uris


def named(session_id: str) -> set[str]:
    """Return the resources that name a session, whichever is current."""
    return {f"maestro://sessions/{session_id}", f"maestro://sessions/{session_id.partition('--')[0]}"}


def _items(event: Event) -> list[str]:
    named = [value for name, value in event.data.items() if name in ("item", "id", "items") and isinstance(value, str)]
    return [item for text in named for item in text.replace(",", " ").split() if item.startswith("ctx-")]


class Subscriptions(InMemorySubscriptionBus):
    """The bus of `subscriptions/listen`, and who asked by `resources/subscribe`. Nothing is followed for nobody."""

    def __init__(self) -> None:
        """Begin with nobody."""
        super().__init__()
        self._maestro: AsyncMaestro | None = None
        self._following: dict[str, asyncio.Task[None]] = {}
        self._current: str | None = None
        self._asked: dict[tuple[str, str], Send] = {}
        self._listening = 0
        self._changed: set[str] = set()
        self._telling: asyncio.Task[None] | None = None

    def begin(self, maestro: AsyncMaestro) -> None:
        """Take what reads events; who was there before is served now."""
        self._maestro = maestro
        self._follow()

    async def end(self) -> None:
        """Follow no longer."""
        tasks = [*self._following.values(), *([self._telling] if self._telling is not None else [])]
        self._maestro = self._telling = None
        self._following.clear()
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        self._asked.clear()

    def subscribe(self, listener: Callable[[Any], None]) -> Callable[[], None]:
        """Add a stream of `subscriptions/listen`."""
        unsubscribe = super().subscribe(listener)
        self._listening += 1
        self._follow()

        def end() -> None:
            self._listening -= 1
            unsubscribe()

        return end

    def tell(self, client: str, uri: str, send: Send) -> None:
        """Tell a client of the earlier protocol of changes of a resource."""
        if len(self._asked) >= _MOST and (client, uri) not in self._asked:
            raise Refused(f"{_MOST} subscriptions are open", hint="unsubscribe some of them")
        self._asked[client, uri] = send
        self._follow()

    def stop_telling(self, client: str, uri: str) -> None:
        """Tell it no longer."""
        self._asked.pop((client, uri), None)

    def _follow(self) -> None:
        if self._maestro is None or not (self._listening or self._asked):
            return
        for run in (self._run, self._run_others):
            name = run.__name__
            if name not in self._following or self._following[name].done():
                self._following[name] = asyncio.create_task(run(self._maestro))

    async def _run(self, maestro: AsyncMaestro) -> None:
        """Follow the session that is current for as long as somebody wants to know."""
        cursor: str | None = None
        while self._listening or self._asked:
            try:
                current = await maestro.sessions.resolve()
                if current != self._current:
                    if self._current is not None:
                        self._note({SESSION, MESSAGES})
                    self._current, cursor = current, await maestro.follow.newest(current)
                cursor = await self._read(maestro, current, cursor)
            except (MaestroError, OSError):
                await asyncio.sleep(_RESOLVE_MS / 1000)  # no session, or the stack is away: it is asked again
        self._current = None  # told from its first change on again

    async def _run_others(self, maestro: AsyncMaestro) -> None:
        """Note which other sessions change, as lists of sessions are told of it."""
        cursor: str | None = None
        while self._listening or self._asked:
            try:
                cursor = cursor or await maestro.follow.newest_change()
                for change in await maestro.follow.changes(cursor, wait_ms=_RESOLVE_MS):
                    cursor = change.id
                    if change.session_id != self._current:
                        self._note(named(change.session_id))
            except (MaestroError, OSError):
                await asyncio.sleep(_RESOLVE_MS / 1000)

    async def _read(self, maestro: AsyncMaestro, session_id: str, cursor: str | None) -> str | None:
        """Note what happens until nothing does for a while; return where to go on."""
        until = asyncio.get_running_loop().time() + _RESOLVE_MS / 1000
        events = maestro.follow.events(session_id, cursor=cursor, until_idle_ms=_RESOLVE_MS)
        async with aclosing(events) as following:  # type: ignore[type-var]
            async for event in following:
                cursor = event.id
                self._note(touched(session_id, event))
                if asyncio.get_running_loop().time() > until:
                    return cursor
        if asyncio.get_running_loop().time() < until:  # an ended one is not waited for
            await asyncio.sleep(_RESOLVE_MS / 1000)
        return cursor

    def _note(self, uris: set[str]) -> None:
        self._changed |= uris
        if self._telling is None:
            self._telling = asyncio.create_task(self._tell())

    async def _tell(self) -> None:
        await asyncio.sleep(_TOGETHER_S)
        changed, self._changed, self._telling = sorted(self._changed), set(), None
        for uri in changed:
            await self.publish(ResourceUpdated(uri=uri))
            for (client, wanted), send in list(self._asked.items()):
                if wanted == uri:
                    await self._send(client, uri, send)

    async def _send(self, client: str, uri: str, send: Send) -> None:
        try:
            await send(uri)
        except Exception:  # noqa: BLE001 - whatever its transport says: this client is gone, the others are not
            self.stop_telling(client, uri)
