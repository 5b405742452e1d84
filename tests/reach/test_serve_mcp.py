"""`/mcp` of `maestro serve` as the SDK's own client speaks to it: the guards, tokens and users of everything else."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import Implementation

from maestro_state import Maestro
from tests.support.served import Served, serving, started

pytestmark = pytest.mark.usefixtures("served")

INITIALIZE = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "host", "version": "1"}},
}  # fmt: skip
HEADERS = {"accept": "application/json, text/event-stream"}
CHANGING = {"post_message", "add_context", "run_tool"}


@asynccontextmanager
async def agent(server: Served, token: str | None = None, query: str = "", mode: str = "auto") -> AsyncIterator[Client]:
    """Return the SDK's client, with a token or without."""
    headers = {"authorization": f"Bearer {token}"} if token else {}
    async with httpx2.AsyncClient(headers=headers, timeout=60, trust_env=False) as http:
        transport = streamable_http_client(f"{server.url}/mcp{query}", http_client=http)
        async with Client(transport, client_info=Implementation(name="agent", version="1"), mode=mode) as client:
            yield client


async def ask(client: Client, name: str, **said: Any) -> dict[str, Any]:
    """Call a tool."""
    answer = await client.call_tool(name, said)
    assert not answer.is_error, answer.content
    return answer.structured_content


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_agents_speak_in_their_tokens_name(project: Path, mode: str, tmp_path: Path):
    """Two users and one who only reads, in one session; each protocol the SDK speaks; who called what is noted."""
    with Maestro(project) as maestro:
        session_id = maestro.sessions.start("fix-login").id
        ana, bob = (maestro.tokens.add(user).token for user in ("ana", "bob"))
        eve = maestro.tokens.add("eve", role="read").token
    log = tmp_path / "log"
    with serving(project, "--require-auth", log=log) as server:
        async with agent(server, ana, mode=mode) as one, agent(server, bob, mode=mode) as two:
            await ask(one, "post_message", content="which cookie is it?")
            await ask(two, "post_message", content="the stale one")
            said = (await ask(two, "read_messages"))["messages"]
            assert {tool.name for tool in (await one.list_tools()).tools} > CHANGING
            refused = await one.call_tool("run_tool", {"prompt": "x", "tool": "cat /etc/hostname"})
            assert (refused.is_error, "admins" in str(refused.content)) == (True, True)
        async with agent(server, eve, mode=mode) as reader:
            assert not CHANGING & {tool.name for tool in (await reader.list_tools()).tools}
            assert (await ask(reader, "get_session"))["session"]["id"] == session_id
    with Maestro(project) as maestro:
        found = [(one.user or maestro.settings.user, one.content) for one in maestro.messages.since(None, session_id)]
    assert found == [("ana", "which cookie is it?"), ("bob", "the stale one")]
    assert [one["content"] for one in said] == ["which cookie is it?", "the stale one"]
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert {line["logger"] for line in lines} == {"maestro.serve"}, "who did what, and nothing else"
    assert [(line["user"], line["did"], line["of"]) for line in lines if line["event"] == "audit"] == [
        ("ana", "POST /mcp", {"tool": "post_message"}),
        ("bob", "POST /mcp", {"tool": "post_message"}),
        ("bob", "POST /mcp", {"tool": "read_messages"}),
        ("ana", "POST /mcp", {"tool": "run_tool"}),
        ("eve", "POST /mcp", {"tool": "get_session"}),
    ]
    assert not re.search("cookie|hostname|mst_", log.read_text())


async def test_without_tokens_and_with_a_session_of_ones_own(project: Path):
    """On this machine nobody is asked; which session may be said, else it is the active one."""
    with Maestro(project) as maestro:
        other = maestro.sessions.start("other").id
        active = maestro.sessions.start("active").id
    with serving(project) as server:
        async with agent(server) as one, agent(server, query=f"?session={other}") as two:
            assert (await ask(one, "get_session"))["session"]["id"] == active
            assert (await ask(two, "get_session"))["session"]["id"] == other
            run = await ask(one, "run_tool", prompt="x", tool="cat")  # whoever is here may
            assert run["run"]["tool"] == "cat"


