"""Signing in with a browser: a token is exchanged for a cookie that no script reads and no other site sends."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from starlette.responses import Response

from maestro_state.clock import new_secret
from maestro_state.serve.asked import Caller, Failure, document
from maestro_state.serve.guards import COOKIE, SECURE_COOKIE, cookie_of

if TYPE_CHECKING:
    from maestro_state.serve.asked import Asked

#: How long a browser stays signed in, in days.
_DAYS = 30
#: How long a one-time code counts, in seconds.
_CODE_S = 300.0


class Codes:
    """One-time codes of `maestro serve --open`: each signs one browser in, once, soon."""

    def __init__(self) -> None:
        """Begin with none."""
        self._codes: dict[str, float] = {}

    def make(self) -> str:
        """Return a new code."""
        code = new_secret()
        self._codes[code] = time.monotonic() + _CODE_S
        return code

    def spend(self, code: str) -> bool:
        """Take a code; False when there is none such, or none any more."""
        return self._codes.pop(code, 0.0) > time.monotonic()


async def sign_in(asked: Asked) -> Response:
    """Exchange a token, or a one-time code, for a cookie."""
    app, given = asked.app, asked.body.token
    if app.codes.spend(given):
        caller = Caller(app.maestro.settings.user)
        parent = None
    else:
        found = await app.maestro.tokens.check(given)
        if found is None:
            raise Failure(401, "unauthorized", "the token does not count", "maestro token add USER makes one",
                          {"www-authenticate": 'Bearer realm="maestro"'})  # fmt: skip
        caller, parent = Caller(found.user, found.role, found.id), found.id
    user = caller.user or app.maestro.settings.user
    made = await app.maestro.tokens.add(user, role=caller.role, days=_DAYS, parent=parent)
    return document({"user": made.user, "role": made.role}, 200, {"set-cookie": _cookie(asked, made.token, _DAYS)})


async def sign_out(asked: Asked) -> Response:
    """Forget the cookie, here and there."""
    token = cookie_of(asked.headers)
    found = await asked.app.maestro.tokens.check(token) if token else None
    if found is not None:
        await asked.app.maestro.tokens.revoke(found.id)
    return document({"user": None, "role": None}, 200, {"set-cookie": _cookie(asked, "", 0)})


def _cookie(asked: Asked, value: str, days: int) -> str:
    options = asked.app.options
    is_secure = options.tls or options.behind_proxy
    name, secure = (SECURE_COOKIE, "; Secure") if is_secure else (COOKIE, "")
    return f"{name}={value}; Path=/; Max-Age={days * 24 * 3600}; HttpOnly; SameSite=Strict{secure}"
