"""`maestro serve` in a folder where nothing has begun: it serves, makes nothing, and the first session begins it."""

from __future__ import annotations

from pathlib import Path

from maestro_state import Maestro
from tests.support.served import noting_browser, serving
from tests.support.waiting import wait_until


def test_the_first_session_is_started_over_http(project: Path):
    """Before it there is nothing to list, health is good, and no server is up; nothing is made by who only looks."""
    with serving(project) as server, server.client() as client:
        assert client.get("/v1/health").json()["status"] == "ok"
        assert client.get("/v1/sessions").json()["sessions"] == []
        assert client.get("/v1/overview").json()["sessions"] == []
        measured = client.get("/metrics")
        assert (measured.status_code, "maestro_up 0.0" in measured.text) == (200, True)
        assert client.get("/").status_code == 200
        assert client.get("/v1/sessions/latest").status_code == 404
        kept = f"maestro-{server.port}=mst_aaaaaa_{'a' * 43}"  # a browser's, of what was there before
        left = client.post("/v1/signout", headers={"cookie": kept})
        assert (left.status_code, "Max-Age=0" in left.headers["set-cookie"]) == (200, True)
        assert list(project.iterdir()) == []
        made = client.post("/v1/sessions", json={"name": "fix-login"})
        assert made.status_code == 201
        assert client.get("/v1/health").json()["status"] == "ok"
        assert "maestro_up 1.0" in client.get("/metrics").text
        assert [row["id"] for row in client.get("/v1/sessions").json()["sessions"]] == [made.json()["id"]]


def test_strangers_learn_nothing_of_a_folder_where_nothing_has_begun(project: Path):
    """No token counts before one was made, and the folder's name is nobody's to know."""
    wrong = "mst_aaaaaa_" + "a" * 43
    with serving(project, "--require-auth") as server, server.client(wrong) as client, server.client() as nobody:
        answers = [client.get("/v1/sessions"), nobody.post("/v1/signin", json={"token": wrong}), nobody.get("/metrics")]
        assert [one.status_code for one in answers] == [401, 401, 401]
        assert not any(project.name in one.text for one in answers)
        with Maestro(project) as maestro:
            maestro.sessions.start("fix-login")
            token = maestro.tokens.add("ana").token
        with server.client(token) as ana:
            assert len(ana.get("/v1/sessions").json()["sessions"]) == 1


def test_a_code_that_could_sign_nobody_in_is_not_spent(project: Path, tmp_path: Path):
    """Where nothing has begun there is nowhere to keep who signed in: it works when there is, once."""
    (env, given), log = noting_browser(tmp_path), tmp_path / "log"
    with serving(project, "--require-auth", "--open", env=env, log=log) as server, server.client() as client:
        wait_until(given.exists, "the browser was started")
        code = {"token": given.read_text().partition("#signin=")[2]}
        assert client.post("/v1/signin", json=code).json()["error"]["code"] == "no_project"
        with Maestro(project) as maestro:
            maestro.sessions.start("fix-login")
        assert [client.post("/v1/signin", json=code).status_code for _ in range(2)] == [200, 401]
    assert log.read_text().count("signed_in") == 1
