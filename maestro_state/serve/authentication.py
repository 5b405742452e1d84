"""Authentication and what comes before it: by which name a request asks, from which site, with which token.

A page of another site can have a browser ask anything on this machine, and a name of another site can be made to lead
here: what such requests cannot hide is their Host, their Origin and their fetch metadata. All three are looked at
before anything of a request is read.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from maestro_state.errors import NoProject
from maestro_state.local.logs import get_logger
from maestro_state.serve.options import LOOPBACK
from maestro_state.serve.rate_limit import RateLimit
from maestro_state.serve.request import Caller, Failure, trace_of

if TYPE_CHECKING:
    from starlette.datastructures import Headers
    from starlette.types import Scope

    from maestro_state.aio.maestro import AsyncMaestro
    from maestro_state.serve.options import Options
    from maestro_state.serve.routes import Route

log = get_logger("maestro.serve")

#: The cookie of a browser that signed in, and what its name begins with under TLS, which says that it came over nothing
#: else. Browsers keep one jar for all ports of a machine: without the port in it, servers of two projects would sign
#: people out of each other. Behind a proxy any of several servers may be asked, at whatever port.
COOKIE, SECURE = "maestro", "__Host-"
#: Requests a second of one token, on the long run, and at once: a thousand who follow by it open, lose and open again.
RATE, BURST = 100.0, 2000.0
#: Wrong tokens a second of one address, on the long run, and at once. Nobody finds a secret of 256 bits by asking: this
#: bounds what asking costs. Many people may share an address, and a wrong token should be told that it is wrong.
FAILING = (10.0, 500.0)
_RANKS = {"none": 0, "read": 1, "write": 2, "admin": 3}
#: Headers that decide something. Which of two would count is not the same everywhere: a proxy in front may have looked
#: at the other one.
_DECIDING = frozenset((
    b"authorization", b"content-encoding", b"content-type", b"idempotency-key", b"if-match", b"last-event-id",
    b"origin", b"sec-fetch-site",
))  # fmt: skip


def follows_link(scope: Scope, headers: Headers) -> bool:
    """Tell whether a person followed a link in a browser, into a page of its own: no script asked, no frame."""
    asked = tuple(headers.get(name) for name in ("sec-fetch-mode", "sec-fetch-dest"))
    return scope["method"] == "GET" and asked == ("navigate", "document") and "origin" not in headers


class Guards:
    """The checks, in their order."""

    def __init__(self, options: Options) -> None:
        """Take the names that it may be asked by."""
        self._options = options
        named = options.host if options.host not in ("0.0.0.0", "::") else "localhost"  # noqa: S104 - not bound here
        self._names = ({_plain(_bracketed(name)) for name in (*options.allow_hosts, named)} | {*LOOPBACK}) - {""}
        self._origins = frozenset(options.allow_origins)
        self._tokens, self._addresses = RateLimit(RATE, BURST), RateLimit(RATE, BURST)
        self._failed = RateLimit(*FAILING)

    def check_site(self, scope: Scope, headers: Headers) -> None:
        """Refuse who asks by another name, for another site that nobody named, or in two ways at once."""
        hosts = headers.getlist("host")
        if len(hosts) != 1 or _plain(hosts[0]) not in self._names:
            shown = hosts[0][:80] if hosts else ""
            raise Failure(421, "wrong_host", f"'{shown}' is no name of this server", "start it with --allow-host NAME")
        deciding = [name for name, _ in headers.raw if name in _DECIDING]
        if len(deciding) != len(set(deciding)):
            raise Failure(400, "usage", "a header that decides something is there twice", "send each of them once")
        origin = headers.get("origin")
        if origin in self._origins and cookie_of(scope, headers, self._options) is None:
            return
        if origin is not None and not self._is_same(origin, hosts[0]):
            raise Failure(403, "other_site", "asked by another site", "open the page that this server serves")
        site = headers.get("sec-fetch-site")
        is_read = scope["method"] in ("GET", "HEAD")
        if site == "cross-site" or (site == "same-site" and not is_read):
            raise Failure(403, "other_site", "asked by another site", "open the page that this server serves")

    def _is_same(self, origin: str, host: str) -> bool:
        """Tell whether a page is this server's own: under TLS one that came in the clear is anybody's."""
        try:
            found = urlsplit(origin)
        except ValueError:
            return False
        is_secure = found.scheme == "https" or not is_secure_only(self._options) or _plain(host) in LOOPBACK
        return found.scheme in ("http", "https") and is_secure and found.netloc.lower() == host.strip().lower()

    def is_named(self, origin: str | None) -> bool:
        """Tell whether pages of a site may ask."""
        return origin in self._origins

    async def check_caller(self, maestro: AsyncMaestro, route: Route, scope: Scope, headers: Headers) -> Caller:
        """Return who asks; refuse a token that does not count, one that may not do this, and who asks too often."""
        address = address_of(scope)
        if self._options.require_auth and route.needs == "none":
            self._addresses.spend(address)
        try:
            caller = await self._caller(maestro, route, scope, headers)
        except Failure as failure:
            if "authorization" not in headers and cookie_of(scope, headers, self._options) is None:
                raise  # nobody guesses: whoever opens the page is asked to sign in
            self.note_failure(scope, headers, route, failure.status)
            raise
        if caller.given_id is not None:
            self._tokens.spend(caller.given_id)
        try:
            self._check_role(caller, route)
        except Failure as failure:
            who = {"user": caller.user, "by": caller.given_id} if caller.given_id is not None else {}
            who |= trace_of(headers)
            log.info("refused", address=address, did=f"{route.method} {route.path}", status=failure.status, **who)
            raise
        return caller

    def _check_role(self, caller: Caller, route: Route) -> None:
        if self._options.read_only and _RANKS[route.needs] > _RANKS["read"]:
            raise Failure(403, "read_only", "this server only reads", "start it without --read-only")
        if _RANKS[caller.role] < _RANKS[route.needs]:
            code, hint = ("read_only", "ask for one without --read-only")
            if route.needs == "admin":
                code, hint = ("forbidden", "ask for one with --admin")
            raise Failure(403, code, f"this token may only {caller.role}", hint)

    def note_failure(self, scope: Scope, headers: Headers, route: Route, status: int) -> None:
        """Count somebody's wrong token and write it down; who has sent too many is told to wait instead, and no more
        is written.
        """
        address = address_of(scope)
        self._failed.spend(address)
        log.info("refused", address=address, did=f"{route.method} {route.path}", status=status, **trace_of(headers))

    async def _caller(self, maestro: AsyncMaestro, route: Route, scope: Scope, headers: Headers) -> Caller:
        if route.needs == "none":
            return Caller(role="read")
        given = headers.get("authorization")
        token = _bearer(given) if given is not None else cookie_of(scope, headers, self._options)
        if token is not None and (given is not None or self._options.require_auth):
            try:
                found = await maestro.tokens.check(token)
            except NoProject:  # nobody was given any yet
                found = None
            if found is not None:
                return Caller(found.user, found.role, found.id, found.parent or found.id)
            raise _unauthorized("the token does not count: it is wrong, over or revoked")
        if self._options.require_auth:
            raise _unauthorized("a token is needed")
        return Caller()


def address_of(scope: Scope) -> str:
    """Return where a request came from."""
    found: str = (scope.get("client") or ("",))[0]
    return found


def cookie_of(scope: Scope, headers: Headers, options: Options) -> str | None:
    """Return the token in the cookie of a browser that signed in. Only by the name that this server gives it: any
    neighbour can set the plain one, but not the one that TLS protects.
    """
    wanted = cookie_name(scope, options)
    for part in headers.get("cookie", "").split(";"):
        name, _, value = part.strip().partition("=")
        if name == wanted:
            return value
    return None


def cookie_name(scope: Scope, options: Options) -> str:
    """Return the name of the cookie."""
    if options.behind_proxy:
        return SECURE + COOKIE
    port = (scope.get("server") or ("", options.port))[1]
    return f"{SECURE if options.tls else ''}{COOKIE}-{port}"


def is_secure_only(options: Options) -> bool:
    """Tell whether browsers reach this by TLS only."""
    return options.tls or options.behind_proxy


def _bearer(header: str) -> str:
    scheme, _, token = header.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _unauthorized(message: str) -> Failure:
    hint = "maestro token add USER makes one; send it as Authorization: Bearer TOKEN"
    return Failure(401, "unauthorized", message, hint, {"www-authenticate": 'Bearer realm="maestro"'})


#: A name, or an address in brackets, and a port.
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^\[\]:]*))(?::[0-9]{1,5})?")


def _bracketed(name: str) -> str:
    """Return an address as it stands in a Host: of version 6 in brackets."""
    return f"[{name}]" if name.count(":") > 1 and not name.startswith("[") else name


@lru_cache(maxsize=64)
def _plain(host: str) -> str:
    """Return a name without its port, small, and without the dot that ends it; empty for what is none."""
    found = _HOST.fullmatch(host.strip().lower())
    if found is None:
        return ""
    return found[1] or found[2].removesuffix(".")
