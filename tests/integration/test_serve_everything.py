"""What the command line can do, over HTTP: each verb with the document that the command prints."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from maestro_state import Maestro
from maestro_state.models.claim import Ended
from maestro_state.serve.idempotency import KEEP_MS
from tests.support.cli_runs import MAESTRO
from tests.support.served import Served, serving, started


@pytest.fixture
def server(project: Path, served: None) -> Iterator[Served]:
    """Serve the project."""
    with serving(project, "--no-web") as running:
        yield running


@pytest.fixture
def client(server: Served) -> Iterator[httpx2.Client]:
    """Return somebody on this machine."""
    with server.client() as asking:
        yield asking


def printed(project: Path, *words: str) -> Any:
    """Return the document that a command prints."""
    done = subprocess.run([MAESTRO, "--project", str(project), *words, "--json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_tool_is_chosen_asked_waited_for_and_promoted(client: httpx2.Client, project: Path):
    """Use, run, wait, show, use-output, refresh, clear: one after another, as at a terminal."""
    session_id = started(project)
    here = f"/v1/sessions/{session_id}"
    used = client.post(f"{here}/tool", json={"tool": "cat"}).json()
    assert used["tool_active"] == "cat"
    shown = client.post(f"{here}/preview", json={"prompt": "one\ntwo\nthree", "history": 0}).json()
    assert (shown["argv"][0].endswith("cat"), shown["stdin"].endswith("one\ntwo\nthree")) == (True, True)
    assert client.get(f"{here}/runs").json() == {"runs": []}
    run = client.post(f"{here}/runs", json={"prompt": "one\ntwo\nthree", "history": 0}).json()
    waited = client.get(f"{here}/wait", params={"runs": run["id"], "timeout_s": 55}).json()
    assert ([one["status"] for one in waited["runs"]], waited["open"]) == (["success"], [])
    assert client.get(f"{here}/runs/1/output").json() == printed(project, "--session", session_id, "show", "1")
    assert client.get(f"{here}/runs/1/prompt").json()["prompt"] == "one\ntwo\nthree"
    assert client.get(f"{here}/runs/1/context").json()["context"] == []
    assert client.get(f"{here}/runs/1/activity").json()["activity"] == []
    added = client.post(f"{here}/use-output", json={"run": "1", "lines": "2-3", "note": "the plan"})
    item = added.json()["items"][0]
    assert (added.status_code, item["kind"], item["notes"]) == (201, "output", "the plan")
    assert client.get(f"{here}/context/{item['id']}").json()["content"].endswith("two\nthree")
    (project / "notes.txt").write_text("first")
    client.post(f"{here}/context", json={"path": "notes.txt"})
    (project / "notes.txt").write_text("second")
    assert client.get(f"{here}/context").json()["items"][1]["drift"] == "changed"
    fresh = client.post(f"{here}/refresh").json()["items"][0]
    assert client.get(f"{here}/context/{fresh['id']}").json()["content"] == "second"
    assert client.get(f"{here}/context").json() == printed(project, "--session", session_id, "context", "list")
    assert client.delete(f"{here}/context").json() == {"removed": 2}
    assert client.get(f"{here}/wait").json() == {"runs": [], "open": []}


def test_messages_are_read_backwards(client: httpx2.Client, project: Path):
    """Who scrolls up gets what was before, of a live session and of an archived one."""
    session_id = started(project)
    here = f"/v1/sessions/{session_id}/messages"
    with Maestro(project) as maestro:
        ids = [maestro.messages.add("user", str(number), session_id).id for number in range(7)]
        for _ in range(2):
            pages = [client.get(here, params={"last": 3}).json()["messages"]]
            while pages[0]:
                asked = {"last": 3, "before": pages[0][0]["id"]}
                pages.insert(0, client.get(here, params=asked).json()["messages"])
            assert [one["id"] for page in pages for one in page] == ids
            if maestro.sessions.read(session_id).state != "finalizada":
                maestro.sessions.end(session_id)
    assert client.get(here, params={"before": ids[3], "since": ids[1]}).status_code == 400


def test_work_sessions(client: httpx2.Client, project: Path):
    """Started, filled, counted and ended, with what the commands print."""
    top = client.post("/v1/wsessions", json={"type": "work_task", "entity": {"task": "T-17"}})
    here = top.headers["location"]
    work_id = top.json()["session_id"]
    child = client.post("/v1/wsessions", json={"type": "step", "parent": work_id}).json()["session_id"]
    body = {"prompt": "fix it", "response": "done", "model_used": "opus", "cost": 0.5}
    ids = [
        client.post(f"{here}/breadcrumbs", json=body, headers={"idempotency-key": key}).json()["breadcrumb_id"]
        for key in ("a", "a", "b")
    ]
    assert ids[0] == ids[1] != ids[2]
    assert client.post(f"{here}/breadcrumbs", json=body | {"cost": -1}).status_code == 400
    assert client.post(f"{here}/consume").json()["applied"] == 2
    first = client.get(f"{here}/breadcrumbs", params={"limit": 1}).json()
    rest = client.get(f"{here}/breadcrumbs", params={"cursor": first["next"]}).json()["breadcrumbs"]
    assert [one["breadcrumb_id"] for one in (*first["breadcrumbs"], *rest)] == [ids[0], ids[2]]
    for path, command in (("", "show"), ("/tree", "tree"), ("/stats", "stats"), ("/timeline", "timeline")):
        assert client.get(f"{here}{path}").json() == printed(project, "wsession", command, work_id)
    assert client.get("/v1/wsessions").json() == printed(project, "wsession", "list")
    assert client.get("/v1/wsessions/tree").json() == printed(project, "wsession", "tree")
    assert client.get("/v1/wsessions", params={"type": "step"}).json()["sessions"][0]["session_id"] == child
    assert client.post(f"{here}/end").json()["error"]["code"] == "open_children"
    assert client.post(f"{here}/pause").json()["status"] == "paused"
    assert client.post(f"{here}/resume").json()["status"] == "running"
    assert client.post(f"{here}/end", json={"children": "end"}).json()["status"] == "completed"


def test_discussions(client: httpx2.Client, project: Path):
    """Started, spoken in, ended and replayed; a path names none here."""
    started_one = client.post("/v1/discussions", json={"kind": "track", "ref": "login"})
    here, about = started_one.headers["location"], started_one.json()["session_id"]
    client.post(f"{here}/say", json={"content": "plan it"})
    assert "plan it" in client.get(f"{here}/prompt").json()["prompt"]
    operation = {"op_type": "add_track", "data": {"track_id": "login", "track_name": "Login"}}
    twice = b'{"final_json": {"patch_operations": [], "patch_operations": []}}'
    assert client.post(f"{here}/done", content=twice, headers={"content-type": "application/json"}).status_code == 400
    ended = client.post(f"{here}/done", json={"final_json": {"patch_operations": [operation]}})
    assert ended.json()["status"] == "closed", ended.text
    planned = client.post(f"{here}/replay", json={"dry_run": True}).json()
    assert (planned["result"], planned["changed_files"] != []) == ("REPLAY_OK", True)
    assert not (project / planned["changed_files"][0]).exists()
    assert client.post(f"{here}/replay").json()["result"] == "REPLAY_OK"
    assert (project / planned["changed_files"][0]).exists()
    assert client.get(here).json() == printed(project, "discuss", "show", about)
    assert client.get(f"/v1/discussions/{about[:8]}").json()["session_id"] == about
    assert client.get("/v1/discussions").json() == printed(project, "discuss", "list")
    path = f"docs%2Fmaestro%2Fdiscussions%2F{about}"
    assert client.get(f"/v1/discussions/{path}").status_code == 404
    assert client.post("/v1/discussions/migrate", json={"dry_run": True}).json()["migrated"] == []


def test_an_export_is_a_file_to_keep(client: httpx2.Client, project: Path):
    """It is what the command writes, it is saved and not shown, and nothing of it stays on the server."""
    session_id = started(project)
    here = f"/v1/sessions/{session_id}"
    client.post(f"{here}/messages", json={"role": "user", "content": "<script>alert(1)</script>"})
    for form in ("md", "json"):
        got = client.get(f"{here}/export", params={"format": form})
        assert got.headers["content-disposition"] == f'attachment; filename="{session_id}.{form}"'
        assert (got.headers["x-content-type-options"], "sandbox" in got.headers["content-security-policy"]) == (
            "nosniff",
            True,
        )
        path = project / f"kept.{form}"
        printed(project, "--session", session_id, "export", "--format", form, "--output", str(path))
        assert got.content == path.read_bytes()
    assert not list((project / ".maestro").rglob("exports/*"))
    assert client.get(f"{here}/export", params={"format": "pdf"}).status_code == 400


def test_a_name_of_any_script(client: httpx2.Client):
    """Addresses and file names are told in a form that headers can hold."""
    made = client.post("/v1/sessions", json={"name": "Größe 日本 \N{GREEK SMALL LETTER MU}"})
    here = made.headers["location"]
    assert here.isascii()
    assert client.get(here).json()["session"]["id"] == made.json()["id"]
    named = client.get(f"{here}/export").headers["content-disposition"]
    assert named.startswith("attachment; filename=")
    run = client.post(f"{here}/runs", json={"prompt": "x", "tool": "cat", "dry": True})
    assert client.get(run.headers["location"]).json()["run"]["id"] == "0001"
    forked = client.post(f"{here}/fork", json={"name": "µ"}, headers={"idempotency-key": "k"})
    again = client.post(f"{here}/fork", json={"name": "µ"}, headers={"idempotency-key": "k"})
    assert forked.headers["location"] == again.headers["location"]


def test_disk_set_up_and_upkeep(client: httpx2.Client, project: Path):
    """Sync, verify, sweep, cleanup, doctor, config, tools, stack, workers, search, usage."""
    session_id = started(project)
    here = f"/v1/sessions/{session_id}"
    client.post(f"{here}/messages", json={"role": "user", "content": "a needle"})
    assert client.post(f"{here}/sync").json()["written"] is True
    assert client.post(f"{here}/verify", json={"secrets": True}).json()["secrets"] == []
    assert client.post("/v1/verify").json()["ok"] is True
    assert client.post("/v1/sweep").json()["errors"] == []
    assert client.post("/v1/cleanup", json={"dry_run": True}).json()["dry_run"] is True
    assert {row["status"] for row in client.get("/v1/doctor").json()["checks"]} <= {"ok", "warn"}
    settings = {row["name"]: row["value"] for row in client.get("/v1/config").json()["settings"]}
    assert settings == {row["name"]: row["value"] for row in printed(project, "config")["settings"]}
    assert client.get("/v1/tools").json() == printed(project, "tool", "list")
    assert client.post("/v1/tools/check", json={"name": "cat"}).json()["tools"][0]["status"] in ("ok", "warn")
    assert client.get("/v1/stack").json()["running"] is True
    assert client.get("/v1/workers").json()["waiting"] == 0
    found = client.get("/v1/search", params={"q": "needle", "kind": "message", "session": session_id}).json()
    assert (found["total"], found["results"][0]["session_id"]) == (1, session_id)
    assert client.get("/v1/search", params={"q": "needle", "kind": "nonsense"}).status_code == 400
    assert client.post("/v1/search/rebuild").json() == printed(project, "search", "--rebuild")
    assert client.get("/v1/tools/workers").json()["tools"] == []
    assert client.get("/v1/tools/workers", params={"name": "cat"}).json()["tools"][0]["status"] == "missing"
    assert client.get("/v1/usage", params={"by": "tool"}).json() == printed(project, "usage", "--by", "tool")


def test_budgets(client: httpx2.Client, project: Path):
    """Set, listed and removed as by the command; what is no budget is refused, and what is not there is said."""
    session_id = started(project)
    made = client.put("/v1/budgets", json={"user": "ana", "cost": 5}).json()
    assert (made["scope"], made["name"], made["period"], made["left"]) == ("user", "ana", "day", 5)
    assert client.put("/v1/budgets", json={"session": session_id, "tokens": 10}).json()["period"] == "total"
    assert client.put("/v1/budgets", json={"everyone": True, "period": "day", "cost": 50}).status_code == 200
    assert client.get("/v1/budgets").json() == printed(project, "budget", "list")
    refused = [{"user": "ana"}, {"cost": 1}, {"user": "ana", "cost": 1, "tokens": 1}, {"user": "ana", "cost": -1}]
    assert [client.put("/v1/budgets", json=body).status_code for body in refused] == [400] * 4
    assert client.delete("/v1/budgets", params={"user": "ana", "unit": "tokens"}).status_code == 404
    assert client.delete("/v1/budgets", params={"user": "ana", "unit": "cost"}).json() == {"removed": 1}
    assert client.delete("/v1/budgets", params={"session": session_id}).json() == {"removed": 1}
    assert len(client.get("/v1/budgets").json()["budgets"]) == 1
    client.put("/v1/budgets", json={"everyone": True, "cost": 0})
    over = client.post(f"/v1/sessions/{session_id}/runs", json={"prompt": "x", "tool": "cat"})
    assert (over.status_code, over.json()["error"]["code"]) == (409, "over_budget")


def test_the_overview_has_what_a_list_shows(client: httpx2.Client, project: Path):
    """Tool, runs and activity of each live session, in one read; what follows goes on from its cursor."""
    first, second = started(project, "one"), started(project, "two")
    client.post(f"/v1/sessions/{first}/tool", json={"tool": "cat"})
    client.post(f"/v1/sessions/{first}/runs", json={"prompt": "x", "dry": True})
    shown = client.get("/v1/overview").json()
    rows = {row["id"]: row for row in shown["sessions"]}
    assert set(rows) == {first, second}
    assert (rows[first]["tool_active"], rows[first]["runs"], rows[first]["runs_open"]) == ("cat", 1, 0)
    assert all(sum(row["activity"]) >= 1 for row in rows.values())
    assert (shown["total"], shown["cost_today"]) == (2, 0)
    assert client.get("/v1/overview", params={"limit": 1}).json()["total"] == 2


def test_the_overview_believes_a_session_rather_than_its_row(client: httpx2.Client, project: Path):
    """Who began or ended a run was killed before the list had it: nobody sweeps, and what is shown is right."""
    session_id = started(project)
    with Maestro(project) as maestro:
        index, maestro.server.index = maestro.server.index, lambda *_, **__: True  # killed before that
        run = maestro.runs.start("p", session_id, tool="echo")

        def told() -> list[str]:
            shown = [client.get(path).json()["sessions"] for path in ("/v1/sessions", "/v1/overview", "/v1/sessions")]
            return [row["state"] for rows in shown for row in rows]

        assert told() == ["iniciada", "executando", "executando"]
        claim = maestro.claims.claim(session_id, run.id, "worker")
        maestro.claims.finish(claim, Ended(status="success", size=0))
        assert told() == ["executando", "iniciada", "iniciada"]
        maestro.server.index = index
        maestro.sessions.end(session_id, archive=False)
        assert client.get("/v1/overview").json()["sessions"][0]["state"] == "finalizada"


def test_the_overview_has_no_row_of_a_session_that_is_no_more(client: httpx2.Client, project: Path):
    """Who deleted it was killed before the list had it, and nobody sweeps. The control: one that is there is shown."""
    kept, deleted = started(project, "kept"), started(project, "deleted")
    with Maestro(project) as maestro:
        maestro.server.unindex = lambda *_, **__: None  # killed before that
        maestro.sessions.delete(deleted)
    shown = client.get("/v1/overview").json()
    assert ([row["id"] for row in shown["sessions"]], shown["gone"], shown["total"]) == ([kept], [deleted], 1)


def test_what_is_made_is_made_once(client: httpx2.Client, project: Path):
    """A repeat with the same Idempotency-Key gets the first answer, whatever it makes; the key is of what was said."""
    session_id = started(project)
    here = f"/v1/sessions/{session_id}"
    asked: list[tuple[str, dict[str, Any]]] = [
        ("/v1/sessions", {"name": "made"}),
        (f"{here}/fork", {"name": "forked"}),
        (f"{here}/context", {"text": "a text"}),
        (f"{here}/messages", {"role": "user", "content": "hello"}),
        (f"{here}/runs", {"prompt": "x", "tool": "cat", "dry": True}),
        ("/v1/wsessions", {"type": "step"}),
        ("/v1/discussions", {"kind": "task"}),
    ]
    for path, body in asked:
        answers = [client.post(path, json=body, headers={"idempotency-key": "k1"}) for _ in range(2)]
        assert {one.status_code for one in answers} == {201}, answers[0].text
        assert answers[0].json() == answers[1].json()
        assert answers[0].headers.get("location") == answers[1].headers.get("location")
        assert answers[1].headers["idempotency-replayed"] == "true"
        other = client.post(path, json=body, headers={"idempotency-key": "k2"})
        assert other.json() != answers[0].json()
    reused = client.post("/v1/sessions", json={"name": "another"}, headers={"idempotency-key": "k1"})
    assert (reused.status_code, reused.json()["error"]["code"]) == (409, "key_reused")
    refused = client.post("/v1/sessions", json={"name": "../up"}, headers={"idempotency-key": "k3"})
    assert refused.status_code == 400
    assert client.post("/v1/sessions", json={"name": "up"}, headers={"idempotency-key": "k3"}).status_code == 201


def cut_off(project: Path, age_s: int) -> None:
    """Have the one request with a key noted and never answered, as when its process was killed, so many seconds ago."""
    with Maestro(project) as maestro:
        place = maestro.server.connection.call("KEYS", "*:answer")[0]
        kept = json.loads(maestro.server.connection.call("GET", place))
        left_ms = KEEP_MS - age_s * 1000
        maestro.server.connection.call("SET", place, json.dumps({"said": kept["said"]}), "PX", left_ms)


def test_a_request_that_was_cut_off_is_not_done_again(client: httpx2.Client, project: Path):
    """Noted and never answered: nobody does it a second time."""
    headers = {"idempotency-key": "cut-off"}
    client.post("/v1/wsessions", json={"type": "step"}, headers=headers)
    cut_off(project, 0)
    again = client.post("/v1/wsessions", json={"type": "step"}, headers=headers)
    assert (again.status_code, again.json()["error"]["code"]) == (409, "unanswered")
    assert len(client.get("/v1/wsessions").json()["sessions"]) == 1


def test_a_message_that_was_cut_off_is_there_once_however_late_it_is_repeated(client: httpx2.Client, project: Path):
    """Soon after, the state server knows it; later, when it may have forgotten, it is not said again."""
    here = f"/v1/sessions/{started(project)}/messages"
    asked = {"json": {"role": "user", "content": "once"}, "headers": {"idempotency-key": "cut-off"}}
    first = client.post(here, **asked)
    cut_off(project, 0)
    assert client.post(here, **asked).json()["id"] == first.json()["id"]
    cut_off(project, 3600)
    late = client.post(here, **asked)
    assert (late.status_code, late.json()["error"]["code"]) == (409, "unanswered")
    assert len(client.get(here).json()["messages"]) == 1
