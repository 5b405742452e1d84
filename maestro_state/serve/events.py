"""Server-sent events: those of `watch`, once and in order, from any place on, over restarts of everything between."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from maestro_state.clock import from_iso
from maestro_state.errors import InvalidValue, MaestroError
from maestro_state.models.message import Event, id_order
from maestro_state.models.names import is_stream_id
from maestro_state.serve.hub import ALL, ENDS, STOPPING, Follower, Hub, changed, wire
from maestro_state.state.calls.events import START, started_event
from maestro_state.vocabulary import FROZEN

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from maestro_state.serve.asked import Asked

_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
    (b"x-content-type-options", b"nosniff"),
]
#: What a client that lost the line waits before it comes back, in milliseconds.
_RETRY = b"retry: 1000\n\n"
#: Bytes of history that are sent at a time.
_PIECE = 64 * 1024
#: Seconds that a follower may take none of it.
_PATIENCE_S = 30.0


async def follow_session(asked: Asked) -> Response | None:
    """Follow a session: every event after `Last-Event-ID` or `from` (start, now or an id), then those that come."""
    maestro = asked.maestro
    source = await maestro.sessions.source(asked.ref)
    session = await source.record()
    cursor = _cursor(asked)
    is_over = source.archived or session.state in FROZEN
    if cursor is None:
        if is_over:
            return Response(status_code=204)
        cursor = await maestro.follow.newest(session.id) or START
    if is_over:
        return await _ended(asked, session.id, cursor)
    if asked.scope["method"] == "HEAD":
        return Response(None, 200, {"cache-control": "no-store"}, "text/event-stream")
    stream = _Stream(asked)
    await stream.begin()
    await stream.run(_from_hub(stream, asked, session.id, cursor))
    return None


async def follow_all(asked: Asked) -> Response | None:
    """Follow all sessions: their rows of the list, then the row of each that changed."""
    stream = _Stream(asked)
    await stream.begin()
    await stream.run(_overview(stream, asked))
    return None


def _cursor(asked: Asked) -> str | None:
    """Return where to go on; None: from now on. What a browser says when it comes back counts before the address."""
    wanted = asked.headers.get("last-event-id") or asked.query.from_ or "now"
    if wanted == "now":
        return None
    if wanted == "start":
        return START
    if not is_stream_id(wanted):
        raise InvalidValue(f"'{wanted[:40]}' is not the id of an event", hint="from=start, from=now, or an id")
    return wanted


async def _ended(asked: Asked, session_id: str, cursor: str) -> Response | None:
    """Send what is left of a session that is over; who has seen its end already gets 204, and comes back no more."""
    last = id_order(cursor)
    found: Any = asked.maestro.follow.events(session_id, cursor=cursor)
    async with aclosing(found) as events:
        first = await anext(events, None)
        end = first if first is None or first.type in ENDS else None
        if first is None or (end is None and await _was_told(asked, session_id, last)):
            return Response(status_code=204)
        stream = _Stream(asked)
        await stream.begin()

        async def rest() -> None:
            await stream.send(wire(first))
            if first.type not in ENDS:
                await _send_until_end(stream, events)
            await stream.end()

        await stream.run(rest())
    return None


async def _was_told(asked: Asked, session_id: str, last: tuple[int, int]) -> bool:
    """Tell whether the end of a session is not after an id: what comes behind it is nobody's to wait for."""
    source = await asked.maestro.sessions.source(session_id)
    before = f"{last[0]}-{max(0, last[1] - 1)}" if last[1] else f"{max(0, last[0] - 1)}-{2**32}"
    async for event in source.events(before, printed=False):
        return id_order(event.id) <= last and event.type in ENDS
    return False


async def _send_until_end(stream: _Stream, events: AsyncIterator[Event]) -> None:
    pieces, size = [], 0
    async for event in events:
        pieces.append(wire(event))
        size += len(pieces[-1])
        if size >= _PIECE or event.type in ENDS:
            await stream.send_past(b"".join(pieces))
            pieces, size = [], 0
        if event.type in ENDS:
            return
    if pieces:
        await stream.send_past(b"".join(pieces))


