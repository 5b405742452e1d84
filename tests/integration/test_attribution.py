"""Who did what, in a session several people work in: watched, listed, exported, live and archived."""

from __future__ import annotations

import json
import re

import pytest

from maestro_state.state.calls.claims import Ended
from tests.support.cli_runs import maestro_command, printed


@pytest.fixture
def shared(real):
    """Make a session of ana's that bo works in too, and return its id."""
    with real.open(user="ana") as ana, real.open(user="bo") as bo:
        session = ana.sessions.start("shared", tool="echo")
        for maestro in (ana, bo):
            user = maestro.settings.user
            maestro.messages.add("user", f"said by {user}", session.id)
            maestro.context.add(f"text of {user}".encode(), ref=session.id)
            run = maestro.runs.start(f"asked by {user}", session.id)
            claim = ana.claims.claim(session.id, run.id, "worker")
            ana.claims.finish(claim, Ended(status="success"))
        return session.id


def exported(project, session, form):
    """Return an export as text."""
    path = project / f"export.{form}"
    path.unlink(missing_ok=True)
    done = maestro_command(project, "export", session, "--format", form, "--output", str(path))
    assert done.returncode == 0, done.stderr
    return path.read_text()


def check_exports(project, session):
    """See that both exports say who did what."""
    found = json.loads(exported(project, session, "json"))
    assert found["session"]["user_id"] == "ana"
    assert [(row["content"], row["user"]) for row in found["messages"]] == [
        ("said by ana", "ana"),
        ("asked by ana", "ana"),
        ("said by bo", "bo"),
        ("asked by bo", "bo"),
    ]
    assert [(row["content"], row["user"]) for row in found["context"]] == [("text of ana", "ana"), ("text of bo", "bo")]
    assert [(row["prompt"], row["user"]) for row in found["runs"]] == [("asked by ana", "ana"), ("asked by bo", "bo")]
    page = exported(project, session, "md")
    assert re.search(r"\| started \| \S+ by ana \|", page)
    assert re.findall(r"(?m)^\*\*user\*\* · \S+(.*)$", page) == ["", "", " by bo", " by bo"]
    assert re.findall(r"(?m)^added (.*)$", page) == ["by bo"]
    assert re.findall(r"(?m)^started \S+?(?: (by \w+))?;", page) == ["", "by bo"]
    assert re.findall(r"(?m)^- \S+ run.started .*user=(\w+)", page) == ["bo"]


def test_exports_say_who_did_what(real, shared):
    """What others than the owner did is marked on the page, and named for everything in the document."""
    check_exports(real.project, shared)
    with real.open(user="ana") as ana:
        ana.sessions.end(shared)
        ana.archive.checkpoint(shared)
    real.raw.flushall()
    check_exports(real.project, shared)


def test_watching_says_who_did_what(real, shared):
    """Each line that is somebody else's names them."""
    watched = maestro_command(real.project, "watch", shared, "--from", "start", "--until-idle", "0.01").stdout
    of_bo = [line.split(" ", 1)[1] for line in watched.splitlines() if re.search(r"\bbo (added|asks)|\(bo\)", line)]
    assert of_bo == ["user (bo): said by bo", "bo added ctx-0002 text", "bo asks echo"]


def test_archived_sessions_are_listed_by_user_too(real, shared):
    """A session that only the disk has is still its owner's."""
    with real.open(user="ana") as ana:
        ana.sessions.end(shared)
        ana.archive.checkpoint(shared)
    real.raw.flushall()
    for words, env, expected in (
        (["--user", "ana"], {}, [shared]),
        (["--mine"], {"MAESTRO_USER": "ana"}, [shared]),
        (["--user", "bo"], {}, []),
        (["--mine"], {"MAESTRO_USER": "bo"}, []),
    ):
        rows = printed(real.project, "session", "list", *words, env=env)["sessions"]
        assert [row["id"] for row in rows] == expected
        assert {row["user_id"] for row in rows} <= {"ana"}
