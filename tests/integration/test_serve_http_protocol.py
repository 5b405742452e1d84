"""What strangers send around a request: bounded in size and in time, whoever they say they are."""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from maestro_state.serve import http_protocol
from tests.support.served import serving

_HEAD = b"POST /v1/signin HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
_HEAD += b"Transfer-Encoding: chunked\r\n"
#: A wrong token, as one chunk, and the last chunk.
_BODY = b'\r\nd\r\n{"token":"x"}\r\n0\r\n'


@pytest.mark.parametrize("flood", [b"x: " + b"a" * 64_000_000, b"x: aaaaaaaaaaaaaaaa\r\n" * 3_000_000])
def test_what_stands_behind_a_body_is_bounded(project: Path, flood: bytes):
    """Trailers without end are cut off, with no token; a few are passed over, and make nobody anybody else."""
    with serving(project, "--require-auth", "--no-web") as server:
        with socket.create_connection(("127.0.0.1", server.port)) as flooding:
            flooding.sendall(_HEAD + _BODY)
            with pytest.raises(ConnectionError):
                flooding.sendall(flood)
        with socket.create_connection(("127.0.0.1", server.port)) as asking:
            asking.sendall(_HEAD + b"Connection: close\r\n" + _BODY + b"Host: evil.example\r\nX: y\r\n\r\n")
            answer = b"".join(iter(lambda: asking.recv(65536), b""))
        assert answer.startswith(b"HTTP/1.1 401 "), answer


def test_what_is_no_request_gets_an_error_as_all_others(project: Path):
    """Its form is that of every error."""
    with serving(project, "--no-web") as server, socket.create_connection(("127.0.0.1", server.port)) as asking:
        asking.sendall(b"NONSENSE / HTTP/1.1\r\n\r\n")
        head, _, content = b"".join(iter(lambda: asking.recv(65536), b"")).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert set(json.loads(content)["error"]) == {"code", "message", "hint"}


@pytest.mark.parametrize("protocol", ["h2c", "websocket"])
def test_a_body_under_another_protocol_is_refused_whole(project: Path, protocol: str):
    """The parser passes such a body over: it must not count as none, nor as requests. Without a body it is let be."""
    hidden = b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    asked = b"Host: localhost\r\nConnection: Upgrade\r\nUpgrade: %s\r\n" % protocol.encode()
    bodies = (b"Content-Length: %d\r\n\r\n" % len(hidden), b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % len(hidden))
    with serving(project, "--no-web") as server:
        for body in bodies:
            with socket.create_connection(("127.0.0.1", server.port)) as asking:
                asking.sendall(b"POST /v1/sweep HTTP/1.1\r\nContent-Type: application/json\r\n" + asked + body)
                head, _, content = b"".join(iter(lambda: asking.recv(65536), b"")).partition(b"\r\n\r\n")
                with suppress(ConnectionError):  # nobody listens any more, whatever comes
                    asking.sendall(hidden)
                    assert asking.recv(65536) == b""
            assert head.startswith(b"HTTP/1.1 400 ")
            assert "without Upgrade" in json.loads(content)["error"]["message"]
        with socket.create_connection(("127.0.0.1", server.port)) as asking:
            asking.sendall(b"GET /v1/health HTTP/1.1\r\n" + asked + b"\r\n")
            assert asking.recv(65536).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("http://evil.example/v1/health", 400),
        ("HTTPS://localhost@evil.example", 400),
        ("http://LOCALHOST/v1/health", 200),
    ],
)
def test_a_request_is_for_one_server(project: Path, address: str, status: int):
    """Who is told the whole address, as a proxy is, and a Host that is another one could be led by either."""
    with serving(project, "--no-web") as server, socket.create_connection(("127.0.0.1", server.port)) as asking:
        asking.sendall(b"GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" % address.encode())
        head, _, content = b"".join(iter(lambda: asking.recv(65536), b"")).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert status == 200 or "two servers" in json.loads(content)["error"]["message"]


async def test_who_hangs_on_to_an_answered_request_is_let_go(monkeypatch: pytest.MonkeyPatch):
    """The rest of a request that was refused has its time; one that is being read has as long as its reader gives."""
    monkeypatch.setattr(http_protocol, "HEAD_S", 0.05)
    enough = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/read":
            await enough.wait()
            await receive()
        await send({"type": "http.response.start", "status": 401, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    config = uvicorn.Config(app, http=http_protocol.BoundedHttpProtocol, lifespan="off", log_config=None)
    config.load()
    loop, state = asyncio.get_running_loop(), ServerState()
    served = await loop.create_server(lambda: http_protocol.BoundedHttpProtocol(config, state, {}), "127.0.0.1", 0)
    async with served:
        port = served.sockets[0].getsockname()[1]
        began = b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n{"
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        reading, kept = await asyncio.open_connection("127.0.0.1", port)
        writer.write(began % b"/refused")
        kept.write(began % b"/read")
        assert b" 401 " in await reader.readline()
        while not reader.at_eof():  # however it goes on sending
            writer.write(b" ")
            try:
                await asyncio.wait_for(reader.read(65536), 0.01)
            except TimeoutError:
                continue
            except ConnectionError:
                break
        enough.set()
        assert b" 401 " in await reading.readline()  # the one that was being read was there all the while
        writer.close()
        kept.close()
