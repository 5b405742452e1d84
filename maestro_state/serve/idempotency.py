"""Requests with an Idempotency-Key: done once, and answered again with the first answer, by whichever process.

What is asked is noted before it is done. So a request that was cut off in between, with the process that did it, is
never done a second time: who repeats it is told that nobody knows. Messages, runs and sayings know their own repeats,
for a minute and on the state server itself; those are simply done again while that is sure.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec
from starlette.responses import Response

from maestro_state.errors import NotFound, Refused, UsageError
from maestro_state.serve.request import Failure, document, encode

if TYPE_CHECKING:
    from maestro_state.serve.request import Request

#: How long an answer is kept, in milliseconds.
KEEP_MS = 24 * 3600 * 1000
#: How long the state server surely knows a repeat by itself, in milliseconds: half of what it promises.
_KNOWN_MS = 30_000
#: The header of an answer that was given before.
REPLAYED = "idempotency-replayed"


class Kept(msgspec.Struct, frozen=True, omit_defaults=True):
    """A request that was noted, and the answer when there is one."""

    said: str  #: digest of what it said
    status: int = 0
    content: bytes = b""
    location: str | None = None


_read = msgspec.json.Decoder(Kept).decode


async def answered_once(
    request: Request, key: str, handle: Callable[[], Awaitable[Response | None]]
) -> Response | None:
    """Return the first answer to a request with this key; do it if there was none."""
    server = request.app.maestro.server
    place, said = server.terms.keys.answer(key), sha256(encode(request.body)).hexdigest()
    noted = encode(Kept(said))
    is_first, found, left_ms = await server.connection.calls(
        [("SET", place, noted, "NX", "PX", KEEP_MS), ("GET", place), ("PTTL", place)],
    )
    if not is_first and found is not None:
        kept = _read(found)
        if kept.said != said:
            raise Failure(409, "key_reused", "another request had this Idempotency-Key", "choose a new key")
        if kept.status:
            return _again(kept)
        is_known = request.route.knows_repeats and not request.is_loose and KEEP_MS - int(left_ms) < _KNOWN_MS
        if not is_known:
            raise Failure(
                409, "unanswered", "the first request with this Idempotency-Key was not answered yet",
                "ask again; if it was cut off, look whether it was done", {"retry-after": "1"},
            )  # fmt: skip
    try:
        answer = await handle()
    except (UsageError, NotFound, Refused, Failure):
        await server.connection.call("DEL", place)  # nothing was done: whoever mends it may try again
        raise
    if answer is not None:
        kept = Kept(said, answer.status_code, bytes(answer.body), answer.headers.get("location"))
        await server.connection.call("SET", place, encode(kept), "PX", KEEP_MS)
    return answer


def _again(kept: Kept) -> Response:
    headers = {REPLAYED: "true"} | ({"location": kept.location} if kept.location else {})
    return document(msgspec.Raw(kept.content), kept.status, headers)
