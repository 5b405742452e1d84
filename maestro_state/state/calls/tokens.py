"""Calls on the tokens that `maestro serve` lets people in by. A token is `mst_ID_SECRET`; the server has its digest."""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import sha256
from hmac import compare_digest
from typing import Any

import msgspec

from maestro_state.clock import iso
from maestro_state.errors import InvalidValue, NotFound, Refused
from maestro_state.models.schema import check
from maestro_state.models.token import ROLES, StoredToken, Token
from maestro_state.state.calls.replies import is_ok, text
from maestro_state.state.calls.terms import Terms
from maestro_state.state.scripts import Call, Query, load

#: How long the list is kept after a token was last made or used, in milliseconds.
KEEP_MS = 400 * 24 * 3600 * 1000
#: Tokens at most.
TOKENS_MAX = 10_000
_TOKEN = re.compile(r"mst_([a-z0-9]{6})_([A-Za-z0-9_-]{43})", re.ASCII)
_USER = re.compile(r"[\w.@+-]{1,64}")


def token_text(token_id: str, secret: str) -> str:
    """Return a token as its user is given it."""
    return f"mst_{token_id}_{secret}"


def id_of(token: str) -> str | None:
    """Return the id in a token; None for what is none."""
    found = _TOKEN.fullmatch(token)
    return found[1] if found else None


def digest_of(token: str) -> str:
    """Return what is stored of a token. Its secret has 256 random bits: nobody finds it by trying."""
    return sha256(token.encode()).hexdigest()


def is_token(stored: StoredToken | None, token: str, now_ms: int) -> bool:
    """Tell whether a token is the stored one and counts; takes as long for one that is nearly right as for any."""
    is_same = compare_digest(digest_of(token), stored.digest if stored else "0" * 64)
    return stored is not None and is_same and (not stored.ends_ms or now_ms < stored.ends_ms)


def check_user(user: str) -> str:
    """Return the name; refuse what could be mistaken for something else."""
    if not _USER.fullmatch(user):
        raise InvalidValue(f"{user[:40]!r} is not a user's name", hint="letters, digits and . _ @ + -, at most 64")
    return user


def add_token(terms: Terms, token_id: str, row: StoredToken) -> Call:
    """Remember a token; False when there is one of this id."""
    if row.role not in ROLES:
        raise InvalidValue(f"'{row.role[:20]}' is no role", hint=f"one of {', '.join(ROLES)}")

    def read(reply: list[Any]) -> bool:
        if text(reply[0]) == "FULL":
            raise Refused(f"there are {TOKENS_MAX} tokens already", hint="maestro token revoke ID")
        return text(reply[0]) == "OK"

    args = (token_id, msgspec.json.encode(row), KEEP_MS, TOKENS_MAX, row.made_ms)
    return Call(load("add_token"), terms.keys.token, args, read)


def use_token(terms: Terms, token_id: str, now_ms: int) -> Call:
    """Note that a token was used."""
    args = (token_id, now_ms, KEEP_MS)
    return Call(load("use_token"), terms.keys.token, args, is_ok)


def revoke_token(terms: Terms, token_id: str) -> Call:
    def read(reply: list[Any]) -> str:
        if text(reply[0]) != "OK":
            raise NotFound(f"there is no token '{token_id[:40]}'", hint="maestro token list")
        return token_id

    return Call(load("revoke_token"), terms.keys.token, (token_id,), read)


def read_token(terms: Terms, token_id: str) -> Query:
    """Read what is stored of a token, and of the one that it came from; None where there is none."""

    def read(reply: bytes | None) -> StoredToken | None:
        return None if reply is None else _stored(token_id, reply)

    return Query(("HGET", terms.keys.token[0], token_id), read)


def read_tokens(terms: Terms, token_ids: Sequence[str]) -> Query:
    """Read what is stored of some tokens, by id; those that are not there are left out."""

    def read(reply: list[bytes | None]) -> dict[str, StoredToken]:
        rows = zip(token_ids, reply, strict=True)
        return {token_id: _stored(token_id, row) for token_id, row in rows if row is not None}

    return Query(("HMGET", terms.keys.token[0], *token_ids), read)


def list_tokens(terms: Terms) -> Query:
    """Read all tokens, oldest first."""

    def read(reply: list[bytes]) -> list[Token]:
        rows = {name.decode(): _stored(name.decode(), row) for name, row in zip(reply[::2], reply[1::2], strict=True)}
        ordered = sorted(rows.items(), key=lambda row: (row[1].made_ms, row[0]))
        return [shown(token_id, row) for token_id, row in ordered]

    return Query(("HGETALL", terms.keys.token[0]), read)


def _stored(token_id: str, row: bytes) -> StoredToken:
    found = msgspec.json.decode(row, type=StoredToken)
    check(f"token {token_id}", str(found.schema).encode())
    return found


def shown(token_id: str, row: StoredToken) -> Token:
    """Return a token as lists show it."""
    return Token(
        id=token_id,
        user=row.user,
        role=row.role,
        created_at=iso(row.made_ms),
        expires_at=iso(row.ends_ms) if row.ends_ms else None,
        last_used_at=iso(row.used_ms) if row.used_ms else None,
        parent=row.parent or None,
    )
