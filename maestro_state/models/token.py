"""Tokens of `maestro serve` as values. What is secret of one is nowhere but with its user."""

from __future__ import annotations

import msgspec

#: What a token may do: read; also change; also remove what is others'.
ROLES = ("read", "write", "admin")


class Token(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A token as lists show it."""

    id: str
    user: str
    role: str
    created_at: str
    expires_at: str | None = None
    last_used_at: str | None = None
    parent: str | None = None  #: the token that somebody signed in with, of one that is a browser's


class NewToken(msgspec.Struct, frozen=True, kw_only=True):
    """A token that was just made: the only time it is seen whole."""

    id: str
    token: str
    user: str
    role: str


class StoredToken(msgspec.Struct, frozen=True, kw_only=True):
    """A token as the server has it: by its digest."""

    digest: str
    user: str
    role: str
    made_ms: int
    ends_ms: int  #: 0: when it is revoked
    used_ms: int  #: 0: never
    parent: str = ""
    schema: int = 1
