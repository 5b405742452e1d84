"""Resources: the session, its messages, items and outputs, and any other session; and who is told of changes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError
from mcp_types import EmptyResult, SubscribeRequestParams, UnsubscribeRequestParams

from maestro_state.errors import MaestroError, NotFound
from maestro_state.mcp.arguments import GetSession
from maestro_state.mcp.clients import session_number
from maestro_state.mcp.descriptions import NOTICE
from maestro_state.mcp.marking import Written

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

    from maestro_state.mcp.server import Lifespan
    from maestro_state.mcp.subscriptions import Subscriptions

JSON, TEXT = "application/json", "text/plain"


def add_resources(server: MCPServer, lifespan: Lifespan) -> None:
    """Add the resources and the templates of them."""

    @server.resource("maestro://session", description="The current session, as get_session answers.", mime_type=JSON)
    async def session() -> str:
        with _told():
            return _json(await lifespan.operations.get_session(GetSession()))

    @server.resource("maestro://session/messages", description="What was said last in it.", mime_type=JSON)
    async def messages() -> str:
        with _told():
            found = await lifespan.operations.all_messages(await lifespan.operations.session_id())
            return _json({"notice": NOTICE, "messages": found})

    @server.resource("maestro://session/context/{item}", description="A context item, whole.", mime_type=TEXT)
    async def context_item(item: str) -> str:
        with _told():
            session_id = await lifespan.operations.session_id()
            shown, content = await lifespan.operations.maestro.context.show(item, session_id)
            known = {name: shown.source.get(name) for name in ("path_rel", "run_id", "tool", "added_at")}
            return Written.by(content.decode(errors="replace"), item=shown.id, kind=shown.kind, **known)

    @server.resource("maestro://session/runs/{run_id}/output", description="What a run printed.", mime_type=TEXT)
    async def run_output(run_id: str) -> str:
        with _told():
            session_id = await lifespan.operations.session_id()
            run = await lifespan.operations.maestro.runs.read(run_id, session_id)
            text = (await lifespan.operations.maestro.runs.output(run.id, session_id)).decode(errors="replace")
            user = run.user or await lifespan.operations.owner(session_id)
            return Written.by(text, run=run.id, tool=run.tool, user=user, at=run.finished_at or run.started_at)

    @server.resource("maestro://sessions/{ref}", description="Any session, by id or name.", mime_type=JSON)
    async def other_session(ref: str) -> str:
        with _told():
            return _json(await lifespan.operations.status(await lifespan.operations.maestro.sessions.resolve(ref)))


def add_subscriptions(server: MCPServer, changes: Subscriptions) -> None:
    """Serve `resources/subscribe`, by which clients of the earlier protocol ask to be told.

    The SDK's server has no public way to add these two requests; its low-level one does.
    """
    lowlevel = server._lowlevel_server  # noqa: SLF001

    async def subscribe(ctx: Any, params: SubscribeRequestParams) -> EmptyResult:
        with _told():
            changes.tell(session_number(ctx), str(params.uri), ctx.session.send_resource_updated)
        return EmptyResult()

    async def unsubscribe(ctx: Any, params: UnsubscribeRequestParams) -> EmptyResult:
        changes.stop_telling(session_number(ctx), str(params.uri))
        return EmptyResult()

    lowlevel.add_request_handler("resources/subscribe", SubscribeRequestParams, subscribe)
    lowlevel.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, unsubscribe)


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except NotFound as error:
        raise ResourceNotFoundError(_line(error)) from error
    except MaestroError as error:
        raise ResourceError(_line(error)) from error


def _line(error: MaestroError) -> str:
    return f"{error} → {error.hint}" if error.hint else str(error)


def _json(document: dict[str, Any]) -> str:
    return msgspec.json.encode(document).decode()
