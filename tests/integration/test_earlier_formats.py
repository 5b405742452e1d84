"""What earlier commits left on a server and on disk is read as they read it; what newer ones will write is refused.

`tests/earlier/*` was written by those commits themselves, on a private server: `server.jsonl` is what the server had,
as commands that write it again; `sessions/` the archives; `expected.json` what that commit read of each session.
"""

from __future__ import annotations

import base64
import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from maestro_state import Maestro
from maestro_state.errors import NewerFormat
from maestro_state.mirror.layouts import session as layout
from maestro_state.models.schema import SCHEMA
from tests.support.backends import Backend, Clock
from tests.support.cli_runs import maestro_command, refused

EARLIER = Path(__file__).parent.parent / "earlier"
FORMS = sorted(path.name for path in EARLIER.iterdir())
#: Where the sessions were when they were written, and a moment soon after.
THERE = "/home/ana/project"
THEN_MS = 1_794_900_060_000
LIFE_MS = 40 * 24 * 3600 * 1000


def requeue(backend: Backend, form: str) -> dict[str, Any]:
    """Have a server and a checkout as that commit left them; return what it read there."""
    backend.raw.flushall()
    for line in (EARLIER / form / "server.jsonl").read_text().splitlines():
        words = [
            base64.b64decode(word["base64"]) if isinstance(word, dict) else word.replace(THERE, str(backend.project))
            for word in json.loads(line)
        ]
        backend.raw.execute_command(*words)
        backend.raw.pexpire(words[1], LIFE_MS)
    folder = backend.project / ".maestro/sessions"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(EARLIER / form / "sessions", folder)
    expected: dict[str, Any] = json.loads(
        (EARLIER / form / "expected.json").read_text().replace(THERE, str(backend.project))
    )
    return expected


def seen(maestro: Maestro, session_id: str) -> dict[str, Any]:
    """Return of a session what the recorders wrote down."""
    source, runs = maestro.sessions.source(session_id), maestro.runs.list(session_id)
    found = {
        "id": session_id,
        "record": msgspec.to_builtins(maestro.sessions.read(session_id)),
        "messages": [message.document() for message in maestro.messages.since(None, session_id)],
        "items": msgspec.to_builtins(source.items()),
        "runs": msgspec.to_builtins(runs),
        "outputs": {run.id: maestro.runs.output(run.id, session_id).decode() for run in runs},
    }
    return json.loads(json.dumps(found))


@pytest.mark.parametrize("form", FORMS)
def test_earlier_forms_are_read_as_they_were(real: Backend, form: str):
    """Live, waiting, ended and checkpointed sessions are read as the commit that wrote them read them."""
    expected = requeue(real, form)
    with real.open(now_ms=Clock(THEN_MS)) as maestro:
        for one in expected.values():
            assert seen(maestro, one["id"]) == one


@pytest.mark.parametrize("form", FORMS)
def test_earlier_forms_go_on_and_are_archived_right(real: Backend, form: str):
    """They take changes, a waiting run is carried out, and what is archived then is what was there."""
    expected = requeue(real, form)
    with real.open(now_ms=Clock(THEN_MS)) as maestro:
        for kind in ("live", "synced", "pending"):
            session_id = expected[kind]["id"]
            maestro.messages.add("user", "and on", session_id)
            if kind == "pending":
                claim = maestro.claims.claim(session_id, "0002", "me")
                assert claim.run.tool == "echo"
            maestro.archive.checkpoint(session_id)
            assert maestro.archive.verify(session_id).ok
            real.raw.delete(*maestro.server.terms.keys.session(session_id))
            archived = [message.document() for message in maestro.messages.since(None, session_id)]
            assert archived[:-1] == expected[kind]["messages"]
            assert archived[-1]["content"] == "and on"


def test_the_dumps_have_both_forms_of_messages():
    """Control: read as they are written today, the older ones would be a message of `role` that says `user`."""
    fields = {
        form: json.loads(next(line for line in (EARLIER / form / "server.jsonl").read_text().splitlines()
                              if '"XADD"' in line and ":messages" in line))[3:]
        for form in FORMS
    }  # fmt: skip
    assert fields["roles-as-fields"][:3] == ["role", "user", "content"]
    assert fields["no-schema-number"][0] == "user"


def newer(real: Backend, maestro: Maestro) -> str:
    """Return a session that a newer program wrote."""
    session = maestro.sessions.start("newer", tool="echo")
    maestro.messages.add("user", "x")
    real.raw.hset(maestro.server.terms.keys.of_session(session.id, "session"), "schema", SCHEMA + 1)
    return session.id


