"""Signing in with a browser: a token is exchanged for a cookie that no script reads and no other site sends."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from starlette.responses import Response

from maestro_state.clock import new_secret
from maestro_state.errors import MaestroError, NoProject, ServerUnavailable
from maestro_state.local.listening import users_between
from maestro_state.local.logs import get_logger
from maestro_state.net.threads import in_thread
from maestro_state.serve.authentication import address_of, cookie_name, cookie_of, is_secure_only
from maestro_state.serve.request import Failure, document, state_server_away, trace_of

if TYPE_CHECKING:
    from starlette.types import Scope

    from maestro_state.models.token import Token
    from maestro_state.serve.request import Request

log = get_logger("maestro.serve")

#: How long a browser stays signed in, in days.
_DAYS = 30
#: How long a one-time code counts, in seconds: as long as a browser takes to start.
_CODE_S = 120.0


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

    def has(self, code: str) -> bool:
        """Tell whether there is such a code."""
        return code in self._codes

    @contextmanager
    def spent(self, code: str) -> Iterator[bool]:
        """Take a code; give it back if what is done with it fails. False when there is none such, or none any more."""
        until_s = self._codes.pop(code, 0.0)
        try:
            yield until_s > time.monotonic()
        except MaestroError:
            self._codes[code] = until_s
            raise


async def sign_in(request: Request) -> Response:
    """Exchange a token, or a one-time code, for a cookie."""
    app, given = request.app, request.body.token
    if not app.codes.has(given) or await in_thread(_may_be_ours, request.scope):
        with app.codes.spent(given) as is_code:
            if is_code:
                return await _signed_in(request, app.maestro.settings.user, "admin", None)
    try:
        found = await _found(request, given)
    except ServerUnavailable:
        raise state_server_away() from None
    if found is None:
        app.guards.note_failure(request.scope, request.headers, request.route, 401)
        raise Failure(401, "unauthorized", "the token does not count", "maestro token add USER makes one",
                      {"www-authenticate": 'Bearer realm="maestro"'})  # fmt: skip
    # Of the token that somebody was given, never of another cookie: with it goes whatever was made by it.
    return await _signed_in(request, found.user, found.role, found.parent or found.id)


def _may_be_ours(scope: Scope) -> bool:
    """Tell whether a connection may be of who started this.

    While a browser starts, everybody on the machine can read in its command line what it was given: a code is of no use
    to them, nor spent by them. What came through a proxy has no port; where the system does not tell whose a connection
    is, the code is enough.
    """
    port, own = (scope.get("client") or ("", 0))[1], (scope.get("server") or ("", 0))[1]
    return bool(port) and users_between(port, own or 0) <= {os.getuid()}


async def _signed_in(request: Request, user: str, role: str, parent: str | None) -> Response:
    made = await request.app.maestro.tokens.add(user, role=role, days=_DAYS, parent=parent)
    log.info("signed_in", user=user, by=parent, address=address_of(request.scope), **trace_of(request.headers))
    return document({"user": made.user, "role": made.role}, 200, {"set-cookie": _cookie(request, made.token, _DAYS)})


async def sign_out(request: Request) -> Response:
    """Forget the cookie, here and there."""
    token = cookie_of(request.scope, request.headers, request.app.options)
    found = await _found(request, token) if token else None
    if found is not None:
        await request.app.maestro.tokens.revoke(found.id)
        by, trace = found.parent or found.id, trace_of(request.headers)
        log.info("signed_out", user=found.user, by=by, address=address_of(request.scope), **trace)
    return document({"user": None, "role": None}, 200, {"set-cookie": _cookie(request, "", 0)})


async def _found(request: Request, token: str) -> Token | None:
    try:
        return await request.app.maestro.tokens.check(token)
    except NoProject:  # nobody was given any yet
        return None


def _cookie(request: Request, value: str, days: int) -> str:
    name = cookie_name(request.scope, request.app.options)
    secure = "; Secure" if is_secure_only(request.app.options) else ""
    return f"{name}={value}; Path=/; Max-Age={days * 24 * 3600}; HttpOnly; SameSite=Strict{secure}"
