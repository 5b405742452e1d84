"""A model's API on loopback, as small as it may be: answers every chat with one text, streamed or not, and counts."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

USAGE = {"prompt_tokens": 21, "completion_tokens": 5, "total_tokens": 26}


class ModelApi:
    """What the API answers, and what it was asked."""

    def __init__(self, answer: str, status: int) -> None:
        self.answer = answer
        self.status = status
        self.asked: list[dict[str, Any]] = []
        self.url = ""

    def reply(self, request: dict[str, Any]) -> tuple[str, bytes]:
        """Return content type and body."""
        self.asked.append(request)
        if self.status != 200:
            return "application/json", json.dumps({"error": {"message": "wrong key", "code": "401"}}).encode()
        base = {"id": "c1", "created": 1, "model": "fake-1"}
        if not request.get("stream"):
            choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": self.answer}}
            whole = base | {"object": "chat.completion", "choices": [choice], "usage": USAGE}
            return "application/json", json.dumps(whole).encode()
        chunks: list[dict[str, Any]] = [
            {"choices": [{"index": 0, "delta": {"content": char}, "finish_reason": None}]} for char in self.answer
        ]
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        chunks.append({"choices": [], "usage": USAGE})
        lines = [f"data: {json.dumps(base | {'object': 'chat.completion.chunk'} | chunk)}\n\n" for chunk in chunks]
        return "text/event-stream", ("".join(lines) + "data: [DONE]\n\n").encode()


@contextmanager
def model_api(answer: str = "pong", status: int = 200) -> Iterator[ModelApi]:
    """Run the API for the length of a test."""
    api = ModelApi(answer, status)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            kind, body = api.reply(request)
            self.send_response(api.status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the method it replaces
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    api.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield api
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
