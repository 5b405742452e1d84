"""Discussions, and replaying what they decided. By id only: at the command line a path names one too, which here would
open any file of the machine that serves.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.responses import Response

from maestro_state.errors import AmbiguousReference, DiscussionNotFound, InvalidValue
from maestro_state.models import strict_json
from maestro_state.models.discussion import meta_document
from maestro_state.serve.pagination import page
from maestro_state.serve.request import document

if TYPE_CHECKING:
    from maestro_state.serve.request import Request

_REF = re.compile(r"[0-9a-fA-F-]{4,36}|latest")


async def _id(request: Request) -> str:
    """Return the id that is meant: a full one, its beginning, or the one last changed."""
    ref = request.path["discussion"]
    if not _REF.fullmatch(ref):
        raise DiscussionNotFound(ref[:40])
    rows = (await request.maestro.discussions.list()).rows
    ids = [row.meta.session_id for row in rows]
    found = ids[:1] if ref == "latest" else [one for one in ids if one.startswith(ref.lower())]
    if not found:
        raise DiscussionNotFound(ref)
    if len(found) > 1:
        raise AmbiguousReference(ref, found)
    return found[0]


def _document(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Answer with what may hold any text JSON can, half surrogate pairs too."""
    try:
        return document(value, status, headers)
    except UnicodeEncodeError:
        return document(msgspec.Raw(strict_json.line(value).rstrip()), status, headers)


async def list_discussions(request: Request) -> Response:
    """List discussions, last changed first."""
    listing = await request.maestro.discussions.list()
    rows = [row for row in listing.rows if request.query.status in (None, row.meta.status)]
    rows.sort(key=lambda row: (row.meta.updated_at, row.meta.session_id), reverse=True)
    shown, more = page(rows, request.query, lambda row: (row.meta.updated_at, row.meta.session_id), is_falling=True)
    damaged = [{"path": name, "reason": reason} for name, reason in listing.damaged.items()]
    told = {"damaged": damaged} if damaged else {}
    return _document({"discussions": [row.document() for row in shown], **told, **more})


async def start_discussion(request: Request) -> Response:
    """Start a discussion about something, to end in what a contract allows."""
    meta = await request.maestro.discussions.start(**request.fields)
    return _document(meta_document(meta), 201, {"location": f"/v1/discussions/{meta.session_id}"})


async def show_discussion(request: Request) -> Response:
    """Show a discussion with its events."""
    return _document((await request.maestro.discussions.show(await _id(request))).document())


async def show_discussion_prompt(request: Request) -> Response:
    """Show what a tool is handed to take part: what it may answer, and the conversation so far."""
    return _document({"prompt": await request.maestro.discussions.prompt(await _id(request))})


async def say(request: Request) -> Response:
    """Say something in an open discussion."""
    ref = await _id(request)
    event = await request.maestro.discussions.say(ref=ref, idempotency_key=request.key(), **request.fields)
    return _document({"session_id": ref, **msgspec.structs.asdict(event)}, 201)


async def finish_discussion(request: Request) -> Response:
    """End a discussion with its final JSON; without one, with the JSON its assistant said last."""
    try:
        final = strict_json.read(bytes(request.body.final_json))
    except ValueError as error:
        raise InvalidValue(f"the final JSON is not JSON: {error}", hint='{"patch_operations": […]}') from error
    return _document(meta_document(await request.maestro.discussions.done(final, await _id(request))))


async def replay_discussion(request: Request) -> Response:
    """Apply what a discussion decided to the plan files, or only plan it; no AI is asked."""
    outcome = await request.maestro.discussions.replay(await _id(request), dry_run=request.body.dry_run)
    return _document(outcome.document())


async def show_plan(request: Request) -> Response:
    """Tell the page what replaying a discussion would change; looking leaves nothing in it."""
    return _document((await request.maestro.discussions.plan(await _id(request))).document())


async def migrate_discussions(request: Request) -> Response:
    """Convert the project's discussions of older formats; the originals stay as they are."""
    return _document(msgspec.to_builtins(await request.maestro.discussions.migrate(dry_run=request.body.dry_run)))