COMMANDS = [
    ("status",), ("session", "status"), ("session", "end"), ("session", "abort", "--reason", "x"), ("session", "sync"),
    ("session", "get", "preferences"), ("session", "set", "preferences", "{}"), ("session", "fork", "newer", "x"),
    ("messages",), ("message", "add", "--role", "user", "x"), ("context", "add", "--text", "x"), ("context", "list"),
    ("run", "x", "--detach"), ("runs",), ("show", "last"), ("use", "echo"), ("export",),
]  # fmt: skip


def test_a_newer_form_is_refused_everywhere_and_stops_nobody(real: Backend):
    """Each command says so in one line; the sweep names it and writes the others; nothing of it changes."""
    with real.open() as maestro:
        session_id = newer(real, maestro)
        keys = maestro.server.terms.keys.session(session_id)
        before = [real.raw.dump(key) for key in keys]
        from maestro_state.local.embedded import socket_path

        address = {"MAESTRO_REDIS_URL": f"unix://{socket_path(real.project)}"}
        for words in COMMANDS:
            code, error = refused(real.project, *words, env=address)
            assert (code, error["code"]) == (4, "newer_format"), (words, error)
        assert maestro_command(real.project, "session", "list", env=address).returncode == 0
        other = maestro.sessions.start("other").id
        report = maestro.archive.sweep()
        assert report.checkpointed == [other]
        assert [one.id for one in report.errors] == [session_id]
        assert "newer Maestro" in report.errors[0].reason
        assert maestro.claims.recover() == []
        assert [check.name for check in maestro.health.checks() if "newer Maestro" in check.detail] == ["format"]
        assert "left as it is" in maestro.health.repair()[0]
        assert [real.raw.dump(key) for key in keys] == before


def test_newer_work_and_discussions_are_refused(real: Backend):
    """So are work sessions and discussions, whatever is asked of them."""
    with real.open() as maestro:
        work = maestro.work.start("build")
        real.raw.hset(maestro.server.terms.keys.of_work(work.session_id, "session"), "schema", SCHEMA + 1)
        with pytest.raises(NewerFormat):
            maestro.work.end(work.session_id)
        with pytest.raises(NewerFormat):
            maestro.work.read(work.session_id)
        talk = maestro.discussions.start()
        real.raw.hset(maestro.server.terms.keys.discussion(talk.session_id)[0], "schema", SCHEMA + 1)
        with pytest.raises(NewerFormat):
            maestro.discussions.say("x", ref=talk.session_id)


def test_a_newer_archive_is_refused_and_left(real: Backend):
    """An archive of a newer form is neither read as another program's nor written over."""
    with real.open() as maestro:
        session = maestro.sessions.start("newer")
        maestro.archive.checkpoint()
        folder = real.project / ".maestro/sessions" / session.id
        manifest = layout.decode_manifest((folder / "manifest.json").read_bytes(), session.id)
        changed = layout.encode_manifest(msgspec.structs.replace(manifest, format=layout.FORMAT + 1))
        (folder / "manifest.json").write_bytes(changed)
        maestro.messages.add("user", "more")
        with pytest.raises(NewerFormat):
            maestro.archive.checkpoint()
        assert "newer Maestro" in maestro.archive.sweep().errors[0].reason
        real.raw.delete(*maestro.server.terms.keys.session(session.id))
        with pytest.raises(NewerFormat):
            maestro.runs.list(session.id)
        assert (folder / "manifest.json").read_bytes() == changed


def test_a_job_of_a_newer_form_is_left_to_a_newer_worker(real: Backend):
    """The worker says so, goes on with others, and the run still waits."""
    from maestro_state.local.embedded import socket_path

    with real.open() as maestro:
        session = maestro.sessions.start("job", tool="echo")
        run = maestro.runs.start("x")
        (job,) = real.raw.scan_iter("rq:job:*")
        assert real.raw.hget(job, "schema") == str(SCHEMA).encode()
        real.raw.hset(job, "schema", SCHEMA + 1)
        other = maestro.sessions.start("other", tool="echo")
        done = maestro.runs.start("y")
        address = {"MAESTRO_REDIS_URL": f"unix://{socket_path(real.project)}"}
        worked = maestro_command(real.project, "worker", "--burst", env=address)
        assert "newer Maestro" in worked.stderr + worked.stdout
        assert maestro.runs.read(done.id, other.id).status == "success"
        assert maestro.runs.read(run.id, session.id).status in ("pending", "success")
