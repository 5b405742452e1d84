"""Choosing and checking tools: what they may see, how long they may take, what is written down."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from maestro_state import Maestro
from maestro_state.errors import InvalidValue, MaestroError, ToolNotFound
from maestro_state.local import trust
from maestro_state.local.embedded import ensure
from maestro_state.tools import names, resolve
from maestro_state.tools.check import check_tools
from tests.support.backends import Backend
from tests.support.cli_runs import maestro_command
from tests.support.embedded_project import is_alive, temporary_project, write_program
from tests.support.waiting import wait_until

WHEN = "2026-01-01T00:00:00.000+00:00"


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """Return a folder that is on PATH alone."""
    folder = tmp_path / "bin"
    folder.mkdir()
    return folder


def test_the_catalogue_knows_the_tools():
    """Every tool has a command line, takes its prompt on stdin, and a reader for its stream."""
    assert names() == ["claude", "codex", "gemini", "qwen", "opencode", "llm", "echo"]
    for name in names():
        tool = resolve(name)
        assert tool.argv() == tool.argv()
        assert tool.version_argv()
        assert tool.parser().feed(b"") == []


def test_a_command_line_is_split_and_never_expanded():
    """Quotes are obeyed as in a shell; nothing else is."""
    tool = resolve("""sort -k 'a b' "$HOME" '*' ; rm""")
    assert tool.argv() == ["sort", "-k", "a b", "$HOME", "*", ";", "rm"]
    assert tool.is_plain
    for bad in ("", "  ", "''", "sort 'open", "so\0rt", "sort " + "x" * 5000):
        with pytest.raises(InvalidValue):
            resolve(bad)
    for unknown in ("no-such-program-anywhere", "no-such-program-anywhere -x", "/no/such"):
        with pytest.raises(ToolNotFound):
            resolve(unknown)


@pytest.mark.parametrize("name", ["claude", "codex", "echo", "sort -u"])
def test_a_tool_sees_an_allow_list_only(name: str):
    """Of the environment a tool gets what it needs and what is passed on purpose, nothing else."""
    environ = {
        "PATH": "/bin:relative:.::/usr/bin", "HOME": "/h", "LC_ALL": "C", "ANTHROPIC_API_KEY": "a",
        "OPENAI_API_KEY": "o", "MAESTRO_REDIS_URL": "redis://:secret@x", "AWS_SECRET_ACCESS_KEY": "s",
        "GITHUB_TOKEN": "t", "LD_PRELOAD": "x", "PYTHONPATH": "x", "NODE_OPTIONS": "x", "SSH_AUTH_SOCK": "x",
        "CUSTOM": "c",
    }  # fmt: skip
    keys = {"claude": {"ANTHROPIC_API_KEY"}, "codex": {"OPENAI_API_KEY"}}.get(name, set())
    seen = resolve(name).environment(environ, passed=["CUSTOM", "NOT_SET"])
    assert set(seen) == {"PATH", "HOME", "LC_ALL", "CUSTOM"} | keys
    assert seen["PATH"] == "/bin:/usr/bin"


def test_versions_are_found_within_the_deadline(programs: Path):
    """Tools are asked at once; one that hangs, with a child that holds on, is ended with its whole group."""
    pids = programs / "pids"
    write_program(programs / "claude", "print('2.1.325 (Claude Code)')")
    write_program(programs / "codex", "import sys; print('broken', file=sys.stderr); sys.exit(3)")
    hang = f"import os,time; os.fork(); open({str(pids)!r}, 'a').write(f'{{os.getpid()}}\\n'); time.sleep(600)"
    write_program(programs / "gemini", hang)
    (programs / "qwen").write_text("not executable")
    (programs / "opencode").write_text("not a program")
    (programs / "opencode").chmod(0o700)
    environ = {"PATH": str(programs), "HOME": "/", "ANTHROPIC_API_KEY": "sk-ant-secret"}
    findings = check_tools([resolve(name) for name in names()], environ, WHEN, deadline_s=4)
    rows = {finding.row.name: finding.row for finding in findings}

    assert {name: row.status for name, row in rows.items()} == {
        "claude": "ok", "codex": "warn", "gemini": "warn", "qwen": "missing", "opencode": "warn", "llm": "missing",
        "echo": "ok",
    }  # fmt: skip
    assert rows["claude"].notes == "2.1.325 (Claude Code)"
    assert rows["claude"].path == str(programs / "claude")
    assert rows["codex"].notes == "exit code 3 broken"
    assert "no answer within" in (rows["gemini"].notes or "")
    hung = [int(pid) for pid in pids.read_text().split()]
    assert len(hung) == 2
    wait_until(lambda: not any(map(is_alive, hung)), "the hanging tool and its child are gone")


def test_asking_for_a_version_gives_away_no_secret(programs: Path):
    """A tool that is only asked for its version sees no key; what it prints of secrets is not written down."""
    write_program(programs / "claude", "import os; print('1.0', sorted(os.environ), 'api_key=hunter2secret')")
    environ = {"PATH": str(programs), "HOME": "/", "ANTHROPIC_API_KEY": "sk-ant-secret", "CLAUDE_CONFIG_DIR": "/c"}
    (finding,) = check_tools([resolve("claude")], environ, WHEN)
    assert "ANTHROPIC" not in finding.log
    assert "CLAUDE_CONFIG_DIR" in finding.log  # where its settings are, it needs to know
    assert "hunter2" not in finding.log
    assert "hunter2" not in (finding.row.notes or "")


def test_a_version_is_never_a_warning(programs: Path):
    """What a tool says on stderr, before its version or instead of it, is in the log only."""
    write_program(programs / "claude", "import sys; print('Warning: old', file=sys.stderr, flush=True); print('2.0')")
    write_program(programs / "codex", "import sys; print('Warning: old', file=sys.stderr)")
    environ = {"PATH": str(programs), "HOME": "/"}
    told = {one.row.name: one for one in check_tools([resolve("claude"), resolve("codex")], environ, WHEN)}
    assert (told["claude"].row.status, told["claude"].row.notes) == ("ok", "2.0")
    assert told["codex"].row.notes == "it tells no version"
    assert all("Warning: old" in one.log for one in told.values())


def test_what_was_found_is_written_down(real: Backend, programs: Path):
    """A check writes tools.json, keeps what others wrote there, and leaves a private log; list reads it."""
    config = real.project / ".maestro" / "config"
    config.mkdir(parents=True)
    other = {"name": "my tool --x", "path": "/opt/x", "status": "ok"}
    (config / "tools.json").write_text(json.dumps({"tools": [other]}))
    write_program(programs / "claude", "print('9.9')")
    with real.open(environment=os.environ | {"PATH": str(programs)}) as maestro:
        assert [row.name for row in maestro.tools.list()] == [*names(), "my tool --x"]
        checked = maestro.tools.check()
        assert [row.name for row in checked] == names()
        (missing,) = maestro.tools.check("no-such-program-anywhere")
        assert missing.status == "missing"

        stored = json.loads((config / "tools.json").read_bytes())
        assert set(stored) == {"tools"}
        by_name = {row["name"]: row for row in stored["tools"]}
        assert by_name["my tool --x"] == other
        assert by_name["claude"]["status"] == "ok"
        assert by_name["codex"]["status"] == "missing"
        assert "no-such-program-anywhere" not in by_name
        assert maestro.tools.list()[0].notes == "9.9"
    logs = list((real.project / ".maestro" / "logs").glob("tool-check-*.log"))
    assert len(logs) == 1
    assert stat.S_IMODE(logs[0].stat().st_mode) == 0o600


def test_a_program_the_project_names_is_started_only_when_trusted(real: Backend, programs: Path, tmp_path: Path):
    """A path in tools.json is shown; it is executed only after the user trusted the file, and stays so."""
    marker = tmp_path / "started"
    planted = write_program(tmp_path / "planted", f"open({str(marker)!r}, 'w'); print('planted')")
    config = real.project / ".maestro" / "config"
    config.mkdir(parents=True)
    row = {"name": "claude", "path": str(planted)}
    (config / "tools.json").write_text(json.dumps({"tools": [row]}))
    environ = os.environ | {"PATH": str(programs)}
    with real.open(environment=environ) as maestro:
        assert maestro.tools.list()[0].path == str(planted)
        assert maestro.tools.check("claude")[0].status == "missing"
        assert not marker.exists()

        (config / "tools.json").write_text(json.dumps({"tools": [row]}))
        trust.trust(real.project, environ)
        for _ in range(2):  # its own rewriting does not end the trust
            assert maestro.tools.check("claude")[0].notes == "planted"
        assert marker.exists()


def _plant(path: Path, kind: str) -> None:
    """Put something in the place of a file."""
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to("/etc/hostname")
    else:
        path.write_text(kind)


def test_a_tools_file_that_nobody_trusts_stops_no_run():
    """Whatever a repository brings there: it names no program, and keeps none from being found."""
    with temporary_project() as project, Maestro(project) as maestro:
        ensure(project, supervise=False)
        maestro.sessions.start("planted", tool="echo")
        file = project / ".maestro" / "config" / "tools.json"
        file.parent.mkdir()
        runs = []
        for kind in ("pipe", "link", "{{{", "[" * 100_000):
            _plant(file, kind)
            with pytest.raises(MaestroError, match=r"tools\.json"):  # control: who has to read it says what is wrong
                maestro.tools.list()
            runs.append(maestro.runs.start("p"))
            done = maestro_command(project, "worker", "--burst")
            assert done.returncode == 0, done.stderr
            file.unlink()
        assert [maestro.runs.read(run.id).status for run in runs] == ["success"] * 4


def test_use_records_the_tool_and_refuses_secrets(real: Backend):
    """The chosen tool is in the record; a command line with a key in it is refused, and stored nowhere."""
    with real.open() as maestro:
        maestro.sessions.start("use", tool="echo")
        assert maestro.sessions.read().tool_active == "echo"
        assert maestro.tools.use(" sort -u ").tool_active == "sort -u"
        assert maestro.sessions.read().tool_active == "sort -u"
        with pytest.raises(InvalidValue, match="secret"):
            maestro.tools.use("sort --api-key=sk-123456789")
        with pytest.raises(ToolNotFound):
            maestro.sessions.start("no", tool="no-such-program-anywhere")
        stored = b"".join(
            value for key in real.raw.scan_iter() if real.raw.type(key) == b"hash" for value in real.raw.hvals(key)
        )
        assert b"sk-123456789" not in stored


def test_whoever_waits_hears_how_many_have_answered(programs: Path):
    """As each answers, whichever is first; what is found is in the order it was asked for."""
    go = str(programs / "go")
    write_program(
        programs / "claude", f"import os, time\nwhile not os.path.exists({go!r}): time.sleep(0.02)\nprint('1')"
    )
    write_program(programs / "codex", "print('codex 2')")
    write_program(programs / "gemini", f"open({go!r}, 'w'); print('gemini 2')")
    heard: list[tuple[int, int]] = []
    tools = [resolve(name) for name in names()]
    findings = check_tools(tools, {"PATH": str(programs), "HOME": "/"}, WHEN, told=lambda *now: heard.append(now))
    assert heard == [(number + 1, len(tools)) for number in range(len(tools))]
    assert [finding.row.name for finding in findings] == names()
    assert [finding.row.notes for finding in findings][:3] == ["1", "codex 2", "gemini 2"]
