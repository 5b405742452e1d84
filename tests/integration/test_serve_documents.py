"""`maestro serve`: documents over HTTP are those of the commands, and bad input is refused with one line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from maestro_state import Maestro
from maestro_state.serve.openapi import openapi_document
from maestro_state.serve.routes import ROUTES
from tests.support.served import Served, serving, started


@pytest.fixture
def server(project: Path, served: None) -> Iterator[Served]:
    """Serve the project."""
    with serving(project) as running:
        yield running


@pytest.fixture
def client(server: Served) -> Iterator[httpx2.Client]:
    """Return somebody on this machine."""
    with server.client() as asking:
        yield asking


def code_of(answer: httpx2.Response) -> tuple[int, str]:
    """Return the status, and the name of the error; every error says both."""
    error = answer.json()["error"]
    assert set(error) == {"code", "message", "hint"}
    return answer.status_code, error["code"]


def test_a_session_from_start_to_end(client: httpx2.Client, project: Path):
    """Everything that is done with a session, with the documents that commands print."""
    assert client.get("/v1/health").json()["status"] == "ok"
    made = client.post("/v1/sessions", json={"name": "Fix login", "note": "since Monday"})
    session_id = made.json()["id"]
    assert (made.status_code, made.headers["location"]) == (201, f"/v1/sessions/{session_id}")
    here = made.headers["location"]
    said = client.post(f"{here}/messages", json={"role": "user", "content": "why?"})
    assert (said.status_code, said.json()["content"]) == (201, "why?")
    text = client.post(f"{here}/context", json={"text": "a note"})
    item = text.json()["items"][0]["id"]
    assert client.get(f"{here}/context/{item}").json()["content"] == "a note"
    assert client.get(f"{here}/context").json()["items"][0]["drift"] is None
    status = client.get(here).json()
    assert (status["session"]["id"], len(status["context"])) == (session_id, 1)
    assert client.delete(f"{here}/context/{item}").json()["items"][0]["state"] == "removed"
    forked = client.post(f"{here}/fork", json={"name": "again"})
    assert (forked.status_code, forked.json()["forked_from"]) == (201, session_id)
    assert client.post(f"{here}/end").json()["state"] == "finalizada"
    assert code_of(client.post(f"{here}/end")) == (409, "invalid_transition")
    assert [one["content"] for one in client.get(f"{here}/messages").json()["messages"]] == ["why?"]
    with Maestro(project) as maestro:
        assert maestro.sessions.status(session_id).session.notes == "since Monday"
        assert maestro.project.active() is None
    assert client.post(f"{forked.headers['location']}/abort", json={"reason": "no"}).json()["state"] == "abortada"
    assert client.delete(here).json() == {"deleted": session_id}
    assert code_of(client.get(here)) == (404, "session_not_found")


def test_a_repeated_message_is_once(client: httpx2.Client, project: Path):
    """An Idempotency-Key makes a repeat the first one; another key, another message."""
    here = f"/v1/sessions/{started(project)}/messages"
    body = {"role": "user", "content": "once"}
    ids = [client.post(here, json=body, headers={"idempotency-key": key}).json()["id"] for key in ("a", "a", "b")]
    assert ids[0] == ids[1] != ids[2]
    assert len(client.get(here).json()["messages"]) == 2
    assert [one["id"] for one in client.get(here, params={"since": ids[0]}).json()["messages"]] == [ids[2]]
    assert code_of(client.post(here, json=body, headers={"idempotency-key": "k" * 201}))[0] == 400


def test_fields_have_their_revision_as_etag(client: httpx2.Client, project: Path):
    """Two who set a field do not overwrite each other unseen."""
    here = f"/v1/sessions/{started(project)}/fields/preferences"
    before = client.get(here)
    assert before.headers["etag"] == f'"{before.json()["revision"]}"'
    set_once = client.put(here, json={"value": {"a": 1}}, headers={"if-match": before.headers["etag"]})
    assert (set_once.status_code, set_once.json()["value"]) == (200, {"a": 1})
    stale = client.put(here, json={"value": {"a": 2}}, headers={"if-match": before.headers["etag"]})
    assert code_of(stale) == (412, "conflict")
    assert code_of(client.put(here, json={"value": {}}, headers={"if-match": "nonsense"})) == (412, "conflict")
    assert client.get(here).json()["value"] == {"a": 1}
    assert code_of(client.get(here.replace("preferences", "nothing"))) == (404, "not_found")


def test_lists_go_on_by_cursor(client: httpx2.Client, project: Path):
    """Pages of a list are the whole list, each session once."""
    ids = {started(project, f"s{number}") for number in range(5)}
    found, cursor = [], None
    while True:
        page = client.get("/v1/sessions", params={"limit": 2} | ({"cursor": cursor} if cursor else {})).json()
        found += [row["id"] for row in page["sessions"]]
        cursor = page["cursor"]
        if cursor is None:
            break
    assert (len(found), set(found)) == (5, ids)
    assert code_of(client.get("/v1/sessions", params={"cursor": "x"})) == (400, "invalid_value")


def test_bad_input_is_refused_and_changes_nothing(client: httpx2.Client, project: Path):
    """Each refusal has its status, and the next request is answered as if nothing had been."""
    session_id = started(project)
    here = f"/v1/sessions/{session_id}/messages"
    json_type = {"content-type": "application/json"}
    deep = b'{"role": "user", "content": "", "metadata": {"a": ' + b"[" * 100 + b"]" * 100 + b"}}"
    refused = [
        (client.post(here, content=b"{}", headers={"content-type": "text/plain"}), 415),
        (client.post(here, content=b"x" * 10), 415),
        (client.post(here, content=b"{}", headers=json_type | {"content-encoding": "gzip"}), 415),
        (client.post(here, content=b"{", headers=json_type), 400),
        (client.post(here, content=b'{"role": "boss", "content": ""}', headers=json_type), 400),
        (client.post(here, content=b'{"role": "user", "content": "", "more": 1}', headers=json_type), 400),
        (client.post(here, content=deep, headers=json_type), 400),
        (client.post(here, content=iter([b" " * (18 << 20)]), headers=json_type), 413),
        (client.get(here, params={"last": "many"}), 400),
        (client.get(here, params={"since": "x"}), 400),
        (client.get(here, params={"nobody": "1"}), 400),
        (client.get(here, params={"since": "null"}), 400),
        (client.get(here, params={"since": f"{2**64}-0"}), 400),
        (client.get(here, params={"before": f"0-{2**64}"}), 400),
        (client.get(f"/v1/sessions/{session_id}/events", params={"from": f"{2**64}-0"}), 400),
        (client.get("/v1/events", headers={"last-event-id": f"0-{2**64}"}), 400),
        (client.get(f"{here}?last=1&last=2"), 400),
        (client.put(here, json={}), 405),
        (client.get("/v1/nothing"), 404),
        (client.get("/v1/sessions/..%2F..%2Fetc"), 404),
        (client.get("/v1/sessions/%FF"), 404),
        (client.get("/v1/sessions/none--aaaaaa/events"), 404),
        (client.post("/v1/sessions", json={"name": "../up"}), 400),
        (client.post(f"/v1/sessions/{session_id}/context", json={"path": "../../etc/passwd"}), 400),
        (client.post(f"/v1/sessions/{session_id}/context", json={}), 400),
    ]
    assert [answer.status_code for answer, _ in refused] == [status for _, status in refused]
    assert all(code_of(answer) for answer, _ in refused)
    assert client.get(here).json() == {"messages": []}


def test_a_run_is_asked_for_and_read(client: httpx2.Client, project: Path):
    """A dry run is recorded, listed and shown."""
    here = f"/v1/sessions/{started(project)}"
    made = client.post(f"{here}/runs", json={"prompt": "hello", "tool": "cat", "dry": True})
    assert (made.status_code, made.json()["status"]) == (201, "dry")
    assert client.get(made.headers["location"]).json()["run"]["id"] == "0001"
    assert client.get(f"{here}/runs").json()["runs"][0]["prompt_preview"] == "hello"
    assert client.get(f"{here}/runs/0001/output").json()["output"] == ""
    assert code_of(client.post(f"{here}/runs/0009/cancel")) == (404, "run_not_found")
    assert code_of(client.post(f"{here}/runs", json={"prompt": "x", "tool": "no-such-tool"})) == (404, "unknown_tool")


def test_the_openapi_document_is_the_table(client: httpx2.Client):
    """What is told is what is served, and every reference in it leads somewhere."""
    told = client.get("/openapi.json").json()
    assert told == json.loads(json.dumps(openapi_document(ROUTES)))
    assert told["openapi"] == "3.1.0"
    schemas = told["components"]["schemas"]
    references = {part.split('"')[0] for part in json.dumps(told).split("#/components/schemas/")[1:]}
    assert references <= set(schemas)
