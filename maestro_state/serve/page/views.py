"""What the page asks for beside the documents of the API: a session as it is drawn."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from maestro_state.models.message import Event, id_order
from maestro_state.serve.request import document
from maestro_state.state.calls.events import START

if TYPE_CHECKING:
    from starlette.responses import Response

    from maestro_state.live.source import AsyncSource
    from maestro_state.serve.request import Request

#: Messages at the end that come rendered: what is seen first. All others are asked for when they come into view.
_READY = 8
#: Seconds that they are waited for.
_READY_S = 0.25


async def timeline(request: Request) -> Response:
    """Tell what happened in a session: the last messages, or the last before an id, with all that was between them.

    `cursor` is the newest id that was looked at: whoever follows the session from there on misses nothing.
    """
    maestro, query = request.maestro, request.query
    source = await maestro.sessions.source(request.ref)
    record = await source.record()
    session_id = record.id
    # Before anything is read: ids only rise, so nothing at or before this one comes later.
    until = query.before or await maestro.follow.newest(session_id) or START
    messages = await maestro.messages.last(query.last, session_id, before=query.before)
    found = [Event(one.id, "message.added", one.document()) for one in messages]
    is_more = len(found) == query.last
    if not source.archived:
        found = [one for one in found if id_order(one.id) <= id_order(until)]
    since = found[0].id if is_more and found else None
    found += await _stored(source, since, query.before, until)
    found.sort(key=lambda event: id_order(event.id))
    rows: list[dict[str, Any]] = [event.document() for event in found]
    if query.before is None:
        await _make_ready(request, [row for row in rows if row["type"] == "message.added"][-_READY:])
    return document({"events": rows, "cursor": until, "more": is_more, "user": record.user_id})


async def _stored(source: AsyncSource, since: str | None, before: str | None, until: str) -> list[Event]:
    """Return the events of a span that are no messages and no output."""
    if not source.archived:
        pages = source.event_pages(since or "-", f"({before}" if before else until)  # type: ignore[union-attr]
        return [event async for page in pages for event in page]
    first, last = id_order(since or START), id_order(before) if before else None
    return [
        event
        async for event in source.events(START, printed=False)
        if event.type != "message.added" and first <= id_order(event.id) and (not last or id_order(event.id) < last)
    ]


async def _make_ready(request: Request, rows: list[dict[str, Any]]) -> None:
    """Render what is seen first, unless that takes long: then the page shows text, and asks for the rest itself."""
    rendering = asyncio.ensure_future(request.app.renderer.render([row["data"]["content"] for row in rows]))
    done, _ = await asyncio.wait({rendering}, timeout=_READY_S)
    for row, html in zip(rows, rendering.result() if done else (), strict=False):
        row["html"] = html


async def render(request: Request) -> Response:
    """Return texts as HTML that can do nothing."""
    return document({"html": await request.app.renderer.render(request.body.texts)})
