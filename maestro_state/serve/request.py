"""One request as handlers see it, and what they answer with."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.responses import Response

from maestro_state.errors import (
    ContentTooLarge,
    InvalidValue,
    MaestroError,
    NotFound,
    NoWorker,
    Refused,
    ServerUnavailable,
    UsageError,
)
from maestro_state.models.names import is_session_id
from maestro_state.models.trace import parse_traceparent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.datastructures import Headers
    from starlette.types import Receive, Scope, Send

    from maestro_state.aio.maestro import AsyncMaestro
    from maestro_state.serve.app import App
    from maestro_state.serve.routes import Route

encode = msgspec.json.Encoder().encode

#: Longest Idempotency-Key, and what may be in it.
_KEY_MAX = 200
_KEY = re.compile(rf"[!-~]{{1,{_KEY_MAX}}}")


class Caller(msgspec.Struct, frozen=True):
    """Who asks."""

    user: str | None = None  #: None: whoever started the server
    role: str = "admin"  #: read, write or admin
    token_id: str | None = None
    given_id: str | None = None  #: the token that was given out: of a browser's cookie, the one it signed in with


class Request:
    """A request that was let in: the route it is for, and what it says."""

    __slots__ = ("app", "body", "caller", "headers", "maestro", "path", "query", "receive", "route", "scope", "send")

    def __init__(
        self, app: App, route: Route, path: dict[str, str], caller: Caller, headers: Headers,
        wire: tuple[Scope, Receive, Send],
    ) -> None:  # fmt: skip
        """Take what is known before anything of it was read."""
        self.app, self.route, self.path, self.caller, self.headers = app, route, path, caller, headers
        self.scope, self.receive, self.send = wire
        self.maestro: AsyncMaestro
        self.query: Any = None
        self.body: Any = None

    @property
    def ref(self) -> str:
        """The session that is meant."""
        return self.path["ref"]

    @property
    def sender(self) -> str:
        """Whose it is: a token's, with the browsers that signed in by it, or an address's."""
        return self.caller.given_id or str((self.scope.get("client") or ("",))[0])

    @property
    def fields(self) -> dict[str, Any]:
        """What the body says, by name: verbs take it by the same names."""
        return msgspec.structs.asdict(self.body)

    @property
    def is_loose(self) -> bool:
        """Whether the session is named by what may mean another one tomorrow: a slug, the end of an id, `latest`."""
        return "ref" in self.path and not is_session_id(self.ref)

    async def settle(self) -> None:
        """Find the session that is meant once: what changes it, and what is written down of it, mean the same one."""
        if self.is_loose:
            self.path["ref"] = await self.maestro.sessions.resolve(self.ref)

    def key(self) -> str | None:
        """Return the key by which a repeat is known, if the request has one: of this user, for this route."""
        given = self.headers.get("idempotency-key")
        if given is None:
            return None
        if not _KEY.fullmatch(given):
            raise InvalidValue("not a usable Idempotency-Key", hint=f"1 to {_KEY_MAX} characters, a UUID for example")
        where = (self.route.method, self.route.path, *self.path.values())
        text = "\0".join((self.caller.user or "", *where, given))
        return sha256(text.encode()).hexdigest()[:32]


class Failure(MaestroError):
    """A refusal that only HTTP has."""

    def __init__(
        self, status: int, code: str, message: str, hint: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        """Take the status, the stable name, and one line."""
        super().__init__(message, hint=hint)
        self.status, self.code, self.headers = status, code, dict(headers or {})


def trace_of(headers: Headers) -> dict[str, str]:
    """Return what lines of the log say of the trace that a request is part of, if its caller traces."""
    span = parse_traceparent(headers.get("traceparent"))
    return {"trace_id": span.trace_id, "span_id": span.span_id} if span else {}


def state_server_away() -> Failure:
    """Return what somebody who is not known yet is told of a server that does not answer: not where it is."""
    return Failure(503, ServerUnavailable.code, "the state server is away", "ask again", {"retry-after": "1"})


def check_command(request: Request, tool: str | None, arguments: Sequence[str] = ()) -> None:
    """Refuse whole command lines, and words for a tool, from who is no admin: that is running programs at will."""
    from maestro_state.tools import names

    if request.caller.role != "admin" and (arguments or (tool is not None and tool.strip() not in names())):
        raise Failure(
            403, "forbidden", "command lines and arguments of tools are for admins",
            "name a tool of GET /v1/tools, or ask for a token with --admin",
        )  # fmt: skip


#: Of every document: it is nobody's page, nobody's frame, and kept by nobody.
_HEADERS = [
    (b"content-type", b"application/json"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-content-type-options", b"nosniff"),
]


class Document(Response):
    """One JSON document. Its headers are ready: making them anew took as long as finding the route."""

    def __init__(self, content: bytes, status: int, headers: Mapping[str, str] | None) -> None:
        """Take what is sent."""
        self.status_code, self.body, self.background = status, content, None
        more = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()] if headers else []
        self.raw_headers = [*_HEADERS, (b"content-length", b"%d" % len(content)), *more]


def document(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Answer with one JSON document."""
    return Document(encode(value), status, headers)


#: Kind of error → status; the first that fits.
_STATUSES: tuple[tuple[type[MaestroError], int], ...] = (
    (ContentTooLarge, 413),
    (NoWorker, 409),
    (UsageError, 400),
    (NotFound, 404),
    (Refused, 409),
    (ServerUnavailable, 503),
)


def status_of(error: MaestroError) -> int:
    """Return the status that an error is answered with."""
    if isinstance(error, Failure):
        return error.status
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)


def refusal(error: MaestroError) -> Response:
    """Answer with what went wrong, in the form that commands print."""
    status = status_of(error)
    headers = error.headers if isinstance(error, Failure) else {"retry-after": "1"} if status == 503 else {}
    text = " ".join(str(error).split())
    return document({"error": {"code": error.code, "message": text, "hint": error.hint}}, status, headers)
