"""`maestro wait` and `--notify`: back when runs are over, and somebody is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.test_cli_runs import Screen
from tests.acceptance.test_cli_terminal import program
from tests.support.cli_runs import maestro_command, printed, refused
from tests.support.embedded_project import call, temporary_project
from tests.support.waiting import wait_until


@pytest.fixture
def project() -> Iterator[Path]:
    """Return a project with a session whose tool waits for a file, and then exits with what is in it."""
    with temporary_project() as folder:
        program(folder / "held.sh", "until [ -e go ]; do sleep 0.02; done; exit $(cat go)")
        printed(folder, "session", "start", "waits", "--tool", "./held.sh")
        yield folder


def test_wait_returns_when_the_runs_are_over(project: Path):
    """0 when all succeeded, 1 when one did not; with nothing open there is nothing to wait for."""
    assert printed(project, "wait") == {"runs": []}
    assert refused(project, "wait", "7")[0] == 3
    printed(project, "run", "p", "--detach")
    printed(project, "run", "p", "--detach", "--tool", "echo")
    screen = Screen(project, "wait", "1", "2", "--notify")
    screen.wait_for(b"0002 success")
    assert b"0001" not in screen.seen
    assert b"\a" in screen.seen
    (project / "go").write_text("0")
    assert screen.end() == 0
    assert b"0001 success" in screen.seen

    (project / "go").write_text("3")
    printed(project, "run", "p", "--detach")
    done = maestro_command(project, "wait", "3", "1", "--json")
    assert done.returncode == 1
    assert [(run["id"], run["status"]) for run in json.loads(done.stdout)["runs"]] in (
        [("0003", "error"), ("0001", "success")],
        [("0001", "success"), ("0003", "error")],
    )
    shown = maestro_command(project, "wait", "3")
    assert shown.returncode == 1
    assert shown.stdout.startswith("0003 error: ")
    session = printed(project, "session", "end")["id"]
    assert maestro_command(project, "--session", session, "wait", "1").stdout == "0001 success\n"


def test_ctrl_c_leaves_what_is_waited_for_running(project: Path):
    """Waiting is looking: to stop looking ends no run."""
    printed(project, "run", "p", "--detach")
    screen = Screen(project, "wait")
    wait_until(lambda: printed(project, "runs")["runs"][0]["status"] == "running", "it runs")
    # Before, it may still be starting, and a Ctrl-C would end the interpreter.
    wait_until(lambda: " cmd=xread " in call(project, "CLIENT", "LIST"), "somebody waits for it")
    screen.press(b"\x03")
    assert screen.end() == 130
    assert printed(project, "runs")["runs"][0]["status"] == "running"
    (project / "go").write_text("0")
    assert printed(project, "wait", "1")["runs"][0]["status"] == "success"


def test_notify_calls_a_command_of_the_users(project: Path):
    """It gets a few words as one argument and the run on its standard input, and no shell looks at either."""
    (project / "go").write_text("4")
    program(project / "told.sh", 'printf "%s\\n" "$@" > words; cat > run.json')
    env = {"MAESTRO_NOTIFY": f"'{project}/told.sh' '$(touch marker)'"}
    assert maestro_command(project, "run", "p", "--notify", env=env).returncode == 1
    assert (project / "words").read_text() == "$(touch marker)\nrun 0001 of ./held.sh: error\n"
    assert json.loads((project / "run.json").read_text())["exit_code"] == 4
    assert not (project / "marker").exists()

    missing = maestro_command(project, "wait", "1", "--notify", env={"MAESTRO_NOTIFY": "/no/such/program"})
    assert missing.returncode == 1
    assert "MAESTRO_NOTIFY could not be told" in missing.stderr
    assert refused(project, "run", "p", "--notify", "--detach")[0] == 2
