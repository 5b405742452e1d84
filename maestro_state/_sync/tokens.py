# Generated from maestro_state/live by `make generate`. Do not edit.
"""Tokens of `maestro serve`: made, listed and revoked by whoever may use the server; looked at when somebody asks."""

from __future__ import annotations

from collections.abc import Sequence

from maestro_state.clock import new_secret, new_suffix
from maestro_state._sync.server import Server
from maestro_state.models.token import NewToken, StoredToken, Token
from maestro_state.state.calls import tokens as ops

#: Inside the class, `list` is the verb.
TokenList = list[Token]

_DAY_MS = 24 * 3600 * 1000
#: How often it is noted that a token is in use, in milliseconds.
_NOTED_MS = 60_000


class Tokens:
    """Who may ask `maestro serve`. Only digests are stored."""

    def __init__(self, server: Server) -> None:
        """Take the server."""
        self._server = server

    def add(
        self, user: str, *, role: str = "write", days: int | None = None, parent: str | None = None
    ) -> NewToken:
        """Make a token for a user; what it is is told this once. `parent` is the token it is made with."""
        now_ms, secret = self._server.now_ms(), new_secret()
        ops.check_user(user)
        while True:
            token_id = new_suffix()
            token = ops.token_text(token_id, secret)
            row = StoredToken(
                digest=ops.digest_of(token),
                user=user,
                role=role,
                made_ms=now_ms,
                ends_ms=now_ms + days * _DAY_MS if days else 0,
                used_ms=0,
                parent=parent or "",
            )
            if self._server.run(ops.add_token(self._server.terms, token_id, row)):
                return NewToken(id=token_id, token=token, user=user, role=role)

    def list(self) -> TokenList:
        """List tokens, oldest first."""
        found: TokenList = self._server.fetch(ops.list_tokens(self._server.terms))
        return found

    def revoke(self, token_id: str) -> str:
        """Revoke a token, and with it those of browsers that signed in by it."""
        revoked: str = self._server.run(ops.revoke_token(self._server.terms, token_id))
        return revoked

    def check(self, token: str) -> Token | None:
        """Return the token if it counts, and note that it was used; None for every other text."""
        token_id, now_ms, terms = ops.id_of(token), self._server.now_ms(), self._server.terms
        stored: StoredToken | None = None
        if token_id is not None:
            stored = self._server.fetch(ops.read_token(terms, token_id))
        if not ops.is_token(stored, token, now_ms) or stored is None or token_id is None:
            return None
        if stored.parent:
            parent: StoredToken | None = self._server.fetch(ops.read_token(terms, stored.parent))
            if parent is None or (parent.ends_ms and parent.ends_ms <= now_ms):
                return None
        if now_ms - stored.used_ms >= _NOTED_MS:
            self._server.run(ops.use_token(terms, token_id, now_ms))
        return ops.shown(token_id, stored)

    def counting(self, token_ids: Sequence[str]) -> set[str]:
        """Return those of some tokens that count now: neither they nor what they were made with is revoked or over."""
        terms, now_ms = self._server.terms, self._server.now_ms()
        found: dict[str, StoredToken] = self._server.fetch(ops.read_tokens(terms, token_ids))
        parents = sorted({one.parent for one in found.values() if one.parent} - set(found))
        above: dict[str, StoredToken] = self._server.fetch(ops.read_tokens(terms, parents)) if parents else {}

        def counts(stored: StoredToken) -> bool:
            return not stored.ends_ms or now_ms < stored.ends_ms

        known = above | found
        return {
            token_id
            for token_id, stored in found.items()
            if counts(stored) and (not stored.parent or (stored.parent in known and counts(known[stored.parent])))
        }
