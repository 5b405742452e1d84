"""The commands on a live and on an archived session: the same answers, the right exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.support.backends import Backend
from tests.support.stored import filler


def maestro(project: Path, *arguments: str) -> subprocess.CompletedProcess:
    code = "import sys; from maestro_cli.main import run; sys.exit(run(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "--project", str(project), *arguments]
    return subprocess.run(command, capture_output=True, check=False, timeout=60, cwd=Path(__file__).parents[2])


def test_read_commands_answer_the_same_from_disk(real: Backend, project: Path):
    """runs, show, context list and show, messages, session get print byte for byte what they printed while live."""
    with real.open() as library:
        session = library.sessions.start("work")
        library.messages.add("user", "why?")
        fill = filler(real, session.id)
        fill.item(b"text \xc3\xa9\n")
        fill.run(b"\xffanswer\n", prompt=b"explain")
        library.sessions.end()
        commands = [
            ("runs", "--json"), ("show", "0001"), ("show", "--json"), ("show", "0001", "--prompt"),
            ("show", "0001", "--meta"), ("context", "list", "--json"), ("context", "show", "ctx-0001"),
            ("messages", "--json"), ("session", "get", "preferences", "--json"),
        ]  # fmt: skip
        live = {command: maestro(project, *command) for command in commands}
        real.raw.delete(*library.server.terms.keys.session(session.id))
        for command, before in live.items():
            after = maestro(project, *command)
            assert (after.returncode, after.stdout) == (before.returncode, before.stdout), (command, after.stderr)
            assert after.returncode == 0, (command, after.stderr)
        assert live[("show", "0001")].stdout == b"\xffanswer\n"
        refused = maestro(project, "message", "add", "--role", "user", "late", "--json")
        assert refused.returncode == 4
        assert json.loads(refused.stderr)["error"]["code"] == "invalid_transition"


def test_a_damaged_output_is_an_error_of_the_command(real: Backend, project: Path):
    """Show exits with 1 and says which file and how to look closer; export writes what there is, with a warning."""
    with real.open() as library:
        session = library.sessions.start("work")
        filler(real, session.id).run(b"an answer\n", prompt=b"explain")
        library.sessions.end()
        real.raw.delete(*library.server.terms.keys.session(session.id))
    path = project / ".maestro/sessions" / session.id / "runs/0001/output.txt"
    assert maestro(project, "show", "0001").returncode == 0
    path.write_bytes(b"AN ANSWER\n")
    shown = maestro(project, "show", "0001", "--json")
    assert shown.returncode == 1
    error = json.loads(shown.stderr)["error"]
    assert (error["code"], error["hint"]) == ("file_corrupt", f"maestro verify {session.id}")
    shown = maestro(project, "show", "0001")
    assert shown.returncode == 1
    assert b"output.txt is damaged" in shown.stderr
    exported = maestro(project, "export", session.id, "--json")
    assert "output.txt is damaged" in json.loads(exported.stdout)["warnings"][0]


def test_exit_codes(real: Backend, project: Path):
    """Damage is 1, and so is an archive that cannot be written, the session still there; sync and sweep are 0."""
    with real.open() as library:
        session = library.sessions.start("work")
        library.messages.add("user", "x")
        assert maestro(project, "session", "sync").returncode == 0
        assert maestro(project, "sweep", "--json").returncode == 0
        assert maestro(project, "verify", "--json").returncode == 0
        path = project / ".maestro/sessions" / session.id / "messages.jsonl"
        path.write_bytes(path.read_bytes().replace(b"x", b"y"))
        damaged = maestro(project, "verify", "--json")
        assert damaged.returncode == 1
        assert [one["path"] for one in json.loads(damaged.stdout)["damaged"]] == ["messages.jsonl"]
        staging = project / ".maestro/sessions/.staging"
        staging.rmdir()
        os.symlink("/nowhere", staging)
        assert maestro(project, "session", "end").returncode == 1
        assert library.sessions.read().state == "finalizada"
        assert maestro(project, "session", "end").returncode == 4
        staging.unlink()
        assert maestro(project, "sweep").returncode == 0
        assert maestro(project, "verify").returncode == 0
        assert maestro(project, "cleanup", "--json").returncode == 0
        assert maestro(project, "verify", "none--abcdef").returncode == 3
        assert maestro(project, "export", "--format", "json", "--output", "/nowhere/x").returncode == 1


def test_what_a_command_would_do_for_good_is_asked_first(real: Backend, project: Path):
    """Removing a session and moving it to the trash both need a yes where nobody can be asked."""
    with real.open() as library:
        session = library.sessions.start("asked")
        for words in ((), ("--trash",)):
            refused = maestro(project, "session", "delete", session.id, *words)
            assert refused.returncode == 2
            assert b"--yes" in refused.stderr
        assert library.sessions.read(session.id).id == session.id
        assert maestro(project, "session", "delete", session.id, "--trash", "--yes").returncode == 0
        assert (project / ".maestro/trash" / session.id).is_dir()


def test_an_ended_session_reads_calmly(real: Backend, project: Path):
    """For people it has ended; for programs its status is what it always was."""
    with real.open() as library:
        session = library.sessions.start("calm")
        library.sessions.end()
    listed = maestro(project, "session", "list").stdout.decode()
    assert "ended" in listed
    assert "expired" not in listed
    assert "ended" in maestro(project, "session", "status", session.id).stdout.decode()
    row = json.loads(maestro(project, "session", "list", "--json").stdout)["sessions"][0]
    assert row["status"] == "expired"


def test_a_fork_tells_that_a_strangers_command_line_was_dropped(real: Backend, project: Path):
    """A tool of the catalogue is taken over without a word; a command line from an archive is not, and that is said."""
    with real.open() as library:
        for tool, is_told in (("sh -c 'touch /tmp/x'", True), ("echo", False)):
            session = library.sessions.start("origin", tool=tool)
            library.sessions.end()
            real.raw.delete(*library.server.terms.keys.session(session.id))
            done = maestro(project, "session", "fork", session.id, "again")
            assert done.returncode == 0, done.stderr
            assert (b"was not taken over" in done.stderr) is is_told


def test_the_index_follows_activity(real: Backend, project: Path):
    """A checkpoint a minute later is in index.json; one in the same minute is not worth writing it for."""
    from tests.support.backends import Clock

    def updated_at() -> str:
        return json.loads((project / ".maestro/sessions/index.json").read_text())["sessions"][0]["updated_at"]

    clock = Clock(1_800_000_000_000)
    with real.open(now_ms=clock) as library:
        library.sessions.start("moving")
        times = []
        for seconds in (10, 70):
            clock.advance(seconds=seconds)
            library.messages.add("user", "x")
            library.archive.checkpoint()
            times.append((updated_at(), library.sessions.read().updated_at))
    (first, moved), (second, present) = times
    assert first < moved
    assert second == present


def test_a_rebuilt_index_has_the_archived_sessions_too(real: Backend, project: Path):
    """Doctor --repair reads what the server has let go of from the archives: none of it becomes an orphan."""
    with real.open() as library:
        archived = library.sessions.start("archived")
        library.sessions.end()
        real.raw.delete(*library.server.terms.keys.session(archived.id))
        live = library.sessions.start("live")
    index = project / ".maestro/sessions/index.json"
    index.write_text("{")
    assert maestro(project, "doctor", "--repair", "--json").returncode == 0
    assert {row["id"] for row in json.loads(index.read_text())["sessions"]} == {archived.id, live.id}
    rows = json.loads(maestro(project, "session", "list", "--json").stdout)["sessions"]
    assert {(row["id"], row["archived"], row["orphan"]) for row in rows} == {
        (archived.id, True, False), (live.id, False, False),
    }  # fmt: skip


def test_what_cleanup_removed_is_said_by_every_view(real: Backend, project: Path):
    """Show, runs, status, export and verify name an output and a dry run that are gone, instead of an empty text."""
    with real.open() as library:
        session = library.sessions.start("told")
        fill = filler(real, session.id)
        fill.run(b"an old answer\n", prompt=b"explain")
        fill.run(None, status="dry")
        fill.run(b"the last answer\n")
        library.sessions.end()
        keys = library.server.terms.keys.session(session.id)
    assert real.raw.exists(*keys)  # control: the server has it for its time to live

    def asked(*words: str) -> dict:
        done = maestro(project, *words, "--json")
        assert done.returncode == 0, (words, done.stderr)
        return json.loads(done.stdout)

    assert asked("cleanup")["removed"] == []  # control: it was ended just now
    assert asked("show", "1")["output"] == "an old answer\n"
    assert len(asked("cleanup", "--days", "0", "--dry-run")["removed"]) == 4
    assert real.raw.exists(*keys)
    assert len(asked("cleanup", "--days", "0")["removed"]) == 4
    assert not real.raw.exists(*keys)
    record = asked("session", "status", session.id)["session"]
    first, dry, last = asked("runs")["runs"]
    assert first["output_ref"] == {
        "path": "output.txt", "size": 14, "digest": first["output_ref"]["digest"], "removed_at": record["cleanup_at"],
    }  # fmt: skip
    assert (dry["status"], dry["removed_at"]) == ("dry", record["cleanup_at"])
    assert "removed_at" not in last["output_ref"]
    assert asked("show", "1") == {"run": first, "output": None}
    assert asked("verify")["removed"] == [
        "runs/0001/output.txt", "runs/0002/meta.json", "runs/0002/prompt.txt", "runs/0002/sent_context.json",
    ]  # fmt: skip
    exported = json.loads(Path(asked("export", "--format", "json")["path"]).read_text())
    assert [run["output"] for run in exported["runs"]] == [None, None, "the last answer\n"]
    assert exported["warnings"] == ["cleanup had removed the output of 2 runs: 0001, 0002"]

    day = record["cleanup_at"][:10]
    shown = maestro(project, "show", "1")
    assert (shown.returncode, shown.stdout) == (0, b"")
    assert f"the output of run 0001 (14 B) was removed by cleanup on {day}" in shown.stderr.decode()
    assert f"removed by cleanup on {day}" in maestro(project, "show", "2").stderr.decode()
    assert maestro(project, "runs").stdout.decode().count(f"removed by cleanup on {day}") == 2
    assert "1 output and 1 dry run removed" in maestro(project, "session", "status").stdout.decode()
    assert "4 removed by cleanup" in maestro(project, "verify").stdout.decode()
    page = Path(asked("export")["path"]).read_text()
    assert page.count(f"*Removed by cleanup on {day}") == 2
