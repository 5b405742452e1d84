"""index.json is a cache: whatever it says, sessions are listed by their own records, and no command stops for it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.support.cli_runs import maestro_command, printed

STATES = ("iniciada", "com_contexto", "com_saida", "com_saida", "finalizada", "abortada")
NOW = "2099-01-02T03:04:05.000+00:00"


def written(project: Path, number: int, state: str, updated_at: str = NOW) -> str:
    """Write an archive as another program does; return its id."""
    session_id = f"other--{number:06}"
    folder = project / ".maestro/sessions" / session_id
    folder.mkdir(parents=True)
    record = {"id": session_id, "slug": "other", "state": state, "created_at": updated_at, "updated_at": updated_at}
    (folder / "session.json").write_text(json.dumps(record))
    return session_id


def index_of(project: Path) -> Path:
    return project / ".maestro/sessions/index.json"


def row(session_id: str, state: str) -> dict[str, str]:
    return {"id": session_id, "slug": "other", "state": state, "created_at": NOW, "updated_at": NOW}


@pytest.mark.usefixtures("served")
def test_states_come_from_the_records(project: Path):
    """Of 18 sessions the index has 9 wrong: all are listed right, and it is set aside and rebuilt with one line."""
    states = {written(project, number, STATES[number % 6]): STATES[number % 6] for number in range(18)}
    stale = {"sessions": [row(one, "finalizada" if int(one[-6:]) % 3 else state) for one, state in states.items()]}
    index_of(project).write_text(json.dumps(stale))
    done = maestro_command(project, "session", "list", "--json")
    rows = json.loads(done.stdout)["sessions"]
    assert {one["id"]: one["state"] for one in rows} == states
    assert all(one["archived"] and not one["orphan"] for one in rows)
    (line,) = done.stderr.splitlines()
    assert "index.json was out of date for 9 sessions: set aside as index.json.damaged" in line
    assert {one["id"]: one["state"] for one in json.loads(index_of(project).read_text())["sessions"]} == states
    assert json.loads(index_of(project).with_name("index.json.damaged").read_text()) == stale
    # The second time it is right, and there is nothing to say.
    found = printed(project, "session", "list", "--state", "com_saida")["sessions"]
    assert {one["id"] for one in found} == {one for one, state in states.items() if state == "com_saida"}


@pytest.mark.parametrize("content", [b"", b'{"sessions": [{"id": 1}]}', b"\xff" * 100, b"[" * 100_000])
@pytest.mark.usefixtures("served")
def test_no_command_stops_for_a_damaged_index(project: Path, content: bytes):
    """Each command does what it is for, with one line of warning; what was damaged is kept aside."""
    archived = written(project, 1, "com_saida")
    first = maestro_command(project, "session", "start", "kept", "--json")
    assert first.returncode == 0
    started = json.loads(first.stdout)
    for words in (
        ("session", "list"),
        ("session", "start", "more"),
        ("session", "switch", started["id"]),
        ("session", "set", "context_summary", "x"),
        ("session", "sync"),
        ("session", "end"),
        ("session", "fork", "kept", "forked"),
        ("session", "delete", "kept", "--yes"),
        ("doctor", "--repair"),
    ):
        index_of(project).write_bytes(content)
        done = maestro_command(project, *words, "--json")
        assert done.returncode == 0, (words, done.stderr)
        told = [line for line in done.stderr.splitlines() if "index.json" in line]
        assert len(told) == (words[0] == "session" and words[1] not in ("set",)), (words, done.stderr)
        if words[1] != "set":
            assert index_of(project).with_name("index.json.damaged").read_bytes() == content
            assert archived in {one["id"] for one in json.loads(index_of(project).read_text())["sessions"]}
    assert archived in {one["id"] for one in printed(project, "session", "list")["sessions"]}


@pytest.mark.parametrize("kind", ["link", "folder", "fifo"])
@pytest.mark.usefixtures("served")
def test_no_command_stops_for_what_is_no_file(project: Path, kind: str):
    """A link is not followed; whatever is in the index's place is set aside, also where something else was before."""
    archived = written(project, 1, "com_saida")
    elsewhere = project / "elsewhere"
    elsewhere.write_text("{}")
    for words in (("session", "list"), ("session", "start", "one"), ("session", "list"), ("session", "start", "two")):
        index_of(project).unlink(missing_ok=True)
        match kind:
            case "link":
                index_of(project).symlink_to(elsewhere)
            case "folder":
                index_of(project).mkdir()
            case _:
                os.mkfifo(index_of(project))
        done = maestro_command(project, *words, "--json")
        assert done.returncode == 0, (words, done.stderr)
        assert len([line for line in done.stderr.splitlines() if "set aside" in line]) == 1
        assert archived in {one["id"] for one in json.loads(index_of(project).read_text())["sessions"]}
    assert elsewhere.read_text() == "{}"


@pytest.mark.usefixtures("served")
def test_a_missing_index_is_rebuilt_by_who_writes_it(project: Path):
    """Reading lists everything and makes nothing; the first change writes an index with all sessions, and says so."""
    archived = written(project, 1, "com_saida")
    before = sorted(os.listdir(project / ".maestro/sessions"))
    assert [one["id"] for one in printed(project, "session", "list")["sessions"]] == [archived]
    assert sorted(os.listdir(project / ".maestro/sessions")) == before
    done = maestro_command(project, "session", "start", "new", "--json")
    (line,) = done.stderr.splitlines()
    assert "index.json was missing: rebuilt from 1 archived session" in line
    known = {one["id"] for one in json.loads(index_of(project).read_text())["sessions"]}
    assert known == {archived, json.loads(done.stdout)["id"]}


@pytest.mark.usefixtures("served")
def test_a_list_says_what_it_leaves_out(project: Path):
    """How many older ones are not shown, with --all named; and an empty list says that it is empty."""
    empty = maestro_command(project, "session", "list")
    assert (empty.returncode, empty.stdout) == (0, "")
    assert "no sessions yet" in empty.stderr
    for number in range(3):
        written(project, number, "com_saida", "2020-01-02T03:04:05Z")
    none = maestro_command(project, "session", "list")
    assert none.stdout == ""
    assert "3 archived sessions older than 30 days are not shown: maestro session list --all" in none.stderr
    recent = written(project, 9, "finalizada")
    some = maestro_command(project, "session", "list")
    assert recent in some.stdout
    assert "3 archived sessions older than 30 days are not shown: maestro session list --all" in some.stderr
    assert printed(project, "session", "list")["older"] == 3
    every = maestro_command(project, "session", "list", "--all")
    assert every.stdout.count("other--") == 4
    assert every.stderr == ""
    one = maestro_command(project, "session", "list", "--state", "finalizada")
    assert (recent in one.stdout, one.stderr) == (True, "")
