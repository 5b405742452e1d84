"""An agent posts a message over stdio, beside an empty tool of the same SDK and one `messages.add`; and the time from
the start of `maestro mcp` on a running stack to its first answer, beside a server of the SDK with one empty tool.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from maestro_cli.entry import FOLDERS, SERVING_NAME

from benchmarks.rig import Rig, Row, race, rig, row

#: Longest time from start to first answer that a host should have to wait, in milliseconds.
START_MS = 300.0
CONTENT = "x" * 300

_EMPTY = """
from mcp.server.mcpserver import MCPServer
server = MCPServer("empty", log_level="WARNING")
@server.tool()
async def nothing(content: str) -> dict[str, str]:
    return {}
server.run()
"""
_INITIALIZE = {
    "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"},
}  # fmt: skip


class Line:
    """A client that only writes and reads lines: what it takes itself is next to nothing."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._number = 0

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin
        assert self._process.stdout
        self._number += 1
        self._say({"id": self._number, "method": method, "params": params})
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer["result"]

    def begin(self) -> None:
        self.ask("initialize", _INITIALIZE)
        self._say({"method": "notifications/initialized"})

    def call(self, tool: str) -> None:
        assert not self.ask("tools/call", {"name": tool, "arguments": {"content": CONTENT}}).get("isError")

    def _say(self, message: dict[str, Any]) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0"} | message) + "\n")
        self._process.stdin.flush()


@contextmanager
def _server(bench: Rig, *command: str) -> Iterator[Line]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, cwd=bench.folder, text=True, **pipes) as process:
        line = Line(process)
        line.begin()
        yield line
        assert process.stdin
        process.stdin.close()


def measure() -> Iterator[Row]:
    """Yield the figures."""
    maestro = str(Path(sys.executable).parent / "maestro")
    empty = (sys.executable, "-c", _EMPTY)
    with rig() as bench, ExitStack() as stack:
        session = bench.session(1)
        ours, theirs = (stack.enter_context(_server(bench, *words)) for words in ((maestro, "mcp"), empty))
        figures = race(
            {
                "post": lambda: ours.call("post_message"),
                "empty": lambda: theirs.call("nothing"),
                "add": lambda: bench.maestro.messages.add("user", CONTENT, session),
            },
            calls=40,
        )
        both = "an empty tool + messages.add"
        figures[both] = [sum(pair) for pair in zip(figures["empty"], figures["add"], strict=False)]
        yield row("MCP post_message over stdio", figures, "post", both, limit=1.3)
        yield row("MCP post_message over stdio", figures, "post", "empty")
    with rig(pinned=False, with_worker=True) as bench:
        while not bench.folder.joinpath(*FOLDERS, SERVING_NAME).exists():
            time.sleep(0.05)
        bare = "an SDK server with one tool"
        with ExitStack() as stack:  # what they take to go is nobody's wait
            started = race(
                {
                    "ours": lambda: stack.enter_context(_server(bench, maestro, "mcp")),
                    bare: lambda: stack.enter_context(_server(bench, *empty)),
                },
                calls=1,
                rounds=7,
                timeout_s=8.0,
            )
        started = {name: [took / 1000 for took in all_of_them] for name, all_of_them in started.items()}
        yield row("maestro mcp, start to first answer", started, "ours", bare, unit="ms")
        started["0.3 s"] = [START_MS] * len(started["ours"])
        yield row("maestro mcp, start to first answer", started, "ours", "0.3 s", limit=1.0, unit="ms")
