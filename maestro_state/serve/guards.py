"""Who is let in: by which name they ask, from which site, with which token, how often.

A page of another site can have a browser ask anything on this machine, and a name of another site can be made to lead
here: what such requests cannot hide is their Host, their Origin and their fetch metadata. All three are looked at
before anything of a request is read.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from maestro_state.serve.asked import Caller, Failure
from maestro_state.serve.options import LOOPBACK

if TYPE_CHECKING:
    from starlette.datastructures import Headers
    from starlette.types import Scope

    from maestro_state.aio.maestro import AsyncMaestro
    from maestro_state.serve.options import Options
    from maestro_state.serve.routes import Route

#: The cookie of a browser that signed in; under TLS its name says that it came over nothing else.
COOKIE, SECURE_COOKIE = "maestro", "__Host-maestro"
#: Requests a second of one token, on the long run, and at once.
RATE, BURST = 100.0, 1000.0
_CALLERS = 4096
_RANKS = {"none": 0, "read": 1, "write": 2, "admin": 3}


class Guards:
    """The checks, in their order."""

    def __init__(self, options: Options) -> None:
        """Take the names that it may be asked by."""
        self._options = options
        named = options.host if options.host not in ("0.0.0.0", "::") else "localhost"  # noqa: S104 - not bound here
        self._names = {_plain(name) for name in (*LOOPBACK, *options.allow_hosts, named)}
        self._spent: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def check_site(self, scope: Scope, headers: Headers) -> None:
        """Refuse who asks by another name, or for another site."""
        hosts = headers.getlist("host")
        if len(hosts) != 1 or _plain(hosts[0]) not in self._names:
            shown = hosts[0][:80] if hosts else ""
            raise Failure(421, "wrong_host", f"'{shown}' is no name of this server", "start it with --allow-host NAME")
        origin = headers.get("origin")
        if origin is not None and not _is_same(origin, hosts[0]):
            raise Failure(403, "other_site", "asked by another site", "open the page that this server serves")
        site = headers.get("sec-fetch-site")
        is_read = scope["method"] in ("GET", "HEAD")
        if site == "cross-site" or (site == "same-site" and not is_read):
            raise Failure(403, "other_site", "asked by another site", "open the page that this server serves")

    async def check_caller(self, maestro: AsyncMaestro, route: Route, headers: Headers) -> Caller:
        """Return who asks; refuse a token that does not count, and one that may not do this."""
        caller = await self._caller(maestro, route, headers)
        if _RANKS[caller.role] < _RANKS[route.needs]:
            raise Failure(403, "read_only", "this token only reads", "ask for one without --read-only")
        if self._options.read_only and _RANKS[route.needs] > _RANKS["read"] and route.path != "/v1/signin":
            raise Failure(403, "read_only", "this server only reads", "start it without --read-only")
        if caller.token_id is not None:
            self._check_rate(caller.token_id)
        return caller

    async def _caller(self, maestro: AsyncMaestro, route: Route, headers: Headers) -> Caller:
        if route.needs == "none":
            return Caller(role="read")
        given = headers.get("authorization")
        token = _bearer(given) if given is not None else cookie_of(headers)
        if token is not None and (given is not None or self._options.require_auth):
            found = await maestro.tokens.check(token)
            if found is not None:
                return Caller(found.user, found.role, found.id)
            raise _unauthorized("the token does not count: it is wrong, over or revoked")
        if self._options.require_auth:
            raise _unauthorized("a token is needed")
        return Caller()

    def _check_rate(self, token_id: str) -> None:
        """Let each token spend what flows to it, and what it has not spent of it before."""
        now = time.monotonic()
        left, since = self._spent.pop(token_id, (BURST, now))
        left = min(BURST, left + (now - since) * RATE) - 1
        self._spent[token_id] = (max(0.0, left), now)
        if len(self._spent) > _CALLERS:
            self._spent.popitem(last=False)
        if left < 0:
            raise Failure(429, "too_many_requests", "too many requests", "wait a moment", {"retry-after": "1"})


def cookie_of(headers: Headers) -> str | None:
    """Return the token in the cookie of a browser that signed in."""
    for part in headers.get("cookie", "").split(";"):
        name, _, value = part.strip().partition("=")
        if name in (COOKIE, SECURE_COOKIE):
            return value
    return None


def _bearer(header: str) -> str:
    scheme, _, token = header.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _unauthorized(message: str) -> Failure:
    hint = "maestro token add USER makes one; send it as Authorization: Bearer TOKEN"
    return Failure(401, "unauthorized", message, hint, {"www-authenticate": 'Bearer realm="maestro"'})


def _plain(host: str) -> str:
    """Return a name without its port, small, and without the dot that ends it."""
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    if host.count(":") == 1:
        host = host.partition(":")[0]
    return host.removesuffix(".")


def _is_same(origin: str, host: str) -> bool:
    try:
        found = urlsplit(origin)
    except ValueError:
        return False
    return found.scheme in ("http", "https") and found.netloc.lower() == host.strip().lower()