def test_who_asks_for_many_sessions_ends_nobody_elses(project: Path):
    """A user's servers are bounded by ending that user's: another goes on with the session of the protocol it has."""
    with Maestro(project) as maestro:
        maestro.sessions.start("fix-login")
        ana, eve = maestro.tokens.add("ana").token, maestro.tokens.add("eve", role="read").token
    with (
        serving(project, "--require-auth") as server,
        server.client(ana, **HEADERS) as one,
        server.client(eve, **HEADERS) as other,
    ):
        number = one.post("/mcp", json=INITIALIZE).headers["mcp-session-id"]
        numbers = [
            other.post(f"/mcp?session=s{count}", json=INITIALIZE).headers["mcp-session-id"] for count in range(80)
        ]
        asked = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
        assert one.post("/mcp", json=asked, headers={"mcp-session-id": number}).status_code == 200
        ended = other.post("/mcp?session=s0", json=asked, headers={"mcp-session-id": numbers[0]})
        assert ended.status_code == 404


def test_the_guards_are_those_of_everything(project: Path):
    """No token, a foreign name, another site, another path: refused before the protocol sees it."""
    started(project)
    with Maestro(project) as maestro:
        token = maestro.tokens.add("ana").token
    with serving(project, "--require-auth") as server, server.client() as client:
        good = HEADERS | {"authorization": f"Bearer {token}"}
        assert client.post("/mcp", json=INITIALIZE, headers=HEADERS).status_code == 401
        assert client.post("/mcp", json=INITIALIZE, headers=good | {"host": "evil.example"}).status_code == 421
        assert (
            client.post("/mcp", json=INITIALIZE, headers=good | {"origin": "https://evil.example"}).status_code == 403
        )
        assert client.put("/mcp", json=INITIALIZE, headers=good).status_code == 405
        form = good | {"content-type": "text/plain"}
        assert client.post("/mcp", content=b"{}", headers=form).json()["error"]["code"] == "unsupported_media_type"
        assert client.post("/mcp", json=INITIALIZE, headers=good).status_code == 200
    with serving(project, "--no-mcp") as server, server.client() as client:
        assert client.post("/mcp", json=INITIALIZE, headers=HEADERS).status_code == 404


def test_a_revoked_token_ends_what_it_waits_for(project: Path):
    """An agent that waits when its token is revoked is cut off without an answer, and not let in again."""
    with Maestro(project) as maestro:
        maestro.sessions.start("fix-login")
        made = maestro.tokens.add("ana")
    with serving(project, "--require-auth") as server, server.client(made.token, **HEADERS) as client:
        begun = client.post("/mcp", json=INITIALIZE)
        named = {"mcp-session-id": begun.headers["mcp-session-id"], "mcp-protocol-version": "2025-06-18"}
        client.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=named)
        waits = {"jsonrpc": "2.0", "id": 2, "method": "tools/call",
                 "params": {"name": "wait_for_events", "arguments": {"timeout_s": 55}}}  # fmt: skip
        heard = []
        with client.stream("POST", "/mcp", json=waits, headers=named) as answer:
            assert answer.status_code == 200
            with Maestro(project) as maestro:
                maestro.tokens.revoke(made.id)
            with suppress(httpx2.TransportError):
                heard += answer.iter_lines()
        assert not any('"result"' in line for line in heard)
        assert client.post("/mcp", json=INITIALIZE).status_code == 401


async def test_it_stops_while_agents_are_connected(project: Path):
    """Nobody's open stream keeps it from leaving, with 0."""
    with Maestro(project) as maestro:
        maestro.sessions.start("fix-login")
    with serving(project) as server:
        try:
            async with agent(server, mode="legacy") as client:
                await ask(client, "get_session")
                os.kill(server.process.pid, signal.SIGTERM)
                assert await asyncio.to_thread(server.process.wait, 60) == 0
        except Exception:  # noqa: BLE001 - the client's own end has nobody to say it to any more
            pass
        assert server.process.returncode == 0
