"""The ASGI application: finds the route, has the guards look at the request, reads it, answers."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import cached_property, partial, wraps
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from starlette.datastructures import Headers
from starlette.responses import Response

from maestro_state.aio.maestro import AsyncMaestro
from maestro_state.errors import MaestroError, ServerUnavailable
from maestro_state.local.logs import get_logger
from maestro_state.net.threads import in_thread
from maestro_state.serve.authentication import Guards, address_of, follows_link
from maestro_state.serve.hub import Hubs
from maestro_state.serve.idempotency import REPLAYED, answered_once
from maestro_state.serve.mcp_endpoint import Agents, is_installed
from maestro_state.serve.metrics import CALLER_S, metrics, written
from maestro_state.serve.openapi import openapi_document
from maestro_state.serve.page.screens import away as away_page
from maestro_state.serve.page.screens import elsewhere as elsewhere_page
from maestro_state.serve.page.screens import nowhere as nowhere_page
from maestro_state.serve.page.screens import read_static
from maestro_state.serve.page.screens import sign_in as sign_in_page
from maestro_state.serve.renderer import Renderer
from maestro_state.serve.request import Failure, Request, refusal, state_server_away, status_of, trace_of
from maestro_state.serve.request_parsing import Coming, read_body, read_query
from maestro_state.serve.routes import MCP, ROUTES, SCREENS, WEB, Paths, names_of
from maestro_state.serve.sign_in import Codes
from maestro_state.serve.token_revocation import RevocationWatch
from maestro_state.serve.users import Users
from maestro_state.serve.waits import Waits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import Message, Receive, Scope, Send

    from maestro_state.serve.options import Options

log = get_logger("maestro.serve")

#: Seconds between two signs that the stack is in use.
_STAY_S = 30.0
#: What a page of a site that was named may send; a cookie is not among it.
_PREFLIGHT = {
    "access-control-allow-headers": "authorization, content-type, idempotency-key, if-match, last-event-id",
    "access-control-max-age": "600",
}
#: Bytes of a body beside the content it carries.
_AROUND = 1024 * 1024
#: Largest body of who is not known yet, and the seconds it may take to come.
_UNKNOWN_CALLER_MAX, _UNKNOWN_CALLER_S = 16 * 1024, 30.0


class App:
    """One project or team over HTTP."""

    def __init__(self, options: Options, *, project: Any = None, **settings: Any) -> None:
        """Take the options; nothing is opened before `open`."""
        self.options = options
        self.routes = ROUTES + (WEB if options.web else ()) + (MCP if options.mcp and is_installed() else ())
        self.static: dict[str, bytes] = {}
        self._paths = Paths(self.routes)
        self.maestro = AsyncMaestro(project, **settings)
        self.hubs = Hubs(self.maestro)
        self.guards = Guards(options)
        self.revocations = RevocationWatch(self.maestro)
        self.agents = Agents(project, settings)
        self.codes = Codes()
        self.renderer = Renderer()
        self.waits = Waits()
        self.coming = Coming()
        #: Why it could not be opened.
        self.failure: Exception | None = None
        self._users = Users(self.maestro, project, settings)
        self._preparing: asyncio.Task[list[str]] | None = None
        self._staying: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Read settings and scripts."""
        await self.maestro.open()
        if self.options.web:
            self.static = await in_thread(read_static)
            self._preparing = asyncio.create_task(self.renderer.render([]))
        if self.options.keeps_stack:
            self._staying = asyncio.create_task(self._stay())

    async def _stay(self) -> None:
        """Keep a connection open, by which the stack knows that it is in use."""
        while True:
            with suppress(MaestroError):
                await self.maestro.server.connection.call("PING")
            await asyncio.sleep(_STAY_S)

    def entrance(self, url: str) -> str:
        """Return the address to open a browser with: its one-time code is behind the #, which nobody is sent."""
        return f"{url}/#signin={self.codes.make()}" if self.options.require_auth else f"{url}/"

    async def end_streams(self) -> None:
        """Tell everybody who listens to come back, and answer who waits: this process stops."""
        self.waits.end()
        await self.hubs.close()
        await self.agents.close()

    async def close(self) -> None:
        """Let go of the connections."""
        if self._preparing is not None:
            await self._preparing
        await self.renderer.close()
        await self.revocations.close()
        if self._staying is not None:
            self._staying.cancel()
        await self._users.close()
        await self.maestro.close()

    @cached_property
    def openapi(self) -> dict[str, Any]:
        """What is served, as OpenAPI tells it."""
        return openapi_document(self.routes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        if scope["type"] != "http":
            return
        if self.options.allow_origins and self.guards.is_named(origin := Headers(scope=scope).get("origin")):
            send = _with_origin(send, str(origin))
        try:
            answer = await self._answer(scope, receive, send)
        except MaestroError as error:
            answer = self._refused(error, scope)
        except asyncio.CancelledError:
            if not self.waits.is_over:
                raise
            # It took longer than a stop waits for anybody; whether it was done is to be seen.
            answer = refusal(Failure(503, "stopping", "the server stops", "ask again", {"retry-after": "1"}))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this request's alone
            trace = trace_of(Headers(scope=scope))
            log.error("request_failed", method=scope["method"], error=f"{type(error).__name__}: {error}", **trace)
            answer = refusal(Failure(500, "internal", f"unexpected {type(error).__name__}", "the log has more"))
        if answer is not None:
            await answer(scope, receive, send)

    def _refused(self, error: MaestroError, scope: Scope) -> Response:
        """Say what was refused; to a person who followed a link, or typed an address, with a page."""
        if self.options.web and isinstance(error, Failure) and follows_link(scope, Headers(scope=scope)):
            matched = self._paths.find(_path(scope))
            if error.code == "not_found" and matched is None:
                return nowhere_page()
            if error.code == "other_site" and matched is not None and matched.routes.get("GET") in SCREENS:
                return elsewhere_page(_path(scope).decode("latin-1"))
        return refusal(error)

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            event = await receive()
            if event["type"] == "lifespan.startup":
                try:
                    await self.open()
                except Exception as error:  # noqa: BLE001 - `serve` raises it: here nobody would see it
                    self.failure = error
                    await send({"type": "lifespan.startup.failed", "message": str(error)})
                    return
                await send({"type": "lifespan.startup.complete"})
            else:
                await self.close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> Response | None:
        headers = Headers(scope=scope)
        self.guards.check_site(scope, headers)
        matched = self._paths.find(_path(scope))
        if matched is None:
            raise Failure(404, "not_found", "there is nothing at this path", "see /openapi.json")
        if scope["method"] == "OPTIONS" and self.guards.is_named(headers.get("origin")):
            return Response(None, 204, _PREFLIGHT | {"access-control-allow-methods": ", ".join(sorted(matched.routes))})
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        route = matched.routes.get(method)
        if route is None:
            allowed = ", ".join(sorted(matched.routes))
            raise Failure(405, "method_not_allowed", f"this path has {allowed}", headers={"allow": allowed})
        try:
            async with asyncio.timeout(CALLER_S if route.handler is metrics else None):
                caller = await self.guards.check_caller(self.maestro, route, scope, headers)
        except Failure as failure:
            if failure.status == 401 and route in WEB:
                return sign_in_page()
            raise
        except (ServerUnavailable, TimeoutError):
            if route.handler is metrics:  # who asks cannot be known now; that the server is away is no secret
                return written(None, self.hubs.followers, headers.get("accept", ""))
            if route in SCREENS:
                return away_page()
            raise state_server_away() from None
        path = dict(zip(names_of(route), matched.values, strict=True))
        request = Request(self, route, path, caller, headers, (scope, receive, send))
        request.query = read_query(scope["query_string"], route.query)
        if route.body is not None:
            request.body = await self._body(request)
        if caller.user is None:
            request.maestro = self.maestro
            return await self._handle(request)
        async with self._users.acting_for(caller.user) as request.maestro:
            return await self._handle(request)

    async def _body(self, request: Request) -> Any:
        shape = request.route.body
        assert shape is not None  # noqa: S101 - looked at by who calls
        if request.route.needs != "none":
            limit = self.maestro.settings.max_blob_bytes + _AROUND
            with self.coming.of(request.sender, limit) as hold:
                return await read_body(request.receive, request.headers, shape, limit, hold)
        try:
            async with asyncio.timeout(_UNKNOWN_CALLER_S):
                with self.coming.of(request.sender, _UNKNOWN_CALLER_MAX) as hold:
                    return await read_body(request.receive, request.headers, shape, _UNKNOWN_CALLER_MAX, hold)
        except TimeoutError:
            raise Failure(400, "usage", "the body is not complete", "send it at once") from None

    async def _handle(self, request: Request) -> Response | None:
        route = request.route
        return await (self._change(request) if route.needs in ("write", "admin") else route.handler(request))

    async def _change(self, request: Request) -> Response | None:
        """Have something changed, once where the request has a key, and noted whatever comes of it."""
        route, status, answer = request.route, 500, None
        key = request.key() if route.once else None
        try:
            answer = await (
                _settled(request) if key is None else answered_once(request, key, partial(_settled, request))
            )
            status = answer.status_code if answer is not None else 200
            return answer
        except MaestroError as error:
            status = status_of(error)
            raise
        finally:
            self.note(request, status, request.path, answer)

    def note(self, request: Request, status: int, path: Mapping[str, str], answer: Response | None = None) -> None:
        """Write down who changed what, and the id of what was made; never what was said."""
        more: dict[str, Any] = trace_of(request.headers)
        if answer is not None and REPLAYED in answer.headers:
            more["again"] = True
        if answer is not None and (place := answer.headers.get("location")):
            more["made"] = unquote(place.rpartition("/")[2])
        # Of a browser the token that it signed in with: that is the one that somebody was given, and can be revoked.
        user, token_id = request.caller.user or self.maestro.settings.user, request.caller.given_id
        of = {name: value[:80] for name, value in path.items()}
        did, address = f"{request.route.method} {request.route.path}", address_of(request.scope)
        log.info("audit", user=user, by=token_id, address=address, did=did, of=of, status=status, **more)


def _path(scope: Scope) -> bytes:
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    return path


async def _settled(request: Request) -> Response | None:
    await request.settle()
    return await request.route.handler(request)


def _with_origin(send: Send, origin: str) -> Send:
    """Return what answers a page of a site that was named: with its name, so that its browser hands the answer on."""

    @wraps(send)  # a stream that is cut finds its transport behind it
    async def answer(event: Message) -> None:
        if event["type"] == "http.response.start":
            named = [(b"access-control-allow-origin", origin.encode("latin-1")), (b"vary", b"origin")]
            event = {**event, "headers": [*event["headers"], *named]}
        await send(event)

    return answer
