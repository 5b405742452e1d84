"""The page over HTTP: its HTML and its files, each with a policy that lets nothing from elsewhere in."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

from starlette.responses import Response

from maestro_state.serve.asked import Failure
from maestro_state.serve.page import pages

if TYPE_CHECKING:
    from maestro_state.serve.asked import Asked

_TYPES = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8", "svg": "image/svg+xml"}
_HEADERS = {
    "content-security-policy": pages.POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


def _html(text: str, status: int = 200) -> Response:
    return Response(text, status, _HEADERS | {"cache-control": "no-store"}, "text/html; charset=utf-8")


async def index(asked: Asked) -> Response:
    """The page that lists sessions."""
    return _html(pages.index([row.document() for row in await asked.maestro.sessions.list()]))


async def session(asked: Asked) -> Response:
    """The page of one session."""
    return _html(pages.session(await asked.maestro.sessions.resolve(asked.ref)))


def sign_in() -> Response:
    """The page that asks for a token."""
    return _html(pages.sign_in(), 401)


def read_static() -> dict[str, bytes]:
    """Return the files of the page by name; read once, when the server starts."""
    folder = files("maestro_state.serve.page") / "static"
    return {entry.name: entry.read_bytes() for entry in folder.iterdir() if entry.name.rpartition(".")[2] in _TYPES}


async def static(asked: Asked) -> Response:
    """A file of the page."""
    name = asked.path["file"]
    content = asked.app.static.get(name)
    if content is None:
        raise Failure(404, "not_found", f"the page has no file '{name[:40]}'")
    kind = _TYPES[name.rpartition(".")[2]]
    return Response(content, 200, _HEADERS | {"cache-control": "no-cache", "content-type": kind})
