"""The one table of routes: what is served, by whom it may be asked, what it takes and answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from maestro_state.models.context import Added
from maestro_state.models.discussion import Meta
from maestro_state.models.ledger import Budget
from maestro_state.models.run import Run
from maestro_state.models.search import Found, Rebuilt
from maestro_state.models.session import Field, Session, SessionStatus
from maestro_state.models.token import NewToken
from maestro_state.models.usage import UsageReport
from maestro_state.models.work import WorkSession
from maestro_state.serve import events, mcp_endpoint, metrics, sign_in
from maestro_state.serve.handlers import (
    archives,
    budgets,
    context,
    discussions,
    messages,
    overview,
    project,
    runs,
    sessions,
    tokens,
    work,
)
from maestro_state.serve.page import queries, screens, views
from maestro_state.serve.schemas import budgets as of_budgets
from maestro_state.serve.schemas import common
from maestro_state.serve.schemas import contents as of_contents
from maestro_state.serve.schemas import project as of_project
from maestro_state.serve.schemas import sessions as of_sessions
from maestro_state.serve.schemas import work as of_work

if TYPE_CHECKING:
    from starlette.responses import Response

    from maestro_state.serve.request import Request

    Handler = Callable[[Request], Awaitable[Response | None]]


class Route(NamedTuple):
    """One verb on one path. `needs` is the role: none, read, write or admin."""

    method: str
    path: str
    handler: Handler
    answer: Any  #: the type of its document, or where it is, if only OpenAPI needs it; None: a stream, or a page
    query: type[Any] = common.Nothing
    body: type[Any] | None = None
    status: int = 200
    needs: str = "read"
    once: bool = False  #: takes an Idempotency-Key
    knows_repeats: bool = False  #: what it calls does so itself


class Download:
    """The answer of a route that answers with a file."""


_S, _C, _R = "/v1/sessions/{ref}", "/v1/sessions/{ref}/context", "/v1/sessions/{ref}/runs"
_W, _D, _B = "/v1/wsessions/{work}", "/v1/discussions/{discussion}", "/v1/budgets"


def _get(path: str, handler: Handler, answer: Any, query: type[Any] = common.Nothing, needs: str = "read") -> Route:
    return Route("GET", path, handler, answer, query, needs=needs)


def _post(
    path: str,
    handler: Handler,
    answer: Any,
    body: type[Any] = common.Nothing,
    *,
    needs: str = "write",
    status: int = 200,
) -> Route:
    return Route("POST", path, handler, answer, body=body, status=status, needs=needs)


def _new(path: str, handler: Handler, answer: Any, body: type[Any], *, knows_repeats: bool = False) -> Route:
    return Route(
        "POST", path, handler, answer, body=body, status=201, needs="write", once=True, knows_repeats=knows_repeats
    )


ROUTES = (
    _get("/v1/health", project.health, of_project.Health, needs="none"),
    _get("/openapi.json", project.openapi, Any),
    _get("/metrics", metrics.metrics, None),
    _get("/v1/sessions", sessions.list_sessions, of_sessions.SessionRows, of_sessions.ListQuery),
    _new("/v1/sessions", sessions.start_session, Session, of_sessions.NewSession),
    _get("/v1/overview", overview.overview, of_sessions.Overview, of_sessions.OverviewQuery),
    _get(_S, sessions.show_session, SessionStatus),
    Route("DELETE", _S, sessions.delete_session, of_sessions.Deleted, of_sessions.DeleteQuery, needs="write"),
    _post(f"{_S}/end", sessions.end_session, Session, of_sessions.EndRequest),
    _post(f"{_S}/abort", sessions.abort_session, Session, of_sessions.AbortRequest),
    _new(f"{_S}/fork", sessions.fork_session, Session, of_sessions.ForkRequest),
    _post(f"{_S}/tool", sessions.use_tool, "api.tools.Used", of_sessions.ToolChoice),
    _get(f"{_S}/fields/{{field}}", sessions.get_field, Field),
    Route("PUT", f"{_S}/fields/{{field}}", sessions.set_field, Field, body=of_sessions.NewValue, needs="write"),
    _post(f"{_S}/sync", archives.sync_session, "upkeep.checkpoint.Checkpoint"),
    _post(
        f"{_S}/verify",
        archives.verify_session,
        "serve.schemas.archives.Verified",
        of_sessions.VerifyRequest,
    ),
    _post(f"{_S}/pull", archives.pull_session, "upkeep.pull.Pulled"),
    _get(f"{_S}/export", archives.export_session, Download, of_sessions.ExportQuery),
    _get(f"{_S}/messages", messages.read_messages, of_contents.Messages, of_contents.MessagesQuery),
    _new(
        f"{_S}/messages", messages.add_message, of_contents.MessageDocument, of_contents.NewMessage, knows_repeats=True
    ),
    _get(f"{_S}/events", events.follow_session, None, of_contents.EventsQuery),
    _get("/v1/events", events.follow_all, None, of_contents.EventsQuery),
    _get(_C, context.list_context, of_contents.ListedItems, of_contents.ContextQuery),
    _new(_C, context.add_context, Added, of_contents.NewContext),
    Route("DELETE", _C, context.clear_context, of_contents.Cleared, needs="write"),
    _get(f"{_C}/{{item}}", context.show_item, of_contents.ShownItem),
    Route("DELETE", f"{_C}/{{item}}", context.remove_item, of_contents.Items, needs="write"),
    _new(f"{_S}/use-output", context.use_output, Added, of_contents.OutputChoice),
    _post(f"{_S}/refresh", context.refresh_context, Added, of_contents.RefreshRequest),
    _get(_R, runs.list_runs, of_contents.Runs, common.PageQuery),
    _new(_R, runs.start_run, Run, of_contents.NewRun, knows_repeats=True),
    _post(f"{_S}/preview", runs.preview_run, of_contents.Preview, of_contents.NewRun, needs="read"),
    _get(f"{_S}/wait", runs.wait_for_runs, of_contents.Ended, of_contents.WaitQuery),
    _get(f"{_R}/{{run}}", runs.show_run, of_contents.OneRun),
    _get(f"{_R}/{{run}}/output", runs.show_output, of_contents.RunOutput),
    _get(f"{_R}/{{run}}/prompt", runs.show_prompt, of_contents.RunPrompt),
    _get(f"{_R}/{{run}}/context", runs.show_sent, of_contents.RunContext),
    _get(f"{_R}/{{run}}/activity", runs.show_activity, of_contents.RunActivity),
    _post(f"{_R}/{{run}}/cancel", runs.cancel_run, Run),
    _get("/v1/wsessions", work.list_work, of_work.WorkRows, of_work.WorkPageQuery),
    _new("/v1/wsessions", work.start_work, WorkSession, of_work.NewWork),
    _get("/v1/wsessions/tree", work.show_trees, of_work.WorkTree, of_work.WorkQuery),
    _get(_W, work.show_work, of_work.WorkShown),
    _post(f"{_W}/end", work.end_work, WorkSession, of_work.EndWork),
    _post(f"{_W}/pause", work.pause_work, WorkSession),
    _post(f"{_W}/resume", work.resume_work, WorkSession),
    _post(f"{_W}/consume", work.consume_breadcrumbs, "mirror.mailbox.Outcome"),
    _get(f"{_W}/tree", work.show_tree, of_work.WorkTree, of_work.WorkQuery),
    _get(f"{_W}/breadcrumbs", work.list_breadcrumbs, of_work.BreadcrumbRows, of_work.BreadcrumbsQuery),
    _new(
        f"{_W}/breadcrumbs", work.add_breadcrumb, of_work.BreadcrumbDocument, of_work.NewBreadcrumb, knows_repeats=True
    ),
    _get(f"{_W}/timeline", work.show_timeline, of_work.Timeline, of_work.WorkPageQuery),
    _get(f"{_W}/stats", work.show_stats, "work.stats.WorkStats", of_work.WorkQuery),
    _get("/v1/discussions", discussions.list_discussions, of_work.DiscussionRows, of_work.DiscussionsQuery),
    _new("/v1/discussions", discussions.start_discussion, Meta, of_work.NewDiscussion),
    _post(
        "/v1/discussions/migrate",
        discussions.migrate_discussions,
        "discuss.migration.Report",
        of_work.ReplayRequest,
        needs="admin",
    ),
    _get(_D, discussions.show_discussion, of_work.DiscussionShown),
    _get(f"{_D}/prompt", discussions.show_discussion_prompt, of_work.DiscussionPrompt),
    _new(f"{_D}/say", discussions.say, of_work.SaidEvent, of_work.NewSaying, knows_repeats=True),
    _post(f"{_D}/done", discussions.finish_discussion, Meta, of_work.DoneRequest),
    _post(f"{_D}/replay", discussions.replay_discussion, of_work.ReplayDocument, of_work.ReplayRequest),
    _get("/v1/search", project.search, Found, of_project.SearchQuery),
    _post("/v1/search/rebuild", project.rebuild_search, Rebuilt, needs="admin"),
    _get("/v1/usage", project.usage, UsageReport, of_project.UsageQuery),
    _get(_B, budgets.list_budgets, of_budgets.Budgets),
    Route("PUT", _B, budgets.set_budget, Budget, body=of_budgets.NewBudget, needs="admin"),
    Route("DELETE", _B, budgets.remove_budget, of_budgets.BudgetsRemoved, of_budgets.BudgetQuery, needs="admin"),
    _get("/v1/tools", project.list_tools, of_project.ToolRows),
    _post("/v1/tools/check", project.check_tools, of_project.ToolRows, of_project.CheckTools, needs="admin"),
    _get("/v1/tools/workers", project.find_on_workers, of_project.ToolsOnWorkers, of_project.FindTool),
    _get("/v1/workers", project.show_workers, of_project.Workers),
    _get("/v1/stack", project.show_stack, "local.stack.StackStatus"),
    _get("/v1/doctor", project.doctor, of_project.Checks),
    _post("/v1/doctor/repair", project.repair, of_project.Checks, needs="admin"),
    _get("/v1/config", project.show_config, of_project.Config, needs="admin"),
    _post(
        "/v1/verify",
        archives.verify_all,
        "serve.schemas.archives.Verified",
        of_sessions.VerifyRequest,
        needs="admin",
    ),
    _post(
        "/v1/cleanup",
        project.cleanup,
        "mirror.retention.CleanupReport",
        of_project.CleanupRequest,
        needs="admin",
    ),
    _post("/v1/sweep", project.sweep, "upkeep.sweep.SweepReport", of_project.SweepRequest, needs="admin"),
    _get("/v1/tokens", tokens.list_tokens, of_project.Tokens, common.PageQuery, needs="admin"),
    _post("/v1/tokens", tokens.add_token, NewToken, of_project.NewTokenRequest, needs="admin", status=201),
    Route("DELETE", "/v1/tokens/{id}", tokens.revoke_token, of_project.Revoked, needs="admin"),
    _post("/v1/signin", sign_in.sign_in, of_project.SignedIn, of_project.SignIn, needs="none"),
    _post("/v1/signout", sign_in.sign_out, of_project.SignedIn, needs="read"),
)


#: The screens of the page.
SCREENS = (
    Route("GET", "/", screens.index, None),
    Route("GET", "/sessions/{ref}", screens.session, None),
    Route("GET", "/work", screens.work, None),
    Route("GET", "/discussions", screens.discussions, None),
    Route("GET", "/usage", screens.usage, None),
    Route("GET", "/health", screens.health, None),
)
#: What a browser is shown; not with --no-web.
WEB = (
    *SCREENS,
    Route("GET", "/sessions/{ref}/timeline", views.timeline, Any, queries.TimelineQuery),
    Route("GET", "/discussions/{discussion}/plan", discussions.show_plan, Any),
    Route("POST", "/render", views.render, Any, body=queries.RenderRequest),
    Route("GET", "/static/{file}", screens.static, None, needs="none"),
)


#: The session for agents; not with --no-mcp, nor without the extra.
MCP = tuple(Route(method, "/mcp", mcp_endpoint.talk, None, of_project.McpQuery) for method in ("GET", "POST", "DELETE"))


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
