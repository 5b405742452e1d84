"""What goes into the archive of a conversation beside what was said, and what came of it."""

from __future__ import annotations

import msgspec

from maestro_state.histories.turns import Turned
from maestro_state.histories.values import Broken, Tokens
from maestro_state.models.session import Session


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What a session has that its history does not tell."""

    project: str
    user: str
    ttl_seconds: int
    now: str
    parent: str | None = None  #: of a sub-agent's: the session that called it
    children: list[dict[str, str]] = []


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one conversation."""

    session_id: str
    status: str  #: new, updated or unchanged
    messages: int
    runs: int
    tokens: Tokens
    cost: float | None
    session: Session | None  #: None when nobody says anything in it
    broken: list[Broken]
    broken_count: int


class Kept(msgspec.Struct):
    """What maestro.json keeps of an import."""

    turns: list[Turned] = []
    messages: int = 0
    children: list[dict[str, str]] = []
