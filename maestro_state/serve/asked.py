"""One request as handlers see it, and what they answer with."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.responses import Response

from maestro_state.errors import (
    ContentTooLarge,
    InvalidValue,
    MaestroError,
    NotFound,
    Refused,
    ServerUnavailable,
    UsageError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.datastructures import Headers
    from starlette.types import Receive, Scope, Send

    from maestro_state.aio.maestro import AsyncMaestro
    from maestro_state.serve.app import App
    from maestro_state.serve.routes import Route

encode = msgspec.json.Encoder().encode

#: Longest Idempotency-Key.
_KEY_MAX = 200


class Caller(msgspec.Struct, frozen=True):
    """Who asks."""

    user: str | None = None  #: None: whoever started the server
    role: str = "admin"  #: read, write or admin
    token_id: str | None = None


class Asked:
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

    def once(self) -> str | None:
        """Return the key by which a repeat is known, if the request has one: of this user, for this route."""
        given = self.headers.get("idempotency-key")
        if given is None:
            return None
        if not given or len(given) > _KEY_MAX:
            raise InvalidValue("the Idempotency-Key is no key", hint=f"1 to {_KEY_MAX} characters, a UUID for example")
        text = "\0".join((self.caller.user or "", self.route.method, self.route.path, given))
        return sha256(text.encode()).hexdigest()[:32]


class Failure(MaestroError):
    """A refusal that only HTTP has."""

    def __init__(
        self, status: int, code: str, message: str, hint: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        """Take the status, the stable name, and one line."""
        super().__init__(message, hint=hint)
        self.status, self.code, self.headers = status, code, dict(headers or {})


def document(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Answer with one JSON document."""
    told = {"cache-control": "no-store", "x-content-type-options": "nosniff"} | dict(headers or {})
    return Response(encode(value), status, told, "application/json")


def status_of(error: MaestroError) -> int:
    """Return the status that an error is answered with."""
    if isinstance(error, Failure):
        return error.status
    kinds = ((ContentTooLarge, 413), (UsageError, 400), (NotFound, 404), (Refused, 409), (ServerUnavailable, 503))
    return next((status for kind, status in kinds if isinstance(error, kind)), 500)


def refusal(error: MaestroError) -> Response:
    """Answer with what went wrong, in the form that commands print."""
    status = status_of(error)
    headers = error.headers if isinstance(error, Failure) else {"retry-after": "1"} if status == 503 else {}
    text = " ".join(str(error).split())
    return document({"error": {"code": error.code, "message": text, "hint": error.hint}}, status, headers)
