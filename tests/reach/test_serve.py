"""`maestro serve` held against others: a fuzzer that reads its OpenAPI document, and a thousand followers at once."""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from maestro_state import AsyncMaestro, Maestro
from tests.support.served import Served, serving, started

FOLLOWERS, MESSAGES = 1000, 20

pytestmark = pytest.mark.usefixtures("served")


@pytest.mark.parametrize("knows", [False, True])
def test_a_fuzzer_finds_nothing(project: Path, tmp_path: Path, knows: bool):
    """Every answer to anything that schemathesis thinks of is one that the document tells: about things that nobody
    made, and about those that are there.

    Left out: streams, which do not end; whether all data that fits a schema is taken: a name that is only dots is a
    text, and no name; and whether what was just made is there when 404 is about something else that a request names:
    a tool that nobody knows.
    """
    with Maestro(project) as maestro:
        session_id = maestro.sessions.start("fuzzed").id
        maestro.messages.add("user", "hello", session_id)
        maestro.context.add("a text", ref=session_id, kind="text")
        maestro.runs.start("hello", session_id, tool="cat", dry=True)
        maestro.work.start("step")
        maestro.discussions.start()
    known = {"ref": "latest", "work": "latest", "discussion": "latest", "run": "1", "item": "ctx-0001",
             "field": "preferences"}  # fmt: skip
    config = tmp_path / "schemathesis.toml"
    rows = [f'"path.{name}" = "{value}"\n' for name, value in known.items()]
    config.write_text("[parameters]\n" + "".join(rows if knows else ()))
    program = str(Path(sys.executable).with_name("schemathesis"))
    # From what was made on to what can be done with it; not with ids that are given, which are of something else.
    phases = "examples,coverage,fuzzing" + ("" if knows else ",stateful")
    with serving(project, "--no-web") as server:
        done = subprocess.run(
            [program, "--config-file", str(config), "run", f"{server.url}/openapi.json", "--max-examples", "10",
             "--seed", "1", "--exclude-path-regex", "events",
             "--exclude-checks", "positive_data_acceptance,ensure_resource_availability",
             "--phases", phases, "--suppress-health-check", "all"],
            capture_output=True, text=True,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout[-5000:]


def test_a_thousand_followers_share_one_read_and_miss_nothing(project: Path):
    """All are told the same events in the same order; the state server sees one who waits."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limit[0], min(4096, limit[1])), limit[1]))
    session_id = started(project)
    with serving(project) as server:
        told, blocked = asyncio.run(_follow(project, server, session_id))
    with Maestro(project) as maestro:
        expected = [event.id for event in maestro.follow.events(session_id, cursor="start", until_idle_ms=1)]
    assert blocked == 1
    assert len(told) == FOLLOWERS
    assert {tuple(ids) for ids in told} == {tuple(expected[-MESSAGES:])}


async def _follow(project: Path, server: Served, session_id: str) -> tuple[list[list[str]], int]:
    lines = [await _joined(server.port, session_id) for _ in range(FOLLOWERS)]
    async with AsyncMaestro(project) as maestro:
        for number in range(MESSAGES):
            await maestro.messages.add("user", str(number), session_id)
        told = await asyncio.gather(*(_ids(reader) for reader, _ in lines))
        info = await maestro.server.connection.call("INFO", "clients")
    for _, writer in lines:
        writer.close()
    return told, int(info.decode().split("blocked_clients:")[1].split()[0])


async def _joined(port: int, session_id: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET /v1/sessions/{session_id}/events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    await reader.readuntil(b"retry: 1000\n\n")
    await reader.readuntil(b"\n\n")  # where now is
    return reader, writer


async def _ids(reader: asyncio.StreamReader) -> list[str]:
    found: list[str] = []
    while len(found) < MESSAGES:
        line = await reader.readline()
        if line.startswith(b"id: "):
            found.append(line[4:].decode().strip())
    return found
