"""Reading what a request says: bounded, typed, refused with one line when it is something else."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import msgspec

from maestro_state.serve.asked import Failure

if TYPE_CHECKING:
    from starlette.datastructures import Headers
    from starlette.types import Receive

#: How deep JSON may be nested.
DEPTH = 64
_NESTING = re.compile(rb'"(?:[^"\\]|\\.)*"?|[\[{]|[\]}]', re.DOTALL)
_JSON = re.compile(r"application/(?:[\w.+-]+\+)?json\s*(?:;.*)?", re.IGNORECASE)


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


async def read_body(receive: Receive, headers: Headers, shape: type[Any], limit: int) -> Any:
    """Return the body as its shape. None at all is an empty object: requests that need nothing may say nothing."""
    declared = headers.get("content-length", "")
    if declared.isdigit() and int(declared) > limit:
        raise _too_large(limit)
    has_body = declared not in ("", "0") or "transfer-encoding" in headers
    if (has_body or "content-type" in headers) and not _JSON.fullmatch(headers.get("content-type", "")):
        raise Failure(415, "unsupported_media_type", "the body is not JSON", "send Content-Type: application/json")
    content = await _whole(receive, limit) if has_body else b""
    if content.count(b"[") + content.count(b"{") > DEPTH:
        _check_depth(content)
    try:
        return msgspec.json.decode(content or b"{}", type=shape)
    except (msgspec.ValidationError, msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise _bad(f"the body is not valid: {error}") from None


async def _whole(receive: Receive, limit: int) -> bytes:
    parts, size, more = [], 0, True
    while more:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise _bad("the body is not complete")
        part = event.get("body", b"")
        size += len(part)
        if size > limit:
            raise _too_large(limit)
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
