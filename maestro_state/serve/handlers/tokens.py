"""Tokens of `maestro serve`, for admins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from maestro_state.serve.pagination import page
from maestro_state.serve.request import document

if TYPE_CHECKING:
    from starlette.responses import Response

    from maestro_state.serve.request import Request


async def list_tokens(request: Request) -> Response:
    """List tokens: whose they are, what they may, and when they were last used."""
    found = await request.maestro.tokens.list()
    shown, more = page(found, request.query, lambda one: (one.created_at, one.id))
    return document({"tokens": shown, **more})


async def add_token(request: Request) -> Response:
    """Make a token for a user; what it is is told this once."""
    made = await request.maestro.tokens.add(**request.fields)
    return document(made, 201, {"location": f"/v1/tokens/{made.id}"})


async def revoke_token(request: Request) -> Response:
    """Revoke a token, and with it those of browsers that signed in by it."""
    return document({"revoked": await request.maestro.tokens.revoke(request.path["id"])})
