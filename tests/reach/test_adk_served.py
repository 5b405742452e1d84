"""ADK's own servers on Maestro: `adk api_server` and `adk web`, as the document says, over HTTP."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from tests.support.cli_runs import MAESTRO

DOCUMENT = (Path(__file__).parents[2] / "docs" / "adk.md").read_text()
#: Seconds after which a server is stopped whatever it does: nothing here takes a tenth of it.
LIMIT_S = 90

#: An agent that needs no model.
AGENT = """
from google.adk.agents import BaseAgent
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.genai import types


class Echo(BaseAgent):
    async def _run_async_impl(self, ctx):
        heard = ctx.user_content.parts[0].text
        delta = {"heard": heard, "user:last": heard, "app:last": heard, "temp:gone": heard}
        yield Event(
            invocation_id=ctx.invocation_id,
            author=self.name,
            content=types.Content(role="model", parts=[types.Part(text=f"echo {heard}")]),
            actions=EventActions(state_delta=delta),
        )


root_agent = Echo(name="echo")
"""


@pytest.fixture
def agents(tmp_path):
    """Return a folder of agents with the lines that the document says."""
    (lines,) = re.findall(r"^    services:\n(?:^    +.*\n)+", DOCUMENT, re.MULTILINE)
    folder = tmp_path / "agents"
    (folder / "echo").mkdir(parents=True)
    (folder / "echo" / "agent.py").write_text(AGENT)
    (folder / "services.yaml").write_text(textwrap.dedent(lines))
    return folder


@contextmanager
def served(command: str, uri: str, agents: Path, cwd: Path) -> Iterator[str]:
    """Start one of ADK's servers on a port that is free; returns where, and stops it after that."""
    argv = ["-m", "google.adk.cli", command, "--port", "0", "--session_service_uri", uri, str(agents)]
    with subprocess.Popen(
        [sys.executable, *argv], cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stderr is not None
        limit = threading.Timer(LIMIT_S, server.kill)
        limit.start()
        try:
            said: list[str] = []
            for line in server.stderr:
                said.append(line)
                if found := re.search(r"Uvicorn running on (http://127\.0\.0\.1:\d+)", line):
                    break
            else:
                pytest.fail("".join(said)[-2000:])
            reading = threading.Thread(target=server.stderr.read)  # a pipe that nobody reads stops who writes
            reading.start()
            yield found[1]
        finally:
            server.terminate()
            server.wait()
            limit.cancel()
        reading.join()


def ask(method: str, url: str, body: object = None) -> Any:
    """Send a request and return what was answered."""
    data = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(asked, timeout=LIMIT_S) as answer:
        return json.loads(answer.read() or b"null")


def maestro(project: Path, *argv: str) -> Any:
    """Return what a command of Maestro's prints."""
    command = [MAESTRO, *argv, "--json"]
    return json.loads(subprocess.run(command, cwd=project, capture_output=True, text=True, check=True).stdout)


def bound_in(project: Path) -> set[str]:
    """Return the keys of frameworks that a terminal sees."""
    return {row["bound"]["key"] for row in maestro(project, "session", "list")["sessions"] if "bound" in row}


@pytest.mark.parametrize("command", ["api_server", "web"])
def test_sessions_over_http(place, agents, tmp_path, command):
    """Made, run, listed, read, changed and deleted; a terminal sees them; another server goes on with them."""
    project = Path(str(place["project"]))
    own, message = "/apps/echo/users/ada/sessions", {"role": "user", "parts": [{"text": "hello"}]}
    run = {"app_name": "echo", "user_id": "ada", "session_id": "one", "new_message": message}
    with served(command, "maestro:", agents, project) as url:
        assert ask("GET", f"{url}/list-apps") == ["echo"]
        assert ask("POST", f"{url}{own}", {"sessionId": "one", "state": {"a": 1}})["state"] == {"a": 1}
        with pytest.raises(HTTPError) as refused:
            ask("POST", f"{url}{own}", {"sessionId": "one"})
        assert refused.value.code == 409
        (answer,) = ask("POST", f"{url}/run", run)
        assert answer["content"]["parts"] == [{"text": "echo hello"}]

    # The same project, from elsewhere.
    with served(command, f"maestro:{project}", agents, tmp_path) as url:
        found = ask("GET", f"{url}{own}/one")
        assert [one["content"]["parts"][0]["text"] for one in found["events"]] == ["hello", "echo hello"]
        state = {"a": 1, "heard": "hello", "user:last": "hello", "app:last": "hello"}
        assert found["state"] == state
        assert ask("PATCH", f"{url}{own}/one", {"stateDelta": {"a": 2}})["state"] == state | {"a": 2}
        other = ask("POST", f"{url}{own}", {})["id"]
        assert {one["id"] for one in ask("GET", f"{url}{own}")} == {"one", other}
        assert {"echo/ada/one", f"echo/ada/{other}"} <= bound_in(project)
        said = maestro(project, "--session", "adk:echo/ada/one", "messages")
        assert [(one["role"], one["content"]) for one in said["messages"]] == [
            ("user", "hello"),
            ("assistant", "echo hello"),
            ("system", ""),
        ]
        ask("DELETE", f"{url}{own}/one")
        with pytest.raises(HTTPError) as gone:
            ask("GET", f"{url}{own}/one")
        assert gone.value.code == 404
        assert [one["id"] for one in ask("GET", f"{url}{own}")] == [other]
        assert "echo/ada/one" not in bound_in(project)
