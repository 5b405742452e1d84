"""Work sessions and their breadcrumbs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import NAMESPACE_URL, uuid4, uuid5

import msgspec

from maestro_state.clock import now_ms
from maestro_state.models.work import breadcrumb_of
from maestro_state.models.work_names import moment_ms, stamp_of
from maestro_state.serve.pagination import page
from maestro_state.serve.request import document
from maestro_state.work.tree import Filters

if TYPE_CHECKING:
    from starlette.responses import Response

    from maestro_state.serve.request import Request


def _filters(query: Any) -> Filters:
    now = now_ms()
    return Filters(
        session_type=query.type,
        status=query.status,
        depth=query.depth,
        since_ms=moment_ms(query.since, now) if query.since else None,
        until_ms=moment_ms(query.until, now) if query.until else None,
    )


async def list_work(request: Request) -> Response:
    """List work sessions, last modified first."""
    found = await request.maestro.work.list(_filters(request.query))
    ordered = sorted(found, key=lambda one: (one.modified, one.session_id), reverse=True)
    shown, more = page(ordered, request.query, lambda one: (one.modified, one.session_id), is_falling=True)
    return document({"sessions": shown, **more})


async def start_work(request: Request) -> Response:
    """Start a work session, under another one if told."""
    said = request.body
    started = await request.maestro.work.start(
        said.type,
        parent=said.parent,
        related_entity=said.entity,
        metadata=said.metadata,
        ttl_seconds=said.ttl_seconds,
    )
    return document(started, 201, {"location": f"/v1/wsessions/{started.session_id}"})


async def show_work(request: Request) -> Response:
    """Show one work session."""
    work = await request.maestro.work.read(request.path["work"])
    children = await request.maestro.work.children(work.id)
    more = {"children": [child.session_id for child in children], "breadcrumbs": work.accepted}
    return document(msgspec.structs.asdict(work.record) | more)


async def end_work(request: Request) -> Response:
    """End a work session for good; refused while children are open unless told what becomes of them."""
    said = request.body
    return document(await request.maestro.work.end(request.path["work"], said.status, children=said.children))


async def pause_work(request: Request) -> Response:
    """Mark a work session as one that nobody works on just now."""
    return document(await request.maestro.work.pause(request.path["work"]))


async def resume_work(request: Request) -> Response:
    """Mark a paused work session as running again."""
    return document(await request.maestro.work.resume(request.path["work"]))


async def show_trees(request: Request) -> Response:
    """Show every tree of work sessions."""
    nodes = await request.maestro.work.tree(None, _filters(request.query))
    return document({"tree": [node.document() for node in nodes]})


async def show_tree(request: Request) -> Response:
    """Show a work session with all under it."""
    nodes = await request.maestro.work.tree(request.path["work"], _filters(request.query))
    return document({"tree": [node.document() for node in nodes]})


async def list_breadcrumbs(request: Request) -> Response:
    """List what was accepted, and whether it is applied yet."""
    room, query = request.maestro.work, request.query
    found = await room.breadcrumbs(request.path["work"], _filters(query), with_children=query.children)
    rows = [(f"{place:09}", one) for place, one in enumerate(found)]
    shown, more = page(rows, query, lambda row: (row[0],))
    return document({"breadcrumbs": [one.document() for _, one in shown], **more})


async def add_breadcrumb(request: Request) -> Response:
    """Add a breadcrumb to a work session; the same breadcrumb_id, or Idempotency-Key, twice is once."""
    room, key = request.maestro.work, request.key()
    work = await room.read(request.path["work"])
    missing = {
        "timestamp": stamp_of(now_ms()),
        "breadcrumb_id": str(uuid4() if key is None else uuid5(NAMESPACE_URL, f"{work.id}/{key}")),
        "depth_level": work.depth,
        "parent_session_id": work.record.parent_session_id,
    }
    crumb = breadcrumb_of(msgspec.structs.asdict(request.body), **missing)
    added = await room.add_breadcrumb(work.id, crumb)
    await room.checkpoint(work.id)
    return document(added.document(), 201)


async def consume_breadcrumbs(request: Request) -> Response:
    """Apply what was accepted and what lies in the mailboxes, each exactly once."""
    return document(await request.maestro.work.consume(request.path["work"]))


async def show_timeline(request: Request) -> Response:
    """Show what happened in a work session and all under it, by time."""
    found = await request.maestro.work.timeline(request.path["work"], _filters(request.query))
    rows = [(f"{place:09}", one) for place, one in enumerate(found)]
    shown, more = page(rows, request.query, lambda row: (row[0],))
    return document({"events": [one.document() for _, one in shown], **more})


async def show_stats(request: Request) -> Response:
    """Add up tokens, cost, tools and models of a work session and all under it."""
    return document(await request.maestro.work.stats(request.path["work"], _filters(request.query)))
