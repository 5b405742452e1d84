"""Screens that cut nothing off and leave nothing hanging: help, checks, lists, what Ctrl-C leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.test_cli_runs import Screen
from tests.support.cli_runs import MAESTRO, maestro_command, printed
from tests.support.embedded_project import ended_project

project = ended_project


def test_the_help_of_a_group_says_whole_what_each_command_does(tmp_path: Path):
    """In rows that fit, in the order of use; a sentence is cut nowhere."""
    told = maestro_command(tmp_path, "context", "--help").stdout
    assert "..." not in told.partition("Commands:")[2]
    assert "snapshot of its\n              content" in told
    assert told.index("  add ") < told.index("  remove ") < told.index("  refresh ")
    assert max(map(len, told.splitlines())) <= 80


def test_a_question_left_by_ctrl_c_ends_its_line(project: Path):
    """The shell's prompt begins on a line of its own; nothing was removed."""
    session = printed(project, "session", "start", "kept")["id"]
    screen = Screen(project, "session", "delete", session)
    screen.wait_for(b"for good?")
    screen.press(b"\x03")
    assert screen.end() == 130
    assert screen.seen.endswith(b"\n")
    assert printed(project, "session", "status", session)["session"]["id"] == session


def test_checks_and_times_are_for_people_on_a_terminal(project: Path):
    """What to do about a check is a row of its own there; a pipe has one line a check, and times as they are kept."""
    printed(project, "session", "start", "checked")
    printed(project, "token", "add", "ana")
    plain = {"PATH": str(project / "no-programs")}
    piped = maestro_command(project, "doctor", env=plain).stdout.splitlines()
    (line,) = [line for line in piped if line.split()[1] == "tools"]
    assert "  → " in line
    screen = Screen(project, program=["/usr/bin/env", *(f"{k}={v}" for k, v in plain.items()), MAESTRO, "doctor"])
    screen.end()
    assert "\r\n" + " " * 19 + "→ " in screen.seen.decode()
    kept = printed(project, "token", "list")["tokens"][0]["created_at"]
    assert kept in maestro_command(project, "token", "list").stdout
    screen = Screen(project, "token", "list")
    screen.end()
    assert kept not in screen.seen.decode()
    assert "ana" in screen.seen.decode()


@pytest.mark.parametrize("command", ["list", "status"])
def test_a_terminal_that_has_no_unicode_is_told_in_what_it_has(project: Path, command: str):
    """In the POSIX locale too, where python lets file names through: what cannot be written is escaped."""
    printed(project, "session", "start", "修复登录")
    env = {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = maestro_command(project, "session", command, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\\u4fee\\u590d" in done.stdout


def test_one_is_not_many(project: Path):
    """What is counted agrees with its number."""
    printed(project, "session", "start", "counted")
    told = maestro_command(project, "budget", "set", "--user", "ana", "--tokens", "1").stdout
    assert told == "user ana: at most 1 token today, 1 token left\n"


def test_only_yes_is_yes(project: Path):
    """What is neither is asked about again; Ctrl-D leaves."""
    session = printed(project, "session", "start", "kept")["id"]
    screen = Screen(project, "session", "delete", session)
    screen.press(b"perhaps\n")
    screen.wait_for(b"y for yes, n for no")
    screen.press(b"\n")
    assert screen.end() == 1
    assert b"nothing removed" in screen.seen
    screen = Screen(project, "session", "delete", session)
    screen.wait_for(b"for good?")
    screen.press(b"\x04")
    assert screen.end() == 130
    screen = Screen(project, "session", "delete", session)
    screen.press(b"Yes\n")
    assert screen.end() == 0
