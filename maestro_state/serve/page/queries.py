"""What the page may ask of its own routes."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from maestro_state.serve.schemas.common import Said, StreamId


class TimelineQuery(Said, frozen=True, kw_only=True):
    """Which part of a conversation."""

    last: Annotated[int, Meta(ge=1, le=1000)] = 200
    before: StreamId | None = None


class RenderRequest(Said, frozen=True, kw_only=True):
    """Texts to show."""

    texts: Annotated[list[str], Meta(max_length=100)]
