"""The eight tools as the protocol has them: names, schemas, annotations, and errors that a model can act on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.server.mcpserver.tools import Tool
from mcp.server.mcpserver.utilities.func_metadata import ArgModelBase, FuncMetadata
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, TextContent, ToolAnnotations

from maestro_state.errors import MaestroError, NoActiveSession, NoProject
from maestro_state.mcp import arguments
from maestro_state.mcp.answers import clip
from maestro_state.mcp.descriptions import ADVICE, DESCRIPTIONS, HINT

if TYPE_CHECKING:
    from maestro_state.mcp.server import Lifespan

#: Tool → what it takes.
ARGUMENTS: dict[str, type[arguments.Arguments]] = {
    "get_session": arguments.GetSession,
    "search_sessions": arguments.SearchSessions,
    "read_messages": arguments.ReadMessages,
    "post_message": arguments.PostMessage,
    "read_context": arguments.ReadContext,
    "add_context": arguments.AddContext,
    "wait_for_events": arguments.WaitForEvents,
    "run_tool": arguments.RunTool,
}
#: Tools that change something.
CHANGES = ("post_message", "add_context", "run_tool")
#: Longest that an error says of what was given, in characters.
_ERROR_MAX = 600
#: A run works on the project's files, and asks a model elsewhere.
_REACHES_OUT = ("run_tool",)
#: Claude Code shows a model only the names of servers' tools, until it searches for them: who is asked what the team
#: works on would not think of it. These are few and short, and are told at once.
_AT_ONCE = {"anthropic/alwaysLoad": True}


class OwnTool(Tool):
    """A tool whose arguments are read by our structs: what is wrong is said in one line."""

    async def run(self, arguments: dict[str, Any], context: Any, convert_result: bool = False) -> Any:
        """Do it; every failure is told to the model."""
        del context, convert_result
        try:
            return await self.fn(arguments)
        except (MCPError, ToolError):
            raise
        except (NoActiveSession, NoProject) as error:
            raise ToolError(HINT) from error
        except MaestroError as error:
            hint = ADVICE.get((self.name, type(error).__name__), error.hint)
            said = clip(str(error), _ERROR_MAX).replace("\n", " ")
            raise ToolError(f"{said} → {hint}" if hint else said) from error
        except Exception as error:
            raise UnexpectedToolError(f"{self.name} failed: {type(error).__name__}") from error


def tools(lifespan: Lifespan, *, read_only: bool) -> list[Tool]:
    """Return the tools of a server."""
    return [_tool(lifespan, name) for name in ARGUMENTS if not (read_only and name in CHANGES)]


def _tool(lifespan: Lifespan, name: str) -> Tool:
    changes = name in CHANGES
    return OwnTool(
        fn=_answering(lifespan, name),
        name=name,
        description=DESCRIPTIONS[name],
        parameters=arguments.schema_of(ARGUMENTS[name]),
        fn_metadata=FuncMetadata(arg_model=ArgModelBase),
        is_async=True,
        annotations=ToolAnnotations(
            read_only_hint=not changes,
            destructive_hint=name in _REACHES_OUT if changes else None,
            idempotent_hint=None if changes else True,
            open_world_hint=name in _REACHES_OUT,
        ),
        meta=_AT_ONCE,
    )


def _answering(lifespan: Lifespan, name: str) -> Callable[[dict[str, Any]], Awaitable[CallToolResult]]:
    kind = ARGUMENTS[name]

    async def answer(given: dict[str, Any]) -> CallToolResult:
        wanted = arguments.read(kind, given)
        document = await getattr(lifespan.operations, name)(wanted)
        text = msgspec.json.encode(document).decode()
        return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=document)

    return answer
