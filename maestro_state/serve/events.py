"""Server-sent events: those of `watch`, once and in order, from any place on, over restarts of everything between."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, asynccontextmanager, suppress
from inspect import unwrap
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from maestro_state.clock import from_iso
from maestro_state.errors import InvalidValue, MaestroError, NoProject
from maestro_state.models.message import Event, id_order
from maestro_state.models.names import is_stream_id
from maestro_state.serve.hub import ALL, ENDS, STOPPING, Follower, Hub, changed, listed, wire
from maestro_state.state.calls.events import START, started_event
from maestro_state.vocabulary import FROZEN

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from maestro_state.serve.request import Request

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
_STALLED_S = 30.0


async def follow_session(request: Request) -> Response | None:
    """Follow a session: every event after `Last-Event-ID` or `from` (start, now or an id), then those that come."""
    maestro = request.maestro
    source = await maestro.sessions.source(request.ref)
    session = await source.record()
    wanted, now = _wanted(request, "now"), None
    is_over = source.archived or session.state in FROZEN
    cursor = START if wanted == "start" else wanted
    if wanted == "now":
        if is_over:
            return Response(status_code=204)
        cursor = now = await maestro.follow.newest(session.id) or START
    if is_over:
        return await _ended(request, session.id, cursor)
    if request.scope["method"] == "HEAD":
        return Response(None, 200, {"cache-control": "no-store"}, "text/event-stream")
    stream = _Stream(request)
    await stream.begin(now)
    await stream.run(_from_hub(stream, request, session.id, cursor))
    return None


async def follow_all(request: Request) -> Response | None:
    """Follow all sessions: the row of each that changed after `Last-Event-ID` or `from`; without, all rows first."""
    wanted = _wanted(request, "start")
    if request.scope["method"] == "HEAD":
        return Response(None, 200, {"cache-control": "no-store"}, "text/event-stream")
    with suppress(NoProject):
        # Before anything is sent: that the state server is away is an error, and no stream that ends at once.
        await request.maestro.follow.newest_change()
    stream = _Stream(request)
    await stream.begin()
    await stream.run(_all(stream, request, wanted))
    return None


def _wanted(request: Request, otherwise: str) -> str:
    """Return where to go on: start, now or an id. What a browser says when it comes back counts before the address."""
    wanted: str = request.headers.get("last-event-id") or request.query.from_ or otherwise
    if wanted not in ("now", "start") and not is_stream_id(wanted):
        raise InvalidValue(f"'{wanted[:40]}' is not the id of an event", hint="from=start, from=now, or an id")
    return wanted


def _place(cursor: str) -> bytes:
    """Return what has a browser come back with an id, and is no event."""
    return b"id: %s\n\n" % cursor.encode()


async def _ended(request: Request, session_id: str, cursor: str) -> Response | None:
    """Send what is left of a session that is over; who has seen its end already gets 204, and comes back no more."""
    last = id_order(cursor)
    found: Any = request.maestro.follow.events(session_id, cursor=cursor)
    async with aclosing(found) as events:
        first = await anext(events, None)
        end = first if first is None or first.type in ENDS else None
        if first is None or (end is None and await _was_told(request, session_id, last)):
            return Response(status_code=204)
        stream = _Stream(request)
        await stream.begin()

        async def rest() -> None:
            await stream.send(wire(first))
            if first.type not in ENDS:
                await _send_until_end(stream, events, first.id)
            await stream.end()

        await stream.run(rest())
    return None


async def _was_told(request: Request, session_id: str, last: tuple[int, int]) -> bool:
    """Tell whether the end of a session is not after an id: what comes behind it is nobody's to wait for."""
    source = await request.maestro.sessions.source(session_id)
    before = f"{last[0]}-{max(0, last[1] - 1)}" if last[1] else f"{max(0, last[0] - 1)}-{2**32}"
    async for event in source.events(before, printed=False):
        return id_order(event.id) <= last and event.type in ENDS
    return False


