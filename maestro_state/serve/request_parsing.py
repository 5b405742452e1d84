"""Reading what a request says: bounded, typed, refused with one line when it is something else."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import msgspec

from maestro_state.net.threads import in_thread
from maestro_state.serve.request import Failure

if TYPE_CHECKING:
    from starlette.datastructures import Headers
    from starlette.types import Receive

#: How deep JSON may be nested.
DEPTH = 64
_NESTING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[{]|[\]}]', re.DOTALL)
#: Bytes from which on a body is read by a thread: one of megabytes takes as long as hundreds of other requests.
_LARGE = 64 * 1024
#: Bytes of bodies that are coming which are held for one caller; more where a single one may be larger.
HELD_MAX = 256 * 1024 * 1024
_JSON = re.compile(r"application/(?:[\w.+-]+\+)?json\s*(?:;.*)?", re.IGNORECASE)


class Coming:
    """Bodies that are coming. Each is bounded, but may take its time, and a caller may begin many."""

    def __init__(self) -> None:
        """Begin with none."""
        self._held = Counter[str]()

    @contextmanager
    def of(self, caller: str, limit: int) -> Iterator[Callable[[int], None]]:
        """Count pieces of a caller's body, which may have so many bytes, while this lasts; refuse one too many."""
        mine, most = 0, max(limit, HELD_MAX)

        def hold(size: int) -> None:
            nonlocal mine
            if self._held[caller] + size > most:
                told = "too much of you is coming at once"
                raise Failure(429, "too_many_requests", told, "wait for an answer", {"retry-after": "1"})
            self._held[caller] += size
            mine += size

        try:
            yield hold
        finally:
            self._held[caller] -= mine
            if not self._held[caller]:
                del self._held[caller]


def read_query(query_string: bytes, shape: type[Any]) -> Any:
    """Return the query as its shape; a name twice is refused."""
    if not query_string and not shape.__struct_fields__:
        return shape()
    try:
        pairs = parse_qsl(query_string.decode("ascii"), keep_blank_values=True, max_num_fields=32, errors="strict")
    except ValueError:
        raise _bad("the query cannot be read") from None
    values = dict(pairs)
    if len(values) != len(pairs):
        raise _bad("the query names something twice")
    try:
        found = msgspec.convert(values, shape, strict=False)
        for said, name in zip(shape.__struct_encode_fields__, shape.__struct_fields__, strict=True):
            if said in values and getattr(found, name) is None:  # a query cannot say null, it leaves things out
                raise _bad(f"the query is not valid: null is no value of {said}")
        return found
    except (msgspec.ValidationError, OverflowError) as error:
        raise _bad(f"the query is not valid: {error}") from None


async def read_body(
    receive: Receive, headers: Headers, shape: type[Any], limit: int, hold: Callable[[int], None]
) -> Any:
    """Return the body as its shape. None at all is an empty object: requests that need nothing may say nothing."""
    declared = headers.get("content-length", "")
    if declared.isdigit() and int(declared) > limit:
        raise _too_large(limit)
    has_body = declared not in ("", "0") or "transfer-encoding" in headers
    if has_body or "content-type" in headers:
        check_json(headers)
    if has_body and headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise Failure(415, "unsupported_media_type", "the body is compressed", "send it as it is")
    content = await _whole(receive, limit, hold) if has_body else b""
    return await in_thread(_decoded, content, shape) if len(content) > _LARGE else _decoded(content, shape)


def _decoded(content: bytes, shape: type[Any]) -> Any:
    if content.count(b"[") + content.count(b"{") > DEPTH:
        _check_depth(content)
    try:
        return msgspec.json.decode(content or b"{}", type=shape)
    except (msgspec.ValidationError, msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise _bad(f"the body is not valid: {error}") from None


def check_json(headers: Headers) -> None:
    """Refuse what a form of any site could send."""
    if not _JSON.fullmatch(headers.get("content-type", "")):
        raise Failure(415, "unsupported_media_type", "the body is not JSON", "send Content-Type: application/json")


async def _whole(receive: Receive, limit: int, hold: Callable[[int], None]) -> bytes:
    parts, size, more = [], 0, True
    while more:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise _bad("the body is not complete")
        part = event.get("body", b"")
        size += len(part)
        if size > limit:
            raise _too_large(limit)
        hold(len(part))
        parts.append(part)
        more = event.get("more_body", False)
    return b"".join(parts)


def _check_depth(content: bytes) -> None:
    depth = 0
    for found in _NESTING.finditer(content):
        char = found[0]
        if char in (b"[", b"{"):
            depth += 1
            if depth > DEPTH:
                raise _bad(f"the body is nested more than {DEPTH} deep")
        elif char in (b"]", b"}"):
            depth -= 1


def _bad(message: str) -> Failure:
    return Failure(400, "usage", message, "see /openapi.json")


def _too_large(limit: int) -> Failure:
    return Failure(413, "content_too_large", f"the body is larger than {limit} bytes", "add a file by its path")
