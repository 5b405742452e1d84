"""Who follows a session over HTTP, as a browser's EventSource does: with the id that was seen last, again and again."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx2


@dataclass
class Told:
    """One event as it came."""

    id: str
    type: str
    data: dict[str, Any]


def events(client: httpx2.Client, session_id: str, last_id: str | None = None, start: str = "start") -> Iterator[Told]:
    """Yield events until the server closes."""
    headers = {"last-event-id": last_id} if last_id else {}
    with client.stream("GET", f"/v1/sessions/{session_id}/events", params={"from": start}, headers=headers) as answer:
        assert answer.status_code == 200, str(answer.status_code)
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-store"
        yield from parsed(answer.iter_lines())


def parsed(lines: Iterator[str]) -> Iterator[Told]:
    """Yield events from lines."""
    fields: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
            continue
        if "data" in fields:
            told = json.loads(fields["data"])
            if "id" in fields:
                assert (told["id"], told["type"]) == (fields["id"], fields["event"])
            yield Told(fields.get("id", ""), fields["event"], told["data"])
        fields = {}


def silent_follower(port: int, session_id: str) -> socket.socket:
    """Return somebody who asks for events and then reads none."""
    line = socket.socket()
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    line.connect(("127.0.0.1", port))
    path = f"/v1/sessions/{session_id}/events?from=now"
    line.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
    return line
