"""Who does something for a whole team, and what the next one goes on from."""

from __future__ import annotations

import msgspec


class Lease(msgspec.Struct, frozen=True):
    """The right to do something; without a fence it is somebody else's, for `left_ms` more at most."""

    fence: str | None
    holder: str = ""
    swept_at: int = 0  #: server time in milliseconds, 0 for never
    cleaned_at: int = 0
    left_ms: int = 0
    notes: dict[str, str] = {}  #: what the last one left for the next
