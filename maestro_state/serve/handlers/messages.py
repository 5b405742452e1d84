"""Messages of a session: read and added."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Raw

from maestro_state.net.threads import in_verb_thread
from maestro_state.serve.request import Failure, document, encode

if TYPE_CHECKING:
    from starlette.responses import Response

    from maestro_state.api.maestro import Maestro
    from maestro_state.models.message import Message
    from maestro_state.serve.request import Request

#: Messages that are read and written by the event loop: with more, others would wait for their turn.
_FEW = 100


async def read_messages(request: Request) -> Response:
    """Read messages: the last 20, the last N, those after one, or the last N before one."""
    query = request.query
    if sum((query.for_model, query.since is not None, query.before is not None)) > 1:
        raise Failure(400, "usage", "since, before and for_model say different things", "leave out all but one")
    count = query.last or 20
    if query.for_model or query.since is not None or count > _FEW:
        return await in_verb_thread(_read_many, request.maestro.blocking, query, request.ref)
    return _answer(await request.maestro.messages.last(count, request.ref, before=query.before))


def _read_many(maestro: Maestro, query: Any, ref: str) -> Response:
    """Read what may be much, in a thread."""
    room = maestro.messages
    if query.for_model:
        return _answer(room.for_model(ref))
    if query.since is not None:
        found = room.since(query.since, ref)
        return _answer(found[-query.last :] if query.last else found)
    return _answer(room.last(query.last, ref, before=query.before))


def _answer(found: list[Message]) -> Response:
    # One by one: the loop has no turn while one of them is written, and would have none while all of them are.
    return document({"messages": [Raw(encode(one.document())) for one in found]})


async def add_message(request: Request) -> Response:
    """Add a message."""
    room = request.maestro.messages
    added = await room.add(ref=request.ref, idempotency_key=request.key(), **request.fields)
    by = {"user": request.caller.user} if request.caller.user else {}
    return document(added.document() | by, 201)
