"""Standard input and output: a request that cannot be read as JSON is answered too, so that nobody waits for it."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any, Self

from mcp.server.mcpserver import MCPServer
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp_types import PARSE_ERROR, ErrorData, JSONRPCError
from pydantic import ValidationError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

#: What is told, with what was wrong: a model may have written half of a character, or lists in lists without end.
_TOLD = "the request is no JSON that can be read ({}) → send whole Unicode characters, and nest less deeply"
#: The pieces of a text in JSON: strings, signs, and everything else.
_PIECE = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],]|[^\s{}\[\],":]+')


class StdioServer(MCPServer):
    """The SDK's server, but that over stdio it leaves no request unanswered."""

    #: What to do when it is interrupted, after everything was closed. Without, it is over when the client says one
    #: more line, or leaves: the thread that waits for that cannot be interrupted.
    when_interrupted: Callable[[], None] | None = None

    async def run_stdio_async(self) -> None:
        """Serve until the client leaves."""
        async with stdio_server() as (requests, answers):
            lowlevel = self._lowlevel_server
            heard = Heard(requests, answers.send)
            try:
                await lowlevel.run(heard, answers, lowlevel.create_initialization_options())
            except asyncio.CancelledError:
                if self.when_interrupted is not None:
                    self.when_interrupted()
                raise


class Heard:
    """A stream of requests without those that cannot be read: they are answered here."""

    def __init__(self, requests: Any, answer: Callable[[SessionMessage], Awaitable[None]]) -> None:
        """Take the stream, and what sends an answer."""
        self._requests = requests
        self._answer = answer

    def __getattr__(self, name: str) -> Any:
        """Be the stream in everything else."""
        return getattr(self._requests, name)

    def __aiter__(self) -> Self:
        """Be read one by one."""
        return self

    async def __anext__(self) -> Any:
        """Return the next one that can be read."""
        while isinstance(item := await anext(self._requests), ValidationError):
            if (refused := refusal(item)) is None:
                break
            await self._answer(SessionMessage(refused))
        return item

    async def __aenter__(self) -> Self:
        """Use as a context manager."""
        await self._requests.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        """Close."""
        await self._requests.__aexit__(*error)


def refusal(error: ValidationError) -> JSONRPCError | None:
    """Return the answer to a line that is no JSON; nothing for one that names no request."""
    wrong = error.errors()[0]
    number = request_id(wrong["input"]) if wrong["type"] == "json_invalid" else None
    if number is None:
        return None
    return JSONRPCError(jsonrpc="2.0", id=number, error=ErrorData(code=PARSE_ERROR, message=_TOLD.format(wrong["msg"])))


def request_id(line: str) -> int | str | None:
    """Return the id of a request that cannot be read; what is in its parameters is no id of it."""
    depth, before = 0, ""
    for found in _PIECE.finditer(line):
        piece = found[0]
        if depth == 1 and before == '"id"':
            return int(piece) if piece.isdecimal() and len(piece) < 19 else piece[1:-1] if piece[0] == '"' else None
        depth += (piece in "{[") - (piece in "}]")
        before = piece
    return None
