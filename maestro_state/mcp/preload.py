"""Having everything imported and made before the first client comes: one exchange over streams in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import mcp.server.stdio  # noqa: F401 - what a server over stdio imports when it begins
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification, JSONRPCRequest

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

#: The first requests of every client, and the one that nearly each tool begins with.
_FIRST: tuple[tuple[str, dict[str, Any]], ...] = (
    (
        "initialize",
        {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "", "version": ""}},
    ),
    ("tools/list", {}),
    ("resources/list", {}),
    ("prompts/list", {}),
    ("tools/call", {"name": "get_session", "arguments": {"nobody": True}}),
)


def answer_nobody(server: MCPServer) -> None:
    """Ask what clients ask first; what is answered is of no interest, and nothing is looked up."""
    anyio.run(_exchange, server)


async def _exchange(server: MCPServer) -> None:
    lowlevel = server._lowlevel_server  # noqa: SLF001 - as the SDK's own transports do
    ask, asked = anyio.create_memory_object_stream[Any](1)
    answer, answered = anyio.create_memory_object_stream[Any](1)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_serve, lowlevel, asked, answer)
        for number, (method, params) in enumerate(_FIRST):
            request = JSONRPCRequest(jsonrpc="2.0", id=number, method=method, params=params)
            await ask.send(SessionMessage(request))
            (await answered.receive()).message.model_dump_json(by_alias=True, exclude_unset=True)
            if method == "initialize":
                begun = JSONRPCNotification(jsonrpc="2.0", method="notifications/initialized")
                await ask.send(SessionMessage(begun))
        ask.close()
        async for _ in answered:
            pass


async def _serve(lowlevel: Any, asked: Any, answer: Any) -> None:
    await lowlevel.run(asked, answer, lowlevel.create_initialization_options())
