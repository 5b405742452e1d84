"""The page as a browser gets it: links, a log, a strict policy; whatever a session is called is text."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from maestro_state import Maestro
from maestro_state.serve.page import html
from tests.support.served import serving, started
from tests.support.waiting import wait_until

pytestmark = pytest.mark.usefixtures("served")


def test_sessions_are_links_and_a_session_is_a_log(project: Path):
    """Every page has a policy without inline scripts; every file that it names is there."""
    session_id = started(project)
    with serving(project) as server, server.client() as client:
        index = client.get("/")
        assert f'href="/sessions/{session_id}"' in index.text
        page = client.get(f"/sessions/{session_id}")
        assert 'role="log"' in page.text
        for answer in (index, page):
            policy = answer.headers["content-security-policy"]
            assert "'unsafe" not in policy
            assert "frame-ancestors 'none'" in policy
            assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\son\w+=|style=|https?://", answer.text)
            for name in re.findall(r'(?:src|href)="(/static/[^"]+)"', answer.text):
                assert client.get(name).status_code == 200
        assert client.get("/sessions/none--aaaaaa/x").status_code == 404
        assert client.get("/static/..%2Fpages.py").status_code == 404
        scripts = sorted(
            path.name for path in (files("maestro_state.serve.page") / "static").iterdir() if path.suffix == ".js"
        )
        assert {"session.js", "index.js", "rendered.js"} <= set(scripts)
        for name in scripts:
            script = client.get(f"/static/{name}")
            assert script.headers["content-type"].startswith("text/javascript")
            assert not re.search(
                r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|https?://", script.text
            )


def test_names_are_text():
    """A name that is a script is shown, not run."""
    hostile = '"><script>alert(1)</script>'
    row = {"id": hostile, "state": hostile, "status": hostile, "updated_at": hostile}
    for text in (html.index([row]), html.session(hostile)):
        assert "<script>alert" not in text


def test_who_has_no_token_is_asked_for_one(project: Path):
    """The page says where to put it; its scripts are for everybody."""
    with Maestro(project) as maestro:
        token = maestro.tokens.add("ana").token
    with serving(project, "--require-auth") as server, server.client() as client:
        asked = client.get("/")
        assert (asked.status_code, 'id="signin"' in asked.text) == (401, True)
        assert client.get("/static/signin.js").status_code == 200
        client.post("/v1/signin", json={"token": token})
        assert client.get("/").status_code == 200


def test_without_the_page_there_is_only_the_api(project: Path):
    """--no-web serves documents and events alone."""
    with serving(project, "--no-web") as server, server.client() as client:
        assert [client.get(path).status_code for path in ("/", "/static/page.css", "/v1/health")] == [404, 404, 200]


def test_a_conversation_is_read_from_its_end(project: Path):
    """The last messages with what was between them, rendered, then those before; of an archived session the same."""
    session_id = started(project)
    with Maestro(project) as maestro, serving(project) as server, server.client() as client:
        for number in range(5):
            maestro.messages.add("user", f"**{number}**", session_id)
        path = f"/sessions/{session_id}/timeline"

        def drawn() -> bool:
            # Rendered at once only where that is done in a quarter of a second, which a busy machine does not promise.
            last.update(client.get(path, params={"last": 2}).json())
            return all("html" in event for event in last["events"])

        last: dict[str, Any] = {}
        wait_until(drawn, "the last messages come rendered")
        assert [event["html"] for event in last["events"]] == [
            "<p><strong>3</strong></p>\n",
            "<p><strong>4</strong></p>\n",
        ]
        assert (last["more"], last["cursor"]) == (True, maestro.follow.newest(session_id))
        older = client.get(path, params={"last": 9, "before": last["events"][0]["id"]}).json()
        said = [event["data"]["content"] for event in older["events"] if event["type"] == "message.added"]
        assert (said, older["more"]) == (["**0**", "**1**", "**2**"], False)
        assert client.get(path, params={"last": 0}).status_code == 400
        maestro.sessions.end(session_id)
        over = client.get(path).json()
        types = [event["type"] for event in over["events"]]
        assert types.count("message.added") == 5
        assert types[-1] == "session.finalized"
        assert client.post("/render", json={"texts": ["*a*", "<b>"]}).json() == {
            "html": ["<p><em>a</em></p>\n", "<p>&lt;b&gt;</p>\n"]
        }
        assert client.post("/render", json={"texts": ["x"] * 101}).status_code == 400
