"""What `maestro serve` costs: a read beside an empty route of the same framework and the library's call, an event to a
thousand followers beside a bare asyncio fan-out of the same bytes, memory for each follower that waits.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.rig import Row, rig, row

FOLLOWERS, ROUNDS, READS = 1000, 9, 300
_END = b"\n\n\r\n"
_HEAD = "Host: localhost\r\n\r\n"

#: Programs that serve: what is measured, an empty route, and a plain fan-out of as many bytes.
_OURS = """
import sys
from maestro_state.serve import build_app
from maestro_state.serve.options import Options
from maestro_state.local.listening import listen
from maestro_state.serve.server import serve
line = listen("127.0.0.1", 0)
serve(build_app(Options(web=False), project=sys.argv[1]), line, lambda: print(line.getsockname()[1], flush=True))
"""
_EMPTY = """
import uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
from maestro_state.local.listening import listen
async def empty(request): return Response(b"{}", media_type="application/json")
line = listen("127.0.0.1", 0)
print(line.getsockname()[1], flush=True)
config = uvicorn.Config(Starlette(routes=[Route("/{path:path}", empty)]), log_config=None, access_log=False)
uvicorn.Server(config).run(sockets=[line])
"""
_BARE = """
import asyncio
async def main():
    writers = []
    async def talk(reader, writer):
        writers.append(writer)
        writer.write(b"HTTP/1.1 200 OK\\n\\n\\r\\n")
        await reader.readuntil(b"\\r\\n\\r\\n")
        while await reader.readline():
            for one in writers:
                one.write(b"x" * 330 + b"\\n\\n\\r\\n")
    server = await asyncio.start_server(talk, "127.0.0.1", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


def measure() -> Iterator[Row]:
    """Yield the figures."""
    with rig(pinned=False) as bench:
        session_id = bench.session(1000)
        ours, empty, bare = (_Program(code, str(bench.folder)) for code in (_OURS, _EMPTY, _BARE))
        try:
            yield asyncio.run(_read(bench.maestro, ours, empty, session_id))
            yield from asyncio.run(_fan_out(bench.maestro, ours, bare, session_id))
        finally:
            for program in (ours, empty, bare):
                program.end()


class _Program:
    def __init__(self, code: str, argument: str) -> None:
        self._process = subprocess.Popen([sys.executable, "-c", code, argument], stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def end(self) -> None:
        self._process.kill()
        self._process.wait()

    def memory_kb(self) -> int:
        lines = Path(f"/proc/{self._process.pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmRSS")).split()[1])


async def _read(maestro: Any, ours: _Program, empty: _Program, session_id: str) -> Row:
    request = f"GET /v1/sessions/{session_id}/messages?last=20 HTTP/1.1\r\n{_HEAD}".encode()
    lines = [await asyncio.open_connection("127.0.0.1", program.port) for program in (ours, empty)]
    figures: dict[str, list[float]] = {"serve": [], "empty route + library call": []}
    for _ in range(ROUNDS):
        times: tuple[list[float], list[float], list[float]] = ([], [], [])
        for _ in range(READS // ROUNDS):
            for (reader, writer), taken in zip(lines, times, strict=False):
                begun = time.perf_counter()
                writer.write(request)
                head = await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]))
                taken.append(time.perf_counter() - begun)
            begun = time.perf_counter()
            maestro.messages.last(20, session_id)
            times[2].append(time.perf_counter() - begun)
        asked, plain, called = (statistics.median(taken) * 1e6 for taken in times)
        figures["serve"].append(asked)
        figures["empty route + library call"].append(plain + called)
    for _, writer in lines:
        writer.close()
    return row("read 20 messages over HTTP", figures, "serve", "empty route + library call", limit=1.3)


async def _fan_out(maestro: Any, ours: _Program, bare: _Program, session_id: str) -> list[Row]:
    before = ours.memory_kb()
    path = f"/v1/sessions/{session_id}/events"
    followers = [await _joined(ours.port, path) for _ in range(FOLLOWERS)]
    memory = (ours.memory_kb() - before) / FOLLOWERS
    others = [await _joined(bare.port, path) for _ in range(FOLLOWERS)]
    figures: dict[str, list[float]] = {"serve": [], "bare asyncio": []}
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        maestro.messages.add("user", "x" * 200, session_id)
        figures["serve"].append(await _all_told(followers, begun))
        begun = time.perf_counter()
        others[0][1].write(b"\n")
        figures["bare asyncio"].append(await _all_told(others, begun))
    for _, writer in followers + others:
        writer.close()
    question = f"message → {FOLLOWERS} followers over HTTP, median"
    fanned = row(question, figures, "serve", "bare asyncio", limit=2, unit="ms")
    kept = row(
        "memory of a follower that waits", {"serve": [memory], "50 KB": [50.0]}, "serve", "50 KB", limit=1, unit="KB"
    )
    return [fanned, kept]


async def _joined(port: int, path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\n{_HEAD}".encode())
    await reader.readuntil(_END)
    return reader, writer


async def _all_told(lines: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]], begun: float) -> float:
    async def told(reader: asyncio.StreamReader) -> float:
        await reader.readuntil(_END)
        return time.perf_counter() - begun

    return statistics.median(await asyncio.gather(*(told(reader) for reader, _ in lines))) * 1000
