"""The one table of routes: what is served, by whom it may be asked, what it takes and answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from maestro_state.models.context import Added
from maestro_state.models.run import Run
from maestro_state.models.session import Field, Session, SessionStatus
from maestro_state.models.usage import UsageReport
from maestro_state.serve import documents, events, pages, shapes, signing_in

if TYPE_CHECKING:
    from starlette.responses import Response

    from maestro_state.serve.asked import Asked

    Handler = Callable[[Asked], Awaitable[Response | None]]


class Route(NamedTuple):
    """One verb on one path. `needs` is the role: none, read or write."""

    method: str
    path: str
    handler: Handler
    answer: Any  #: the type of its document; None: it is none of JSON
    query: type[Any] = shapes.Nothing
    body: type[Any] | None = None
    status: int = 200
    needs: str = "read"
    once: bool = False  #: takes an Idempotency-Key


_S = "/v1/sessions/{ref}"

ROUTES = (
    Route("GET", "/v1/health", documents.health, shapes.Health, needs="none"),
    Route("GET", "/openapi.json", documents.openapi, Any),
    Route("GET", "/v1/sessions", documents.list_sessions, shapes.SessionRows, shapes.ListQuery),
    Route(
        "POST", "/v1/sessions", documents.start_session, Session, body=shapes.NewSession, status=201, needs="write"
    ),
    Route("GET", _S, documents.show_session, SessionStatus),
    Route("DELETE", _S, documents.delete_session, shapes.Deleted, shapes.DeleteQuery, needs="write"),
    Route("POST", f"{_S}/end", documents.end_session, Session, body=shapes.EndRequest, needs="write"),
    Route("POST", f"{_S}/abort", documents.abort_session, Session, body=shapes.AbortRequest, needs="write"),
    Route(
        "POST", f"{_S}/fork", documents.fork_session, Session, body=shapes.ForkRequest, status=201, needs="write"
    ),
    Route("GET", f"{_S}/messages", documents.read_messages, shapes.Messages, shapes.MessagesQuery),
    Route(
        "POST", f"{_S}/messages", documents.add_message, shapes.MessageDocument, body=shapes.NewMessage, status=201,
        needs="write", once=True,
    ),
    Route("GET", f"{_S}/events", events.follow_session, None, shapes.EventsQuery),
    Route("GET", "/v1/events", events.follow_all, None, shapes.EventsQuery),
    Route("GET", f"{_S}/context", documents.list_context, shapes.ListedItems, shapes.ContextQuery),
    Route("POST", f"{_S}/context", documents.add_context, Added, body=shapes.NewContext, status=201, needs="write"),
    Route("GET", f"{_S}/context/{{item}}", documents.show_item, shapes.ShownItem),
    Route("DELETE", f"{_S}/context/{{item}}", documents.remove_item, shapes.Items, needs="write"),
    Route("GET", f"{_S}/runs", documents.list_runs, shapes.Runs),
    Route(
        "POST", f"{_S}/runs", documents.start_run, Run, body=shapes.NewRun, status=201, needs="write", once=True
    ),
    Route("GET", f"{_S}/runs/{{run}}", documents.show_run, shapes.OneRun),
    Route("GET", f"{_S}/runs/{{run}}/output", documents.show_output, shapes.RunOutput),
    Route("POST", f"{_S}/runs/{{run}}/cancel", documents.cancel_run, Run, body=shapes.Nothing, needs="write"),
    Route("GET", f"{_S}/fields/{{field}}", documents.get_field, Field),
    Route("PUT", f"{_S}/fields/{{field}}", documents.set_field, Field, body=shapes.NewValue, needs="write"),
    Route("POST", "/v1/signin", signing_in.sign_in, shapes.SignedIn, body=shapes.SignIn, needs="none"),
    Route("POST", "/v1/signout", signing_in.sign_out, shapes.SignedIn, body=shapes.Nothing),
    Route("GET", "/v1/search", documents.search, shapes.SearchResults, shapes.SearchQuery),
    Route("GET", "/v1/usage", documents.usage, UsageReport, shapes.UsageQuery),
    Route("GET", "/v1/tools", documents.list_tools, Any),
)  # fmt: skip


#: What a browser is shown; not with --no-web.
WEB = (
    Route("GET", "/", pages.index, None),
    Route("GET", "/sessions/{ref}", pages.session, None),
    Route("GET", "/static/{file}", pages.static, None, needs="none"),
)


class Matched(NamedTuple):
    """What a path leads to: a route for each method, and the values of its names."""

    routes: dict[str, Route]
    values: tuple[str, ...]


class Paths:
    """Finds routes by the path as it came: a `/` that was sent as %2F is a part of a name, and separates nothing."""

    def __init__(self, routes: tuple[Route, ...]) -> None:
        """Take the routes."""
        self._tree: dict[str, Any] = {}
        for route in routes:
            node = self._tree
            for part in route.path.split("/")[1:] if route.path != "/" else ():
                node = node.setdefault("{}" if part.startswith("{") else part, {})
            node.setdefault("", {})[route.method] = route

    def find(self, raw_path: bytes) -> Matched | None:
        """Return what a path leads to."""
        try:
            parts = [unquote(part, errors="strict") for part in raw_path.decode("ascii").split("/")[1:]]
        except ValueError:
            return None
        node, values = self._tree, []
        for part in parts if raw_path != b"/" else ():
            if part and part != "{}" and part in node:
                node = node[part]
            elif part and "{}" in node:
                node = node["{}"]
                values.append(part)
            else:
                return None
        routes = node.get("")
        return Matched(routes, tuple(values)) if routes else None


def names_of(route: Route) -> list[str]:
    """Return the names in a route's path, in order."""
    return [part[1:-1] for part in route.path.split("/") if part.startswith("{")]
