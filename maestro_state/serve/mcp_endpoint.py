"""`/mcp`: the session for agents, over streamable HTTP, behind the same guards as everything else.

Who asks is told by the token: there is an MCP server for each user, reading only for who may only read, so that
nobody goes on with another's session of the protocol. The SDK takes a second to import: the first who asks waits.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from starlette.responses import Response

from maestro_state.net.threads import in_thread
from maestro_state.serve.request import Failure
from maestro_state.serve.request_parsing import check_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Message, Receive, Scope

    from maestro_state.serve.request import Request

#: Servers that are kept at a time, and of one user: who asks for ever more sessions ends nobody else's.
_KEPT, _EACH = 64, 16
#: Largest request.
_LARGEST = 32 << 20


def is_installed() -> bool:
    """Tell whether the extra `mcp` is there."""
    return find_spec("mcp") is not None


class Whose(NamedTuple):
    """Whom a server is for."""

    user: str | None
    session: str | None  #: which session they asked for; None: the active one of the project
    reads_only: bool
    command_lines: bool  #: whether runs may name any program


class Agents:
    """The MCP servers of one process."""

    def __init__(self, project: Any, settings: dict[str, Any]) -> None:
        """Take what a Maestro is made of."""
        self._project, self._settings = project, settings
        self._servers: OrderedDict[Whose, _Running] = OrderedDict()
        self._making = asyncio.Lock()
        self._is_closed = False

    async def of(self, whose: Whose) -> ASGIApp:
        """Return the application that serves somebody."""
        async with self._making:
            if self._is_closed:
                raise Failure(503, "stopping", "the server stops", "ask again", {"retry-after": "1"})
            found = self._servers.get(whose)
            if found is None or found.is_over:
                made = await in_thread(self._make, whose)
                found = self._servers[whose] = await _Running.begin(made)
                await self._end_some(whose.user)
            self._servers.move_to_end(whose)
        return found.application

    async def _end_some(self, user: str | None) -> None:
        """End the server that was asked longest ago: of a user who has too many, else of all."""
        theirs = [one for one in self._servers if one.user == user]
        if len(theirs) > _EACH:
            await self._servers.pop(theirs[0]).end()
        elif len(self._servers) > _KEPT:
            await self._servers.popitem(last=False)[1].end()

    def _make(self, whose: Whose) -> Any:
        from maestro_state.mcp import asgi_app, build_server

        settings = self._settings | ({"user": whose.user} if whose.user else {})
        if whose.session is not None:
            settings["session"] = whose.session
        server = build_server(
            project=self._project, read_only=whose.reads_only, command_lines=whose.command_lines, **settings
        )
        return asgi_app(server)

    async def close(self) -> None:
        """End every server; whoever is connected comes back."""
        self._is_closed = True
        for running in self._servers.values():
            await running.end()
        self._servers.clear()


class _Running:
    """One server, from its start to its end in a task of its own: what it opens must be closed where it was opened."""

    def __init__(self, application: Any) -> None:
        self.application: ASGIApp = application
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None]

    @classmethod
    async def begin(cls, application: Any) -> _Running:
        """Start it; return when it is ready."""
        running, ready = cls(application), asyncio.get_running_loop().create_future()
        running._task = asyncio.create_task(running._run(application, ready))
        await ready
        return running

    async def _run(self, application: Any, ready: asyncio.Future[None]) -> None:
        try:
            async with application.router.lifespan_context(application):
                ready.set_result(None)
                await self._stop.wait()
        except Exception as error:
            if ready.done():
                raise
            ready.set_exception(error)

    @property
    def is_over(self) -> bool:
        """Whether it serves nobody any more: something in it failed."""
        return self._task.done()

    async def end(self) -> None:
        """Stop it."""
        self._stop.set()
        with suppress(Exception):  # what goes wrong while it goes is nobody's to hear
            await self._task


async def talk(request: Request) -> Response | None:
    """Speak MCP, in the name of the token's user."""
    app, caller = request.app, request.caller
    if request.route.method == "POST":
        check_json(request.headers)
    reads_only = caller.role == "read" or app.options.read_only
    whose = Whose(caller.user, request.query.session, reads_only, command_lines=caller.role == "admin")
    serve = await app.agents.of(whose)
    me = asyncio.current_task()
    assert me is not None  # noqa: S101 - a request is always a task
    is_cut = False

    def cut() -> None:
        nonlocal is_cut
        is_cut = True
        me.cancel()

    def told(content: bytes) -> None:
        for tool in _called(content):
            app.note(request, 200, {"tool": tool} | ({"ref": request.query.session} if request.query.session else {}))

    try:
        with app.revocations.staying(caller, cut), app.coming.of(request.sender, _LARGEST) as hold:
            await serve(_vouched_for(request.scope), _bounded(request.receive, told, hold), request.send)
    except asyncio.CancelledError:
        if not is_cut:
            raise
        me.uncancel()
    return None


def _vouched_for(scope: Scope) -> Scope:
    """Return a request as the SDK is to see it: whose Host and Origin were looked at already."""
    headers = [(name, value) for name, value in scope["headers"] if name not in (b"host", b"origin")]
    return {**scope, "headers": [*headers, (b"host", b"localhost")]}


def _bounded(receive: Receive, told: Callable[[bytes], None], hold: Callable[[int], None]) -> Receive:
    """Return what receives a request, and no more than a request may be; when it is whole, it is told."""
    left, parts = _LARGEST, list[bytes]()

    async def bounded() -> Message:
        nonlocal left
        event = await receive()
        part = event.get("body", b"")
        left -= len(part)
        if left < 0:
            raise Failure(413, "content_too_large", f"the body is larger than {_LARGEST} bytes", "say less at once")
        hold(len(part))
        parts.append(part)
        if event["type"] == "http.request" and not event.get("more_body", False):
            told(b"".join(parts))
            parts.clear()
        return event

    return bounded


class _Parameters(msgspec.Struct):
    name: str = ""


class _Call(msgspec.Struct):
    """What is written down of a request of the protocol: which tool is called, never with what."""

    method: str = ""
    params: _Parameters = msgspec.field(default_factory=_Parameters)


_read = msgspec.json.Decoder(list[_Call] | _Call).decode


def _called(content: bytes) -> list[str]:
    """Return the tools that a request calls; none of what the SDK will refuse anyway."""
    try:
        found = _read(content)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return []
    return [one.params.name for one in (found if isinstance(found, list) else [found]) if one.method == "tools/call"]
