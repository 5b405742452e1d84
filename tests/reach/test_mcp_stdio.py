"""`maestro mcp` as hosts start it: a process, spoken to over its standard input and output, or over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from maestro_cli import entry
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp_types import Implementation

from maestro_state import AsyncMaestro
from tests.acceptance.test_cli_runs import Screen
from tests.support.cli_runs import MAESTRO, maestro_command, printed
from tests.support.embedded_project import is_alive, processes_in
from tests.support.waiting import wait_until

INITIALIZE = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "host", "version": "1"}},
}  # fmt: skip
#: Cannot serve here: whatever it answers, the stack's process for agents answered.
HANDED_OVER = (
    "import sys; sys.modules['maestro_cli.main'] = None\n"
    "from maestro_cli import entry; entry._TIMEOUT_S = 60.0; entry.main()"
)


def agent(project: Path, name: str, *words: str) -> Client:
    """Return a client with a server process of its own, started in the project as tools do it."""
    started = StdioServerParameters(command=MAESTRO, args=[*words, "mcp"], cwd=project, env=dict(os.environ))
    return Client(started, client_info=Implementation(name=name, version="1"))


async def ask(client: Client, name: str, **said: Any) -> dict[str, Any]:
    answer = await client.call_tool(name, said)
    assert not answer.is_error, answer.content
    return answer.structured_content


@contextmanager
def spoken_to(line: list[str], project: Path, **env: str) -> Iterator[subprocess.Popen[str]]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(line, cwd=project, env=os.environ | env, text=True, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def say(process: subprocess.Popen[str], message: dict[str, Any]) -> dict[str, Any]:
    process.stdin.write(json.dumps(message) + "\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


async def test_two_agents_talk_through_one_session(project: Path):
    """Each in its own terminal: one waits, the other speaks and is heard, and gets its answer."""
    printed(project, "session", "start", "fix-login")
    async with agent(project, "claude-code") as first, agent(project, "codex") as second:
        cursor = (await ask(first, "get_session"))["cursor"]
        waiting = asyncio.create_task(ask(first, "wait_for_events", cursor=cursor, timeout_s=55))
        question = await ask(second, "post_message", content="which cookie is it?")
        heard = await waiting
        assert [event["data"]["content"] for event in heard["events"]] == ["which cookie is it?"]
        assert heard["events"][0]["data"]["metadata"]["client"] == "codex 1"
        await ask(first, "post_message", content="the session cookie: it is stale")
        answer = await ask(second, "wait_for_events", cursor=question["cursor"], timeout_s=55)
        assert [event["data"]["content"] for event in answer["events"]] == ["the session cookie: it is stale"]
        attached = {one["terminal"] for one in (await ask(second, "get_session"))["attached"]}
        assert attached == {"claude-code 1", "codex 1"}
        ran = await ask(second, "run_tool", prompt="MARK", tool="echo", wait_s=55)
        assert ran["run"]["status"] == "success"
        assert "MARK" in ran["output"]
    said = [one["content"] for one in printed(project, "messages")["messages"]][:2]
    assert said == ["which cookie is it?", "the session cookie: it is stale"]
    assert printed(project, "status")["attached"] == []


def test_only_the_protocol_is_on_standard_output(project: Path):
    """Whatever is logged or wrong, every line is a message of the protocol; it ends with 0 when its client leaves."""
    printed(project, "session", "start", "quiet")
    env = {"MAESTRO_LOG_LEVEL": "debug", "PYTHONWARNINGS": "always"}
    with spoken_to([MAESTRO, "mcp"], project, **env) as process:
        assert say(process, INITIALIZE)["result"]["serverInfo"]["name"] == "maestro"
        process.stdin.write('{"jsonrpc": "2.0", "method": "notifications/initialized"}\nthis is no message\n')
        call = {"name": "read_messages", "arguments": {"last": "many"}}
        answer = say(process, {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call})
        if "id" not in answer or answer["id"] != 2:  # what is no message may be answered too, by an error
            answer = json.loads(process.stdout.readline())
        assert answer["result"]["isError"]
        process.stdin.close()
        assert all(json.loads(line)["jsonrpc"] == "2.0" for line in process.stdout)
        assert process.wait(60) == 0


@pytest.mark.parametrize(
    "given", ['"half a character: \\ud83d"', "[" * 5000 + "]" * 5000], ids=["half a character", "nested"]
)
def test_a_request_that_cannot_be_read_is_answered(project: Path, given: str):
    """By its own id, wherever that stands, and not by one in its arguments: nobody waits for an answer in vain."""
    printed(project, "session", "start", "strict")
    with spoken_to([MAESTRO, "mcp"], project) as process:
        say(process, INITIALIZE)
        process.stdin.write('{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
        for number, ends in ((7, '"id": 7'), ("a", '"id": "a"')):
            call = f'"params": {{"name": "post_message", "arguments": {{"id": 3, "content": {given}}}}}'
            process.stdin.write(f'{{"jsonrpc": "2.0", "method": "tools/call", {call}, {ends}}}\n')
            process.stdin.flush()
            answer = json.loads(process.stdout.readline())
            assert answer["id"] == number
            assert "whole Unicode characters" in answer["error"]["message"]
        assert say(process, {"jsonrpc": "2.0", "id": 8, "method": "ping"})["result"] == {}


def test_nothing_stays_when_the_client_is_killed(project: Path):
    """The pipes of a killed client close, and the server goes; so it does when it is killed itself."""
    printed(project, "session", "start", "killed")
    code = (
        "import subprocess, sys, time\n"
        f"p = subprocess.Popen([{MAESTRO!r}, 'mcp'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)\n"
        f"p.stdin.write({json.dumps(INITIALIZE)!r} + chr(10)); p.stdin.flush(); p.stdout.readline()\n"
        "print(p.pid, flush=True); time.sleep(600)\n"
    )
    with spoken_to([sys.executable, "-c", code], project) as client:
        server = int(client.stdout.readline())
        assert is_alive(server)
        os.kill(client.pid, signal.SIGKILL)
        wait_until(lambda: not is_alive(server), "the server goes with its client")
    with spoken_to([MAESTRO, "mcp"], project) as process:
        say(process, INITIALIZE)
        process.kill()
    wait_until(lambda: not (set(map(_command, processes_in(project))) & {"mcp"}), "no server is left")


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")[-1].decode(errors="replace")
    except OSError:
        return ""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere commands run by themselves")
def test_a_running_stack_serves_without_importing(project: Path):
    """The process that the host starts imports no SDK: the stack has it, and answers over the same pipes."""
    printed(project, "session", "start", "fast")
    wait_until((project / ".maestro/server" / entry.SERVING_NAME).exists, "the process for agents listens")
    assert printed(project, "status")["attached"] == []  # having everything ready is nobody's visit
    line = [sys.executable, "-P", "-c", HANDED_OVER, "mcp", "--read-only"]
    with spoken_to(line, project) as process:
        assert say(process, INITIALIZE)["result"]["protocolVersion"] == "2025-06-18"
        process.stdin.write('{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
        tools = say(process, {"jsonrpc": "2.0", "id": 2, "method": "tools/list"})["result"]["tools"]
        assert len(tools) == 5
        process.stdin.close()
        assert process.wait(60) == 0


def hearing() -> tuple[asyncio.Queue[str], Any]:
    """Return where to hear of changed resources, and what a client of the earlier protocol hears them with."""
    heard: asyncio.Queue[str] = asyncio.Queue()

    async def hear(message: Any) -> None:
        if getattr(message, "method", "") == "notifications/resources/updated":
            heard.put_nowait(str(message.params.uri))

    return heard, hear


@pytest.mark.filterwarnings("ignore:resources/subscribe is removed")
async def test_clients_are_told_of_changes(project: Path):
    """Of both generations: who subscribed to the messages hears of one, and reads it."""
    printed(project, "session", "start", "told")
    heard, hear = hearing()
    started = StdioServerParameters(command=MAESTRO, args=["mcp"], cwd=project, env=dict(os.environ))
    async with Client(started, mode="legacy", message_handler=hear) as old, Client(started) as new:
        await old.subscribe_resource("maestro://session/messages")
        async with new.listen(resource_subscriptions=["maestro://session/messages"]) as events:
            await ask(old, "post_message", content="news")
            assert await asyncio.wait_for(heard.get(), 60) == "maestro://session/messages"
            event = await asyncio.wait_for(anext(aiter(events)), 60)
            assert str(event.uri) == "maestro://session/messages"


@pytest.mark.filterwarnings("ignore:resources/subscribe is removed")
async def test_clients_are_told_of_other_sessions(project: Path):
    """Of one that is not the current one, by its slug and by its whole id."""
    other = printed(project, "session", "start", "other")["id"]
    printed(project, "session", "start", "told")
    heard, hear = hearing()
    started = StdioServerParameters(command=MAESTRO, args=["mcp"], cwd=project, env=dict(os.environ))
    async with Client(started, mode="legacy", message_handler=hear) as old, Client(started) as new:
        await old.subscribe_resource("maestro://sessions/other")
        async with (
            new.listen(resource_subscriptions=[f"maestro://sessions/{other}"]) as events,
            AsyncMaestro(project) as maestro,
        ):
            told = asyncio.ensure_future(heard.get()), asyncio.ensure_future(anext(aiter(events)))
            while not all(one.done() for one in told):  # whoever follows all begins with what happens from then on
                await maestro.messages.add("user", "news", other)
                await asyncio.wait(told, timeout=1)
            assert told[0].result() == "maestro://sessions/other"
            assert str(told[1].result().uri) == f"maestro://sessions/{other}"


@contextmanager
def served(project: Path, *words: str) -> Iterator[str]:
    with spoken_to([MAESTRO, "mcp", "--http", "--port", "0", *words], project) as process:
        yield process.stdout.readline().strip()


async def test_over_http(project: Path):
    """The same tools at an address; many clients, each attached by its name."""
    printed(project, "session", "start", "web")
    with served(project) as url:
        info = Implementation(name="web", version="2")
        async with Client(url, client_info=info) as new, Client(url, mode="legacy") as old:
            await ask(new, "post_message", content="over http")
            assert (await ask(old, "read_messages"))["messages"][0]["content"] == "over http"
            assert "web 2" in {one["terminal"] for one in (await ask(new, "get_session"))["attached"]}


def test_an_address_that_is_taken(project: Path):
    """It is said in a line."""
    with served(project) as url:
        done = maestro_command(project, "mcp", "--http", "--port", str(urlsplit(url).port))
    assert done.returncode == 2
    assert done.stderr.startswith("maestro: cannot listen on 127.0.0.1:")
    assert done.stderr.count("\n") == 1


async def test_blanks_around_a_header_are_no_part_of_it(project: Path):
    """What is asked for is compared with its header, which may come with blanks; another one is refused."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "agent", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "get_session", "arguments": {}, "_meta": meta}}  # fmt: skip
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2026-07-28",
               "Mcp-Method": "tools/call", "Content-Type": "application/json"}  # fmt: skip
    with served(project) as url:
        where = urlsplit(url)
        for name, status in (("  get_session \t", 200), ("read_messages", 400)):
            with closing(HTTPConnection(where.hostname or "", where.port)) as http:
                http.request("POST", where.path, json.dumps(call), headers | {"Mcp-Name": name})
                assert http.getresponse().status == status


