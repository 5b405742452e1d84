"""A model's API on loopback, in the four protocols that the tools speak. Words in what a person said last steer it:

@401@ @404@ @500@ ...  answer with that status        @hang@   begin an answer and never end it
@slow@                 answer word by word, with pauses
@shell=COMMAND@        call the shell tool first      @write=PATH@   call the tool that writes a file first
@mcp=TOOL@             call that tool of an MCP server first; "what is the team working on?" is @mcp=get_session@

Every answer names the MARK-… words that were in the request and how often a person spoke.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.model_protocols import CHAT_USAGE, Answer, Asked, Json, Protocol, protocol_of

USAGE = CHAT_USAGE

#: What the tools call their shell and their way to write a file, and what each takes.
_SHELLS = {"Bash": "command", "run_shell_command": "command", "bash": "command", "exec_command": "cmd",
           "shell_command": "command"}  # fmt: skip
_WRITERS = {"Write": "file_path", "write_file": "file_path", "write": "filePath"}

#: Between two words of a slow answer, in seconds.
_PAUSE_S = 0.2

_STATUS = re.compile(r"@([45]\d\d)@")
_STEERING = re.compile(r"@(shell|write|mcp)=([^@]+)@")
_TEAM = "what is the team working on?"


class ModelApi:
    """What the API answers, and what it was asked."""

    def __init__(self, answer: str | None, status: int) -> None:
        self.answer = answer
        self.status = status
        self.asked: list[dict[str, Any]] = []
        self.over = threading.Event()
        self.url = ""

    @property
    def origin(self) -> str:
        """The address without a path."""
        return self.url.removesuffix("/v1")

    def refusal(self, asked: Asked) -> int | None:
        """Return the status to refuse with, if so."""
        if self.status != 200:
            return self.status
        found = _STATUS.findall(asked.text)
        return int(found[-1]) if found else None

    def answer_to(self, request: Json, asked: Asked) -> Answer:
        """Decide what the model says."""
        number = len(self.asked)
        steered = _STEERING.findall(asked.text.replace(_TEAM, "@mcp=get_session@"))
        if steered and asked.tools and (call := _call(asked.tools, *steered[-1])):
            # A tool that had to be looked up first is called after that.
            calls = json.dumps([request.get(name) for name in ("messages", "input", "contents")])
            if not asked.has_result or ("tool_search" in calls and f'"{call[0]}"' not in calls):
                return Answer([], call, number)
        if self.answer is not None:
            return Answer(list(self.answer), None, number)
        marks = sorted(set(re.findall(r"MARK-\w+", json.dumps(request))))
        said = f"Question {asked.questions}. Seen: {', '.join(marks) or 'no marks'}. Größe 日本 ✓ end."
        return Answer(re.findall(r"\S+\s*", said), None, number)


def _call(tools: list[str], kind: str, what: str) -> tuple[str, Json] | None:
    """Return the call of a tool that was steered to, in the words of the tools there are."""
    if kind == "mcp":  # each host puts the server's name before it, in its own way
        found: Json = {"query": f"select:mcp__maestro__{what}"}
        search = ("tool_search", found) if "tool_search" in tools else None
        return next(((name, {}) for name in tools if name.endswith(what)), search)
    if kind == "write":
        for name in (one for one in tools if one in _WRITERS):
            return name, {_WRITERS[name]: what, "content": "by the model\n"}
        what = f"apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: {what}\n+by the model\n*** End Patch\nEOF\n"
    for name in (one for one in tools if one in _SHELLS):
        given = {_SHELLS[name]: what, "description": "as asked"}
        return name, given | ({"is_background": False} if name == "run_shell_command" else {})
    return None


class _Handler(BaseHTTPRequestHandler):
    api: ModelApi

    def do_GET(self) -> None:
        self._send(200, {"object": "list", "data": [{"id": "fake-1", "object": "model"}], "models": []})

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        path = self.path.partition("?")[0]
        protocol = protocol_of(path)
        if protocol is None:
            self._send(200, {"input_tokens": 11, "totalTokens": 11})
            return
        if "models/" in path:
            request["model"] = path.rpartition("/")[2].partition(":")[0]
        self.api.asked.append(request)
        asked = protocol.read(request)
        if status := self.api.refusal(asked):
            message = f"refused on purpose ({status})"
            self._send(status, {"type": "error", "error": {"type": "api_error", "message": message, "code": status}})
            return
        answer = self.api.answer_to(request, asked)
        if request.get("stream") or "stream" in path:
            with suppress(OSError):  # whoever asked has left
                self._stream(protocol, request, answer, hangs="@hang@" in asked.text, is_slow="@slow@" in asked.text)
        else:
            self._send(200, protocol.whole(request, answer))

    def _stream(self, protocol: Protocol, request: Json, answer: Answer, *, hangs: bool, is_slow: bool) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for number, event in enumerate(protocol.events(request, answer)):
            if hangs and number == 1:
                self.wfile.flush()
                self.api.over.wait()
                return
            if is_slow:
                self.wfile.flush()
                self.api.over.wait(_PAUSE_S)
            name = f"event: {event['type']}\n" if protocol.named_events else ""
            self.wfile.write(f"{name}data: {json.dumps(event)}\n\n".encode())
        if not protocol.named_events:
            self.wfile.write(b"data: [DONE]\n\n" if "choices" in event else b"")

    def _send(self, status: int, document: Json) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the method it replaces
        """Say nothing."""


@contextmanager
def model_api(answer: str | None = "pong", status: int = 200) -> Iterator[ModelApi]:
    """Run the API for the length of a test; without an `answer` it says what it was asked."""
    api = ModelApi(answer, status)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"api": api}))
    server.daemon_threads = True
    api.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield api
    finally:
        api.over.set()
        server.shutdown()
        thread.join()
        server.server_close()
