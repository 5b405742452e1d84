"""No request keeps another one waiting: what works on files does so in threads. Who waits holds up no stop."""

from __future__ import annotations

import asyncio
import signal
import threading
from pathlib import Path
from typing import Any

import httpx2
import pytest

from maestro_state import Maestro
from maestro_state.mirror.layouts.plan import PlanFiles
from maestro_state.serve import app as served_app
from maestro_state.serve import build_app, metrics
from maestro_state.serve.handlers import project as handlers
from maestro_state.serve.options import Options
from tests.support.followers import events
from tests.support.served import Served, serving, started
from tests.support.waiting import wait_until

#: More than there are threads for a short look at a file.
HELD = 20


def waiting_for_locks(server: Served) -> int:
    """Count the threads of a server that wait for somebody to let go of a file."""
    lines = Path("/proc/locks").read_text().splitlines()
    return sum("->" in line and f" {server.process.pid} " in line for line in lines)


@pytest.mark.usefixtures("served")
def test_requests_that_wait_for_a_file_hold_up_nobody(project: Path):
    """Twenty replays wait for the plan, which somebody holds; everything else is answered; then they are, too."""
    session_id = started(project)
    with Maestro(project) as maestro:
        discussion = maestro.discussions.start(kind="track").session_id
        operation = {"op_type": "add_track", "data": {"track_id": "t1", "track_name": "Login"}}
        maestro.discussions.done({"patch_operations": [operation]}, discussion)
    answers: list[httpx2.Response] = []

    def replay(server: Served) -> None:
        with server.client() as asking:
            answers.append(asking.post(f"/v1/discussions/{discussion}/replay", json={"dry_run": True}))

    with serving(project, "--no-web") as server, server.client() as client:
        with PlanFiles.hold(project):
            threads = [threading.Thread(target=replay, args=(server,)) for _ in range(HELD)]
            for thread in threads:
                thread.start()
            wait_until(lambda: waiting_for_locks(server) >= HELD, "all of them wait for the plan")
            here = f"/v1/sessions/{session_id}"
            assert client.post(f"{here}/messages", json={"role": "user", "content": "hello"}).status_code == 201
            assert client.post(f"{here}/context", json={"text": "a text"}).status_code == 201
            assert [client.get(path).status_code for path in ("/v1/sessions", here, "/v1/tools")] == [200] * 3
            assert next(events(client, session_id)).type == "session.started"
            assert (answers, waiting_for_locks(server)) == ([], HELD)
        for thread in threads:
            thread.join(60)
    assert [answer.json()["result"] for answer in answers] == ["REPLAY_OK"] * HELD


def pending(project: Path) -> str:
    """Ask for a run that nobody carries out; return its session."""
    with Maestro(project) as maestro:
        session_id = maestro.sessions.start("fix-login").id
        maestro.runs.start("x", session_id, tool="cat")
        return session_id


def blocked(project: Path) -> bool:
    """Tell whether somebody waits for news of the state server."""
    with Maestro(project) as maestro:
        found = maestro.server.connection.call("INFO", "clients").decode()
    return int(found.split("blocked_clients:")[1].split()[0]) > 0


@pytest.mark.usefixtures("served")
def test_who_waits_is_answered_when_the_server_stops(project: Path):
    """As if the time was over: with what is over, and what is not."""
    session_id = pending(project)
    answers: list[httpx2.Response] = []

    def wait(server: Served) -> None:
        with server.client() as asking:
            answers.append(asking.get(f"/v1/sessions/{session_id}/wait", params={"timeout_s": 55}))

    with serving(project, "--no-web") as server:
        thread = threading.Thread(target=wait, args=(server,))
        thread.start()
        wait_until(lambda: blocked(project), "it waits")
        server.process.send_signal(signal.SIGTERM)
        thread.join(60)
        assert server.process.wait(60) == 0
    assert [(one.status_code, one.json()) for one in answers] == [(200, {"runs": [], "open": ["0001"]})]


@pytest.mark.usefixtures("served")
async def test_what_takes_longer_than_a_stop_is_refused_in_the_usual_form(project: Path):
    """A request that is cut off by the stop is told so; one that is canceled otherwise is not answered."""
    session_id = pending(project)
    app = build_app(Options(web=False, mcp=False), project=project)
    await app.open()
    for is_stopping in (False, True):
        sent: list[dict[str, Any]] = []
        body = [{"type": "http.request", "body": b'{"wait": true}', "more_body": False}]

        async def receive(left: list[dict[str, Any]] = body) -> dict[str, Any]:
            return left.pop()

        async def send(event: dict[str, Any], to: list[dict[str, Any]] = sent) -> None:
            to.append(event)

        headers = [(b"host", b"localhost"), (b"content-type", b"application/json"), (b"content-length", b"14")]
        path = f"/v1/sessions/{session_id}/end"
        scope = {"type": "http", "method": "POST", "path": path, "headers": headers, "query_string": b""}
        asking = asyncio.create_task(app(scope, receive, send))
        while not await asyncio.to_thread(blocked, project):
            pass
        if is_stopping:
            app.waits.end()
        asking.cancel()
        await asyncio.wait([asking])
        assert asking.cancelled() is not is_stopping
        assert [event.get("status") for event in sent[:1]] == ([503] if is_stopping else [])
    await app.close()


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize("require_auth", [False, True])
async def test_a_state_server_that_hangs_is_told_to_be_away(
    project: Path, monkeypatch: pytest.MonkeyPatch, require_auth: bool
):
    """Whoever watches asks for a few seconds and is gone: health and metrics do not wait for it as long as others."""
    monkeypatch.setattr(metrics, "_READ_S", 0.05)
    monkeypatch.setattr(served_app, "CALLER_S", 0.05)
    monkeypatch.setattr(handlers, "_PING_S", 0.05)
    app = build_app(Options(web=False, mcp=False, require_auth=require_auth), project=project)
    await app.open()

    async def hang(*_: Any, **__: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(type(app.maestro.metrics), "read", hang)
    monkeypatch.setattr(type(app.maestro.tokens), "check", hang)
    monkeypatch.setattr(app.maestro.server.connection, "call", hang)
    transport = httpx2.ASGITransport(app=app, client=("127.0.0.1", 1))
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        told = await client.get("/metrics", headers={"authorization": "Bearer x"} if require_auth else {})
        assert (told.status_code, "maestro_up 0.0" in told.text) == (200, True)
        health = await client.get("/v1/health")
        assert (health.status_code, health.json()["status"]) == (503, "unavailable")
    monkeypatch.undo()
    await app.close()