async def test_http_answers_no_other_site(project: Path):
    """A page elsewhere cannot use it, by whatever name it reaches it; nor is it served to others without tokens."""
    headers = {"Accept": "application/json, text/event-stream"}
    with served(project, "--read-only") as url:
        async with httpx2.AsyncClient() as http:
            for more, status in (({"Host": "evil.example"}, 421), ({"Origin": "https://evil.example"}, 403), ({}, 200)):
                answer = await http.post(url, json=INITIALIZE, headers=headers | more)
                assert answer.status_code == status
    done = maestro_command(project, "mcp", "--http", "--host", "0.0.0.0")
    assert done.returncode == 2
    assert "maestro serve" in done.stderr


def test_who_has_registered_the_server_is_not_told_to(
    project: Path, tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
):
    """Gemini takes servers only from its settings: that is said until it is there."""
    printed(project, "session", "start", "told")
    gemini = tmp_path / "gemini"
    gemini.write_text("#!/bin/sh\nexit 0\n")
    gemini.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for is_told in (True, False):
        screen = Screen(project, "open", "gemini")
        assert screen.end() == 0
        assert (b"gemini cannot ask for the session by itself" in screen.seen) is is_told
        printed(project, "mcp", "install", "gemini")
    assert (own_home / ".gemini/settings.json").exists()


@pytest.mark.parametrize("resident", [True, False])
def test_ctrl_c_ends_it_though_its_client_says_nothing(project: Path, resident: bool):
    """In a terminal, and from hosts that end servers so: it waits for no further line, and is attached no longer."""
    printed(project, "session", "start", "quiet")
    serving = project / ".maestro/server" / entry.SERVING_NAME
    wait_until(serving.exists, "the stack's process for agents listens")
    line = [sys.executable, "-c", HANDED_OVER, "mcp"] if resident else [MAESTRO, "mcp"]
    with spoken_to(line, project, **({} if resident else {"MAESTRO_DEBUG": "1"})) as process:
        say(process, INITIALIZE)
        process.stdin.write('{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
        say(process, {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "get_session"}})
        assert [one["terminal"] for one in printed(project, "status")["attached"]] == ["host 1"]
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert not process.stdin.closed, "the control: it did not leave because its client did"
        assert printed(project, "status")["attached"] == []
