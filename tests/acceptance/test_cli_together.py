"""Many `maestro` commands at once: one server, nothing lost, whoever comes first."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest

from maestro_state.local import embedded
from maestro_state.local.project import IndexRow, Project
from tests.support.cli_runs import MAESTRO, printed
from tests.support.embedded_project import servers, supervisors, temporary_project
from tests.support.programs import python
from tests.support.waiting import wait_until

COMMANDS = 20
REWRITES = 200

pytestmark = pytest.mark.xdist_group("busy")


def at_once(project: Path, *command_lines: tuple[str, ...]) -> list[subprocess.CompletedProcess[bytes]]:
    """Run command lines at the same time."""
    running = [
        subprocess.Popen([MAESTRO, *words], cwd=project, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for words in command_lines
    ]
    return [
        subprocess.CompletedProcess(one.args, one.wait(), *output)
        for one in running
        for output in [one.communicate(timeout=60)]
    ]


def test_twenty_first_commands_share_one_server(tmp_path):
    """Twenty commands that find no server start exactly one, and each of their sessions is there."""
    with temporary_project() as project:
        done = at_once(project, *[("session", "start", f"number {number}", "--json") for number in range(COMMANDS)])
        assert [one.returncode for one in done] == [0] * COMMANDS, [one.stderr for one in done if one.returncode]
        started = {msgspec.json.decode(one.stdout)["id"] for one in done}
        assert len(started) == COMMANDS
        assert len(servers(project)) == 1
        # Each command may have started a supervisor; all but the one with the lock leave by themselves.
        wait_until(lambda: len(supervisors(project)) == 1, "one supervisor is left")
        assert {row["id"] for row in printed(project, "session", "list")["sessions"]} == started
        assert {row.id for row in Project(project).index()} == started
        assert sum(row.active is True for row in Project(project).index()) == 1


def test_commands_after_a_killed_server_start_it_again(tmp_path):
    """After kill -9 of the server, commands at once start one again and find what was acknowledged."""
    with temporary_project() as project:
        session = printed(project, "session", "start", "killed")
        for number in range(3):
            printed(project, "message", "add", "--role", "user", str(number))
        pid = embedded.status(project).pid
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: pid not in servers(project), "the server is still there")
        done = at_once(project, *[("message", "add", "--role", "user", f"after {n}") for n in range(6)])
        assert [one.returncode for one in done] == [0] * 6, [one.stderr for one in done]
        found = [one["content"] for one in printed(project, "messages", "--all")["messages"]]
        assert found[:3] == ["0", "1", "2"]
        assert sorted(found[3:]) == [f"after {n}" for n in range(6)]
        assert len(servers(project)) == 1
        assert printed(project, "session", "status")["session"]["id"] == session["id"]


def test_index_rewrites_at_the_same_time_lose_nothing(tmp_path, project: Path):
    """Three programs that rewrite index.json 200 times each leave all their rows, whole at any moment."""
    with ExitStack() as stack:
        programs = [
            stack.enter_context(python(tmp_path, "rewrite", project, prefix, REWRITES)) for prefix in ("a", "b", "c")
        ]
        while any(program.process.poll() is None for program in programs):
            Project(project).index()  # raises when it is not whole
        for program in programs:
            program.finish()
    rows = [row.id for row in Project(project).index()]
    assert sorted(rows) == sorted(f"{prefix}--{n:06}" for prefix in ("a", "b", "c") for n in range(REWRITES))
    left = {path.name for path in (project / ".maestro/sessions").iterdir()}
    assert left == {"index.json", ".index.lock"}


def test_rewriting_without_the_lock_loses_rows(project: Path):
    """Control: two that read, change and write without it lose each other's row."""
    when = "2027-01-01T00:00:00.000+00:00"
    rows = [IndexRow(f"{name}--000000", name, "iniciada", when, when) for name in ("a", "b")]
    checkout = Project(project)
    with checkout.sessions(create=True) as folder:
        read_by_both = checkout.index()
        for row in rows:
            folder.replace("index.json", msgspec.json.encode({"sessions": [*read_by_both, row]}))
    assert checkout.index() == rows[1:]
