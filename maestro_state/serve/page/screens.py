"""The page over HTTP: its HTML and its files, each with a policy that lets nothing from elsewhere in."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

from starlette.responses import Response

from maestro_state.errors import MaestroError, ServerUnavailable
from maestro_state.serve.page import html
from maestro_state.serve.request import Failure, status_of

if TYPE_CHECKING:
    from maestro_state.serve.request import Request

_TYPES = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8", "svg": "image/svg+xml"}
#: Rows that are there before any script is; the script has all.
_ROWS = 100
_HEADERS = {
    "content-security-policy": html.POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


def _html(text: str, status: int = 200) -> Response:
    return Response(text, status, _HEADERS | {"cache-control": "no-store"}, "text/html; charset=utf-8")


def _viewer(request: Request) -> html.Viewer:
    """Tell the page who looks at it, and whether they may change anything."""
    may_change = request.caller.role != "read" and not request.app.options.read_only
    return html.Viewer(may_change, request.caller.user if request.caller.token_id else None)


async def index(request: Request) -> Response:
    """The page that lists sessions."""
    try:
        rows = await request.maestro.sessions.list()
    except ServerUnavailable as error:
        return away(error)
    return _html(html.index([row.document() for row in rows[:_ROWS]], _viewer(request)))


async def session(request: Request) -> Response:
    """The page of one session."""
    try:
        source = await request.maestro.sessions.source(request.ref)
        return _html(html.session((await source.record()).id, _viewer(request)))
    except ServerUnavailable as error:
        return away(error)
    except MaestroError as error:
        return _html(html.refused(str(error), error.hint, _viewer(request)), status_of(error))


async def work(request: Request) -> Response:
    """The page of work sessions."""
    return _html(html.screen("/work", _viewer(request)))


async def discussions(request: Request) -> Response:
    """The page of discussions."""
    return _html(html.screen("/discussions", _viewer(request)))


async def usage(request: Request) -> Response:
    """The page of what runs consumed."""
    return _html(html.screen("/usage", _viewer(request)))


async def health(request: Request) -> Response:
    """The page of tools, workers and checks."""
    return _html(html.screen("/health", _viewer(request)))


def away(error: MaestroError | None = None) -> Response:
    """The page until the state server answers; who asked may not be known then, and is not told what is wrong."""
    return _html(html.away(str(error) if error else None, error.hint if error else None), 503)


def elsewhere(path: str) -> Response:
    """The page for who followed another site's link: shown nothing, and led to what it meant by a link of our own."""
    return _html(html.elsewhere(path), 403)


def nowhere() -> Response:
    """The page for an address that somebody mistyped."""
    return _html(html.refused("There is no page at this address.", None), 404)


def sign_in() -> Response:
    """The page that asks for a token."""
    return _html(html.sign_in(), 401)


def read_static() -> dict[str, bytes]:
    """Return the files of the page by name; read once, when the server starts."""
    folder = files("maestro_state.serve.page") / "static"
    return {entry.name: entry.read_bytes() for entry in folder.iterdir() if entry.name.rpartition(".")[2] in _TYPES}


async def static(request: Request) -> Response:
    """A file of the page."""
    name = request.path["file"]
    content = request.app.static.get(name)
    if content is None:
        raise Failure(404, "not_found", f"the page has no file '{name[:40]}'")
    kind = _TYPES[name.rpartition(".")[2]]
    return Response(content, 200, _HEADERS | {"cache-control": "no-cache", "content-type": kind})
