"""The ASGI application: finds the route, has the guards look at the request, reads it, answers."""

from __future__ import annotations

from collections import OrderedDict
from functools import cached_property
from typing import TYPE_CHECKING, Any

from starlette.datastructures import Headers

from maestro_state.aio.maestro import AsyncMaestro
from maestro_state.errors import MaestroError
from maestro_state.local.logs import get_logger
from maestro_state.net.threads import in_thread
from maestro_state.serve.asked import Asked, Failure, refusal, status_of
from maestro_state.serve.guards import Guards
from maestro_state.serve.hub import Hubs
from maestro_state.serve.openapi import openapi_document
from maestro_state.serve.pages import read_static
from maestro_state.serve.pages import sign_in as sign_in_page
from maestro_state.serve.reading import read_body, read_query
from maestro_state.serve.routes import ROUTES, WEB, Paths, names_of
from maestro_state.serve.signing_in import Codes

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import Receive, Scope, Send

    from maestro_state.serve.options import Options

log = get_logger("maestro.serve")

#: Users whose connections are kept open at a time.
_USERS = 64
#: Bytes of a body beside the content it carries.
_AROUND = 1024 * 1024


class App:
    """One project or team over HTTP."""

    def __init__(self, options: Options, *, project: Any = None, **settings: Any) -> None:
        """Take the options; nothing is opened before `open`."""
        self.options = options
        self.routes = ROUTES + (WEB if options.web else ())
        self.static: dict[str, bytes] = {}
        self._project, self._settings = project, settings
        self._paths = Paths(self.routes)
        self.maestro = AsyncMaestro(project, **settings)
        self.hubs = Hubs(self.maestro)
        self.guards = Guards(options)
        self.codes = Codes()
        self._of_users: OrderedDict[str, AsyncMaestro] = OrderedDict()

    async def open(self) -> None:
        """Read settings and scripts."""
        await self.maestro.open()
        if self.options.web:
            self.static = await in_thread(read_static)

    def entrance(self, url: str) -> str:
        """Return the address to open a browser with: its one-time code is behind the #, which nobody is sent."""
        return f"{url}/#signin={self.codes.make()}" if self.options.require_auth else f"{url}/"

    async def end_streams(self) -> None:
        """Tell everybody who listens to come back: this process stops."""
        await self.hubs.close()

    async def close(self) -> None:
        """Let go of the connections."""
        for maestro in (*self._of_users.values(), self.maestro):
            await maestro.close()
        self._of_users.clear()

    @cached_property
    def openapi(self) -> dict[str, Any]:
        """What is served, as OpenAPI tells it."""
        return openapi_document(self.routes)

    async def for_user(self, user: str | None) -> AsyncMaestro:
        """Return the Maestro that does things in a user's name."""
        if user is None or user == self.maestro.settings.user:
            return self.maestro
        found = self._of_users.get(user)
        if found is None:
            found = await AsyncMaestro(self._project, **{**self._settings, "user": user}).open()
            self._of_users[user] = found
            if len(self._of_users) > _USERS:
                _, oldest = self._of_users.popitem(last=False)
                await oldest.close()
        self._of_users.move_to_end(user)
        return found

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        if scope["type"] != "http":
            return
        try:
            answer = await self._answer(scope, receive, send)
        except MaestroError as error:
            answer = refusal(error)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this request's alone
            log.error("request_failed", method=scope["method"], error=f"{type(error).__name__}: {error}")
            answer = refusal(Failure(500, "internal", f"unexpected {type(error).__name__}", "the log has more"))
        if answer is not None:
            await answer(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            event = await receive()
            if event["type"] == "lifespan.startup":
                try:
                    await self.open()
                except MaestroError as error:
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
        matched = self._paths.find(scope.get("raw_path") or scope["path"].encode())
        if matched is None:
            raise Failure(404, "not_found", "there is nothing at this path", "see /openapi.json")
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        route = matched.routes.get(method)
        if route is None:
            allowed = ", ".join(sorted(matched.routes))
            raise Failure(405, "method_not_allowed", f"this path has {allowed}", headers={"allow": allowed})
        try:
            caller = await self.guards.check_caller(self.maestro, route, headers)
        except Failure as failure:
            if failure.status == 401 and route in WEB:
                return sign_in_page()
            raise
        path = dict(zip(names_of(route), matched.values, strict=True))
        asked = Asked(self, route, path, caller, headers, (scope, receive, send))
        asked.query = read_query(scope["query_string"], route.query)
        if route.body is not None:
            limit = self.maestro.settings.max_blob_bytes + _AROUND
            asked.body = await read_body(receive, headers, route.body, limit)
        asked.maestro = await self.for_user(caller.user)
        if route.needs != "write":
            return await route.handler(asked)
        status = 500
        try:
            answer = await route.handler(asked)
            status = answer.status_code if answer is not None else 200
            return answer
        except MaestroError as error:
            status = status_of(error)
            raise
        finally:
            self._note(asked, status)

    def _note(self, asked: Asked, status: int) -> None:
        """Write down who changed what; never what was said."""
        user, token_id = asked.caller.user or self.maestro.settings.user, asked.caller.token_id
        did = f"{asked.route.method} {asked.route.path}"
        log.info("audit", user=user, by=token_id, did=did, session=asked.path.get("ref"), status=status)
