"""`maestro serve` kept by the stack: started with it, again when it is killed, shown by status, gone with it."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import httpx2
import pytest

from maestro_state.local.program import SERVER
from tests.support.cli_runs import maestro_command
from tests.support.embedded_project import processes_in, temporary_project
from tests.support.servers import free_port
from tests.support.waiting import wait_until


def servers(root: Path) -> list[int]:
    """Return the processes that serve a project over HTTP for its stack."""
    words = (Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0") for pid in processes_in(root))
    return [pid for pid, said in zip(processes_in(root), words, strict=False) if SERVER.encode() in said]


def answers(url: str, token: str | None = None) -> int:
    """Return the status that a list of sessions is answered with; 0 when nobody answers."""
    headers = {"authorization": f"Bearer {token}"} if token else {}
    try:
        return httpx2.get(f"{url}/v1/sessions", headers=headers, trust_env=False, timeout=60).status_code
    except httpx2.TransportError:
        return 0


def test_the_stack_keeps_it(monkeypatch: pytest.MonkeyPatch):
    """From the first command on it is there, after a kill too, with tokens where set; it goes with the stack."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    monkeypatch.setenv("MAESTRO_SERVE_PORT", str(port))
    monkeypatch.setenv("MAESTRO_SERVE_AUTH", "on")
    with temporary_project() as project:
        assert maestro_command(project, "session", "start", "kept").returncode == 0
        token = json.loads(maestro_command(project, "token", "add", "ana", "--json").stdout)["token"]
        wait_until(lambda: answers(url, token) == 200, "it serves")
        assert answers(url) == 401
        status = json.loads(maestro_command(project, "stack", "status", "--json").stdout)
        assert status["serve"] == url
        (pid,) = servers(project)
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: servers(project) not in ([], [pid]) and answers(url, token) == 200, "it is back")
        made = httpx2.post(
            f"{url}/v1/sessions", json={"name": "x"}, headers={"authorization": f"Bearer {token}"}, trust_env=False
        )
        assert made.status_code == 201
        log = (project / ".maestro/logs/serve.log").read_text()
        assert '"event": "audit"' in log
        assert maestro_command(project, "stack", "stop").returncode == 0
        wait_until(lambda: not servers(project), "it is gone")
        assert answers(url, token) == 0


def test_a_port_that_is_taken_is_said_in_its_log(monkeypatch: pytest.MonkeyPatch):
    """Commands go on; the log has the reason, and it is tried again."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken, temporary_project() as project:
        monkeypatch.setenv("MAESTRO_SERVE_PORT", str(taken.getsockname()[1]))
        assert maestro_command(project, "session", "start", "kept").returncode == 0
        log = project / ".maestro/logs/serve.log"
        wait_until(lambda: log.exists() and "cannot listen" in log.read_text(), "the reason is in the log")
        assert maestro_command(project, "session", "list").returncode == 0
