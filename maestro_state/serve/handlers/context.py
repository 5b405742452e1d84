"""The context of a session: files, texts and outputs that runs are sent."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING

from maestro_state.errors import InvalidValue
from maestro_state.serve.pagination import page
from maestro_state.serve.request import document

if TYPE_CHECKING:
    from starlette.responses import Response

    from maestro_state.serve.request import Request


async def list_context(request: Request) -> Response:
    """List what runs are sent, and which files differ from their snapshot by now."""
    items = await request.maestro.context.list(request.ref, everything=request.query.all)
    shown, more = page(items, request.query, lambda item: (item.id.rjust(24),))
    return document({"items": shown, **more})


async def add_context(request: Request) -> Response:
    """Add files of the project, or a text."""
    said = request.body
    paths = [*([said.path] if said.path is not None else []), *(said.paths or [])]
    if bool(paths) == (said.text is not None):
        raise InvalidValue("context is a path or a text", hint='send {"path": …} or {"text": …}')
    kind, things = ("file", paths) if paths else ("text", [said.text])
    added = await request.maestro.context.add(
        *things,
        ref=request.ref,
        kind=kind,
        labels=said.labels,
        note=said.note,
        again=said.again,
        force=said.force,
        folder=request.maestro.project.checkout,
    )
    return document(added, 201)


async def show_item(request: Request) -> Response:
    """Show an item of context with its content."""
    item, content = await request.maestro.context.show(request.path["item"], request.ref)
    try:
        return document({"item": item, "content": content.decode()})
    except UnicodeDecodeError:
        return document({"item": item, "content_base64": b64encode(content).decode()})


async def remove_item(request: Request) -> Response:
    """Take an item out of what runs are sent."""
    return document({"items": await request.maestro.context.remove(request.path["item"], ref=request.ref)})


async def clear_context(request: Request) -> Response:
    """Take every item out of what runs are sent; they stay in the history."""
    return document({"removed": await request.maestro.context.clear(request.ref)})


async def use_output(request: Request) -> Response:
    """Promote what a run printed, whole or in part, to an item of context."""
    return document(await request.maestro.context.use_output(ref=request.ref, **request.fields), 201)


async def refresh_context(request: Request) -> Response:
    """Take a new snapshot of files that changed, in the place of the old one."""
    said = request.body
    return document(await request.maestro.context.refresh(*said.items, ref=request.ref, force=said.force))
