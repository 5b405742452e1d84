"""Shapes that all others are made of, and errors."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

Text = Annotated[str, Meta(min_length=1)]
Line = Annotated[str, Meta(min_length=1, max_length=1000)]
StreamId = Annotated[str, Meta(pattern=r"^[0-9]{1,19}-[0-9]{1,19}$")]
#: Rows on a page of a list, at most.
PAGE_MAX = 1000
Limit = Annotated[int, Meta(ge=1, le=PAGE_MAX)]
Seconds = Annotated[int, Meta(ge=1, le=10 * 365 * 24 * 3600)]
#: As long as a request may wait for something: proxies cut those that take a minute.
Wait = Annotated[float, Meta(ge=0, le=55)]


class Said(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a request says; a name that is not known is refused, not passed over."""


class Nothing(Said, frozen=True, kw_only=True):
    """Nothing."""


class PageQuery(Said, frozen=True, kw_only=True):
    """Which part of a list: at most so many rows, after a cursor."""

    limit: Limit | None = None
    cursor: Line | None = None


class ErrorText(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong: a stable name, one line, and what to do next."""

    code: str
    message: str
    hint: str | None


class ErrorDocument(msgspec.Struct, frozen=True):
    """Any failure."""

    error: ErrorText
