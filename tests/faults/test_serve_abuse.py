"""Every way in, by everybody who should not be let in (RELIABILITY 20): refused, and without any effect."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from maestro_state import Maestro
from maestro_state.serve.routes import ROUTES, Route
from tests.support.served import serving, started

pytestmark = pytest.mark.usefixtures("served")

WRONG = "mst_aaaaaa_" + "a" * 43
REBOUND = ["evil.example", "localhost.evil", "127.0.0.1.evil.example", "evil@127.0.0.1", "[::1].evil"]
SITES = ["null", "http://evil.example", "http://localhost.evil", "https://127.0.0.1.evil", "file://"]
CHANGING = [route for route in ROUTES if route.needs in ("write", "admin")]


def attacks(route: Route, path: str, token: str) -> Iterator[tuple[str, set[int], httpx2.Request]]:
    """Yield requests that must not be let in, with what they may be answered."""

    def asked(what: str, statuses: set[int], method: str = route.method, **headers: str):
        body = b"{}" if method in ("POST", "PUT") else None
        named = {"content-type": "application/json", **headers}
        return (
            f"{what} {route.method} {path}",
            statuses,
            httpx2.Request(method, f"http://x{path}", headers=named, content=body),
        )

    good = {"authorization": f"Bearer {token}"}
    yield asked("without a token", {401})
    yield asked("with a wrong token", {401}, authorization=f"Bearer {WRONG}")
    yield asked("with a token as a password", {401}, authorization=f"Basic {token}")
    yield asked("with a token as a cookie of another name", {401}, cookie=f"session={token}")
    for name in REBOUND:
        yield asked(f"by the name {name}", {421}, host=name, **good)
    for site in SITES:
        yield asked(f"from {site}", {403}, origin=site, **good)
    yield asked("from another site", {403}, **{"sec-fetch-site": "cross-site"}, **good)
    if route.body is not None:
        yield asked("as a form does", {415}, **{"content-type": "text/plain"}, **good)
    if not any(one.method == "GET" and one.path == route.path for one in ROUTES):
        yield asked("by a link", {405}, method="GET", **good)


def snapshot(project: Path) -> object:
    """Return everything the requests could have changed."""
    with Maestro(project) as maestro:
        connection, keys = maestro.server.connection, sorted(maestro.server.connection.call("KEYS", "*"))
        tokens = [(one.id, one.role) for one in maestro.tokens.list()]
        rows = [row.document() for row in maestro.sessions.list()]
        messages = [one.id for row in rows for one in maestro.messages.since(None, row["id"])]
        return [key for key in keys if b"index" not in key], connection.call("DBSIZE"), tokens, messages, len(rows)


def test_no_abuse_has_an_effect(project: Path):
    """Each route that changes something, each attack: 401, 403, 405, 415 or 421, and nothing is changed."""
    session_id = started(project)
    with Maestro(project) as maestro:
        token = maestro.tokens.add("ana", role="admin").token
        maestro.messages.add("user", "hello", session_id)
        maestro.tokens.check(token)  # used once, so that the snapshot has it so
    before = snapshot(project)
    wrong = []
    with serving(project, "--require-auth", "--no-web") as server:
        with httpx2.Client(base_url=server.url, timeout=60, trust_env=False) as client:
            for route in CHANGING:
                path = re.sub(r"\{ref\}", session_id, route.path)
                path = re.sub(r"\{\w+\}", "0001", path)
                for what, statuses, request in attacks(route, path, token):
                    request.url = httpx2.URL(f"{server.url}{path}")
                    if request.headers["host"] == "x":
                        request.headers["host"] = f"127.0.0.1:{server.port}"
                    status = client.send(request).status_code
                    if status not in statuses:
                        wrong.append((what, status))
        assert wrong == []
        assert snapshot(project) == before
        # The control: the same, by who may, from where they may.
        with server.client(token, origin=f"http://127.0.0.1:{server.port}") as client:
            assert client.post(f"/v1/sessions/{session_id}/messages", json={"role": "user", "content": "x"}).is_success
            assert client.delete(f"/v1/sessions/{session_id}").status_code == 200
    assert snapshot(project) != before


def test_tokens_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch, project: Path):
    """The helper that takes as long for a near miss as for any other is the one that decides."""
    from maestro_state.state.calls import tokens as calls

    seen = []
    compare = calls.compare_digest

    def noted(one: str, other: str) -> bool:
        seen.append((one, other))
        return compare(one, other)

    monkeypatch.setattr(calls, "compare_digest", noted)
    with Maestro(project) as maestro:
        made = maestro.tokens.add("ana")
        assert maestro.tokens.check(made.token) is not None
        assert maestro.tokens.check(made.token[:-1] + ("a" if made.token[-1] != "a" else "b")) is None
        assert maestro.tokens.check(WRONG) is None
    assert len(seen) == 3


def test_strangers_are_not_told_where_the_state_server_is(project: Path):
    """While it is away nobody's token can be looked at; whoever serves this machine alone is told the address."""
    env = {"MAESTRO_REDIS_URL": "redis://127.0.0.1:1/0"}
    with serving(project, "--require-auth", env=env) as server, server.client() as client:
        named = {"authorization": f"Bearer {WRONG}"}
        answers = [client.get("/v1/sessions", headers=named), client.post("/v1/signin", json={"token": WRONG})]
        answers += [client.get("/", headers=named), client.get("/v1/health")]
    assert [answer.status_code for answer in answers] == [503] * 4
    assert not any(re.search("redis|127", answer.text) for answer in answers)
    assert answers[0].json()["error"]["code"] == "server_unavailable"
    with serving(project, env=env) as server, server.client() as client:
        assert "127.0.0.1:1" in client.get("/v1/sessions").json()["error"]["message"]