async def _send_until_end(stream: _Stream, events: AsyncIterator[Event], cursor: str) -> str | None:
    """Send events, some at a time; return the id of the last one, None when the session is over with it."""
    pieces, size = [], 0
    async for event in events:
        pieces.append(wire(event))
        size += len(pieces[-1])
        cursor, is_end = event.id, event.type in ENDS
        if size >= _PIECE or is_end:
            await stream.send_past(b"".join(pieces))
            pieces, size = [], 0
        if is_end:
            return None
    if pieces:
        await stream.send_past(b"".join(pieces))
    return cursor


async def _from_hub(stream: _Stream, request: Request, session_id: str, cursor: str) -> None:
    """Send what happened since the cursor, then what the hub has: read behind, joined where both have the same."""
    if cursor == START:
        session = await request.maestro.sessions.read(session_id)
        await stream.send(wire(started_event(session, from_iso(session.created_at))))
    last = await _catch_up(stream, request, session_id, cursor)
    hub = await request.app.hubs.join(session_id)
    async with _kept_for(stream, request, hub) as follower:
        if last is not None:
            # Once more: what happened before the hub had us.
            last = await _catch_up(stream, request, session_id, last)
        await _send_news(stream, hub, follower, id_order(last) if last else None)


async def _catch_up(stream: _Stream, request: Request, session_id: str, cursor: str) -> str | None:
    """Send what the server has after an id; return the last id that was sent, None when the session is over with it."""
    source = await request.maestro.sessions.source(session_id)
    return await _send_until_end(stream, source.events(cursor), cursor)


@asynccontextmanager
async def _kept_for(stream: _Stream, request: Request, hub: Hub) -> AsyncIterator[Follower]:
    """Have the hub keep for a follower what comes; cut off one that it has lost."""
    follower = Follower(hub.next)
    hub.followers.add(follower)
    try:
        yield follower
    except asyncio.CancelledError:
        if not follower.lost:
            raise
        stream.abort()
    finally:
        request.app.hubs.detach(hub, follower)


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


async def _all(stream: _Stream, request: Request, wanted: str) -> None:
    """Send what changed in any session since a place, then what the hub has."""
    hub = await request.app.hubs.join(ALL)
    async with _kept_for(stream, request, hub) as follower:
        try:
            cursor = await _catch_up_with_all(stream, request, wanted)
        except NoProject:
            # Nobody began a session here yet. Who looks stays: the first one is told like any other.
            cursor = START
            await stream.send(_place(cursor))
        await _send_news(stream, hub, follower, id_order(cursor))


async def _catch_up_with_all(stream: _Stream, request: Request, wanted: str) -> str:
    """Send what changed in any session since a place, all rows where that place is not known; return the last id."""
    follow = request.maestro.follow
    if wanted == "now":
        cursor = await follow.newest_change()
        await stream.send(_place(cursor))
    elif wanted == "start" or not await follow.has_changes_since(wanted):
        cursor = await follow.newest_change()
        rows = await request.maestro.sessions.list()
        await stream.send_past(b"".join(map(listed, reversed(rows))))
        # The place comes behind the last of them: who loses the line before it begins anew.
        await stream.send(_place(cursor))
    else:
        cursor = wanted
    while changes := await follow.changes(cursor):
        await stream.send_past(b"".join(map(changed, changes)))
        cursor = changes[-1].id
    return cursor


class _Stream:
    """The line to one follower."""

    __slots__ = ("_is_cut", "_receive", "_request", "_send")

    def __init__(self, request: Request) -> None:
        self._request, self._send, self._receive = request, request.send, request.receive
        self._is_cut = False

    async def begin(self, now: str | None = None) -> None:
        """Send the headers, and when to come back; to who begins now, where that is: the line may be lost before there
        is any event to come back with.
        """
        await self._send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        await self.send(_RETRY + (_place(now) if now else b""))

    async def send(self, data: bytes) -> None:
        """Send; waits while the follower does not read."""
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def send_past(self, data: bytes) -> None:
        """Send what is read for this follower alone; one that takes nothing for long is let go."""
        try:
            async with asyncio.timeout(_STALLED_S):
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
        transport: Any = getattr(getattr(unwrap(self._request.send), "__self__", None), "transport", None)
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

        def cut() -> None:
            self.abort()
            me.cancel()

        watching = asyncio.create_task(watch())
        try:
            with self._request.app.revocations.staying(self._request.caller, cut):
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