async def _from_hub(stream: _Stream, asked: Asked, session_id: str, cursor: str) -> None:
    """Send what happened since the cursor, then what the hub has: read behind, joined where both have the same."""
    if cursor == START:
        session = await asked.maestro.sessions.read(session_id)
        await stream.send(wire(started_event(session, from_iso(session.created_at))))
    last = await _catch_up(stream, asked, session_id, cursor)
    hub = await asked.app.hubs.join(session_id)
    follower = Follower(hub.next)
    hub.followers.add(follower)
    try:
        if last is not None:
            # Once more: what happened before the hub had us.
            last = await _catch_up(stream, asked, session_id, last)
        await _send_news(stream, hub, follower, id_order(last) if last else None)
    except asyncio.CancelledError:
        if not follower.lost:
            raise
        stream.abort()
    finally:
        asked.app.hubs.detach(hub, follower)


async def _catch_up(stream: _Stream, asked: Asked, session_id: str, cursor: str) -> str | None:
    """Send what the server has after an id; return the last id that was sent, None when the session is over with it."""
    source = await asked.maestro.sessions.source(session_id)
    pieces, size = [], 0
    async for event in source.events(cursor):
        pieces.append(wire(event))
        size += len(pieces[-1])
        cursor = event.id
        if size >= _PIECE:
            await stream.send_past(b"".join(pieces))
            pieces, size = [], 0
        if event.type in ENDS:
            break
    else:
        if pieces:
            await stream.send_past(b"".join(pieces))
        return cursor
    await stream.send_past(b"".join(pieces))
    return None


async def _send_news(stream: _Stream, hub: Hub, follower: Follower, last: tuple[int, int] | None) -> None:
    while last is not None:
        data, last = hub.take(follower, last)
        if data:
            await stream.send(data)
        elif hub.is_stopping:
            await stream.send(STOPPING)
            break
        elif hub.is_over:
            break
        else:
            await hub.news()
    await stream.end()


async def _overview(stream: _Stream, asked: Asked) -> None:
    hub = await asked.app.hubs.join(ALL)
    follower = Follower(hub.next)
    hub.followers.add(follower)
    try:
        rows = await asked.maestro.sessions.list()
        await stream.send(b"".join(changed(row.document()) for row in reversed(rows)) or b":\n\n")
        await _send_news(stream, hub, follower, (0, 0))
    except asyncio.CancelledError:
        if not follower.lost:
            raise
        stream.abort()
    finally:
        asked.app.hubs.detach(hub, follower)


class _Stream:
    """The line to one follower."""

    __slots__ = ("_is_cut", "_receive", "_send")

    def __init__(self, asked: Asked) -> None:
        self._send, self._receive = asked.send, asked.receive
        self._is_cut = False

    async def begin(self) -> None:
        """Send the headers, and when to come back."""
        await self._send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        await self.send(_RETRY)

    async def send(self, data: bytes) -> None:
        """Send; waits while the follower does not read."""
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def send_past(self, data: bytes) -> None:
        """Send what is read for this follower alone; one that takes nothing for long is let go."""
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await self.send(data)
        except TimeoutError:
            self.abort()
            raise asyncio.CancelledError from None

    async def end(self) -> None:
        """Send the end."""
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    def abort(self) -> None:
        """Cut the line: its end would wait behind what the follower does not read."""
        self._is_cut = True
        transport: Any = getattr(getattr(self._send, "__self__", None), "transport", None)
        if transport is not None:
            transport.abort()

    async def run(self, sending: Any) -> None:
        """Send until there is nothing more, or the follower has gone."""
        me = asyncio.current_task()
        assert me is not None  # noqa: S101 - a request is always a task
        is_gone = False

        async def watch() -> None:
            nonlocal is_gone
            await self._gone()
            is_gone = True
            me.cancel()

        watching = asyncio.create_task(watch())
        try:
            await sending
        except asyncio.CancelledError:
            if not is_gone and not self._is_cut:
                raise
            me.uncancel()
        except MaestroError:
            await self.end()  # who comes back is told what it is
        finally:
            watching.cancel()

    async def _gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
