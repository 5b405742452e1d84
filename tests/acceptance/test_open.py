"""`maestro open`: a tool in this terminal as if typed there, and what is said in it in the session."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import struct
import subprocess
import termios
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from maestro_state.local.process_tree import below, folder_of, running, tree_of
from tests.acceptance.test_cli_runs import Screen
from tests.support.cli_runs import MAESTRO, maestro_command, printed
from tests.support.embedded_project import end, is_alive, temporary_project
from tests.support.interactive_tool import put_claude
from tests.support.waiting import wait_until


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a project with a session, and a claude on PATH."""
    put_claude(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    with temporary_project() as folder:
        printed(folder, "session", "start", "fix-login")
        yield folder
        wait_until(lambda: not end(*map(int, _working_in(folder))), "whoever followed has left")


def _working_in(folder: Path) -> list[str]:
    return [pid for pid in os.listdir("/proc") if pid.isdigit() and folder_of(int(pid)) == str(folder)]


def said(project: Path) -> list[tuple[str, str]]:
    return [(one["role"], one["content"]) for one in printed(project, "messages")["messages"]]


def runs(project: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = printed(project, "runs")["runs"]
    return found


def sat_down(project: Path, *words: str) -> Screen:
    screen = Screen(project, "open", "claude", *words)
    screen.wait_for(b"sitting in")
    return screen


def test_what_is_said_in_the_tool_is_in_the_session_and_its_exit_code_is_ours(project: Path):
    """Messages, a run with its tokens, who sits there; then the other ways on: run, open, import add nothing twice."""
    screen = sat_down(project)
    screen.press(b"env\nhello\n")
    screen.wait_for(b"session fix-login--")
    wait_until(lambda: said(project) == [("user", "hello"), ("assistant", "heard hello")], "it is said")
    assert printed(project, "status")["attached"][0]["terminal"].endswith(" claude")
    screen.press(b"quit 7\n")
    assert screen.end() == 7
    assert b"2 messages in fix-login--" in screen.seen
    (run,) = runs(project)
    assert (run["status"], run["usage"]["tokens_input"], run["usage"]["tokens_output"]) == ("success", 12, 7)

    ran = printed(project, "run", "so?", "--continue")  # nobody has chosen a tool: the one that was open is meant
    assert (ran["continues"], ran["output"]) == (run["id"], "heard so?\n")
    assert ran["usage"]["tool_session"] == run["usage"]["tool_session"]

    again = sat_down(project, "--continue")
    assert f"sitting in {run['usage']['tool_session']}".encode() in again.seen
    again.press(b"and?\n")
    again.wait_for(b"told and?")
    again.press(b"quit 0\n")
    assert again.end() == 0
    assert said(project)[4:] == [("user", "and?"), ("assistant", "heard and?")]
    (row,) = printed(project, "import", "claude")["imported"]
    assert (row["session_id"][:11], row["status"], row["runs"]) == ("fix-login--", "unchanged", 3)
    assert len(printed(project, "session", "list", "--all")["sessions"]) == 1


def test_keys_that_signal_and_a_new_size_are_the_tools(project: Path):
    """Ctrl-C reaches it and ends nobody; one that is killed is told by 128 and the signal's number."""
    screen = sat_down(project)
    screen.press(b"\x03")
    screen.wait_for(b"interrupted")
    fcntl.ioctl(screen.master, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 97, 0, 0))
    screen.press(b"size\n")
    screen.wait_for(b"columns 97")
    screen.press(b"die\n")
    assert screen.end() == 128 + signal.SIGKILL


@pytest.mark.parametrize(("leaving", "code"), [(b"die\n", 128 + signal.SIGKILL), (b"quit 0\n", 0)])
def test_the_terminal_is_restored_after_a_tool_that_could_not(project: Path, leaving: bytes, code: int):
    """What is typed is shown again, the mouse tells nothing, the cursor is to be seen."""
    screen = sat_down(project)
    before = termios.tcgetattr(screen.master)
    screen.press(b"raw\n")
    screen.wait_for(b"[?25lraw")
    assert termios.tcgetattr(screen.master) != before
    screen.press(leaving)
    screen.wait_for(b"\x1b[?25h")
    assert b"\x1b[?1003l" in screen.seen
    wait_until(lambda: termios.tcgetattr(screen.master) == before, "its modes are as they were")
    assert screen.end() == code


def test_nothing_is_written_after_a_tool_that_left_by_itself(project: Path):
    """It has done so itself; a screen that somebody reads on is not moved."""
    screen = sat_down(project)
    screen.press(b"quit 0\n")
    assert screen.end() == 0
    assert b"\x1b" not in screen.seen


def test_a_tool_whose_command_was_killed_is_hung_up(project: Path):
    """The shell has the terminal then: the tool would draw there for ever, and nobody could type into it."""
    screen = Screen(project, "--norc", "-i", program=("bash",))
    screen.press(f"PS1='shell: '; {MAESTRO} open claude\n".encode())
    screen.wait_for(b"sitting in")
    screen.press(b"hello\n")
    screen.wait_for(b"told hello")
    (command,) = [one.pid for one in below(screen.pid) if os.getsid(one.pid) == screen.pid and one.pid not in tools()]
    (tool,) = tools() & tree_of(command)
    os.kill(command, signal.SIGKILL)
    wait_until(lambda: not is_alive(tool), "the tool is gone")
    screen.wait_for(b"\x1b[?25h")
    wait_until(lambda: [one["status"] for one in runs(project)] == ["success"], "the turn has ended")
    assert said(project) == [("user", "hello"), ("assistant", "heard hello")]
    screen.press(b"exit 0\n")
    assert screen.end() == 0


def tools() -> set[int]:
    return set(running("claude"))


def test_a_tool_that_stops_is_a_job_that_stops(project: Path):
    """Stopped by Ctrl-Z or by itself, the shell has the terminal; fg brings it back."""
    screen = Screen(project, "--norc", "-i", program=("bash",))
    screen.press(f"PS1='shell: '; {MAESTRO} open claude\n".encode())
    screen.wait_for(b"sitting in")
    for number, stop in enumerate((b"\x1a", b"stop\n"), start=1):
        screen.press(stop)
        wait_until(lambda n=number: screen._read() or screen.seen.count(b"Stopped") >= n, "it is stopped")
        screen.press(b"fg\n")
        wait_until(lambda n=number: screen._read() or screen.seen.count(b"continued") >= n, "it goes on")
    screen.press(b"hello\n")
    screen.wait_for(b"told hello")
    screen.press(b"quit 3\n")
    screen.wait_for(b"messages in fix-login")
    screen.press(b"exit $?\n")
    assert screen.end() == 3


def test_whoever_is_killed_what_was_said_is_there_once(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The command killed, the tool goes on and is followed; its terminal closed, a turn under way ends."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    screen = sat_down(project)
    screen.press(b"hello\n")
    screen.wait_for(b"told hello")
    os.kill(screen.pid, signal.SIGKILL)
    assert screen.end() == -signal.SIGKILL  # its terminal is closed with it
    assert not list(tmp_path.glob("maestro-open-*"))
    wait_until(lambda: [one["status"] for one in runs(project)] == ["success"], "the turn has ended")
    assert said(project) == [("user", "hello"), ("assistant", "heard hello")]

    screen = sat_down(project)
    screen.press(b"hang\n")
    wait_until(lambda: len(runs(project)) == 2, "it is asked")
    os.close(screen.master)
    wait_until(lambda: runs(project)[-1]["status"] == "canceled", "nobody follows it any more")
    wait_until(lambda: os.waitpid(screen.pid, os.WNOHANG)[0], "the command has ended")
    assert said(project)[2:] == [("user", "hang")]


def test_all_killed_the_rest_is_said_at_the_next_import(project: Path, tmp_path: Path):
    """Nobody follows, the tool writes on: an import brings the rest into the session it was opened in."""
    screen = sat_down(project)
    screen.press(b"hello\n")
    wait_until(lambda: len(said(project)) == 2, "it is said")
    wait_until(lambda: runs(project)[0]["status"] == "success", "the turn has ended")
    name = re.search(rb"sitting in ([0-9a-f-]{36})", screen.seen)
    (history,) = (tmp_path / "claude").rglob(f"{name[1].decode()}.jsonl")
    for pid in _working_in(project):  # the command, the tool, who follows
        with suppress(ProcessLookupError):  # the stack's answer to who asked last, on its way out
            os.kill(int(pid), signal.SIGKILL)
    screen.end()
    text = history.read_text()
    later = text.replace("hello", "later")
    for mark in set(re.findall(r'"uuid": "([^"]+)"', text)) | set(re.findall(r'"id": "([^"]+)"', text)):
        later = later.replace(mark, f"zz{mark[2:]}")
    history.write_text(text + later)
    assert len(said(project)) == 2  # the control: nobody has told of it
    importing = Screen(project, "import", "claude")
    assert importing.end() == 0
    assert b"2 messages that nobody had followed to the end are in the session now" in importing.seen
    assert said(project)[2:] == [("user", "later"), ("assistant", "heard later")]
    printed(project, "import", "claude")
    assert len(said(project)) == 4


def test_a_session_that_ended_goes_on_in_a_fork(project: Path):
    """Nothing is lost: the fork has what was said before and after, and the end says where it is."""
    screen = sat_down(project)
    screen.press(b"hello\n")
    wait_until(lambda: [one["status"] for one in runs(project)] == ["success"], "the turn has ended")
    printed(project, "session", "end")
    screen.press(b"later\n")
    screen.wait_for(b"told later")
    screen.press(b"quit 0\n")
    assert screen.end() == 0
    fork = re.search(rb"fork\s+(fix-login--\w{6})", screen.seen)
    assert fork, screen.seen
    told = printed(project, "--session", fork[1].decode(), "messages")["messages"]
    assert [one["content"] for one in told] == ["hello", "heard hello", "later", "heard later"]


def test_gone_on_with_in_another_session_each_has_its_part_once(project: Path):
    """What came before stays where it was, and an import finds both parts."""
    screen = sat_down(project)
    screen.press(b"hello\nquit 0\n")
    assert screen.end() == 0
    conversation = runs(project)[0]["usage"]["tool_session"]
    printed(project, "session", "end")
    printed(project, "session", "start", "other")
    again = sat_down(project, "--", "--resume", conversation)
    again.press(b"and?\nquit 0\n")
    assert again.end() == 0
    assert said(project) == [("user", "and?"), ("assistant", "heard and?")]
    (row,) = printed(project, "import", "claude")["imported"]
    assert (row["session_id"][:7], row["status"], row["runs"]) == ("other--", "unchanged", 2)
    assert len(printed(project, "session", "list", "--all")["sessions"]) == 2


def test_what_runs_asked_is_not_imported_once_more(project: Path):
    """Their conversations are in the session they were asked in; what is said in one besides is not lost."""
    ran = printed(project, "run", "hello", "--tool", "claude")
    conversation = ran["usage"]["tool_session"]
    (row,) = printed(project, "import", "claude")["imported"]
    assert (row["session_id"][:11], row["status"], row["messages"], row["runs"]) == ("fix-login--", "unchanged", 2, 1)
    screen = sat_down(project, "--continue")
    screen.press(b"and?\n")
    screen.wait_for(b"told and?")
    screen.press(b"quit 0\n")
    assert screen.end() == 0
    printed(project, "run", "so?", "--continue")
    (row,) = printed(project, "import", "claude")["imported"]
    assert (row["session_id"][:11], row["status"], row["messages"], row["runs"]) == ("fix-login--", "unchanged", 6, 3)
    assert printed(project, "usage")["total"]["runs"] == 3
    printed(project, "session", "end")
    aside = subprocess.run(["claude", "--resume", conversation], cwd=project, input="else\n", text=True, check=True)
    assert aside.returncode == 0
    (row,) = printed(project, "import", "claude")["imported"]
    assert (row["status"], row["messages"], row["runs"]) == ("new", 2, 1)
    assert len(printed(project, "session", "list", "--all")["sessions"]) == 2


def test_two_at_once_in_one_session_are_two_conversations(project: Path):
    """Each is there once, in runs of its own, and an import counts each for itself."""
    first, second = sat_down(project), sat_down(project)
    for screen, word in ((first, b"one"), (second, b"two"), (second, b"three")):
        screen.press(word + b"\n")
        screen.wait_for(b"told " + word)
    for screen in (first, second):
        screen.press(b"quit 0\n")
        assert screen.end() == 0
    assert sorted(said(project)) == sorted(
        pair for word in ("one", "two", "three") for pair in (("user", word), ("assistant", f"heard {word}"))
    )
    assert len({one["usage"]["tool_session"] for one in runs(project)}) == 2
    rows = printed(project, "import", "claude")["imported"]
    assert sorted((row["status"], row["messages"], row["runs"]) for row in rows) == [
        ("unchanged", 2, 1),
        ("unchanged", 4, 2),
    ]


def test_what_cannot_be_opened_is_said(project: Path, monkeypatch: pytest.MonkeyPatch):
    """An unknown tool, one that is not there, nothing to go on from, another tool's conversation."""
    assert said_no(project, "nano") == (2, "'nano' is no tool that can be opened")
    assert said_no(project)[0] == 2
    assert said_no(project, "claude", "--continue")[0] == 4
    assert said_no(project, "claude", "--continue", "9")[0] == 3
    printed(project, "session", "end")
    assert said_no(project, "claude")[0] == 4
    monkeypatch.setenv("PATH", f"{Path(MAESTRO).parent}:/nowhere")
    with temporary_project() as other:
        assert said_no(other, "codex")[0] == 3
        printed(other, "session", "start", "x")
        assert said_no(other, "codex") == (3, "codex is not installed here")


def said_no(project: Path, *words: str) -> tuple[int, str]:
    """Return the exit code of a refusal, and what its one line says before the hint."""
    done = maestro_command(project, "open", *words)
    (line,) = done.stderr.splitlines()
    return done.returncode, line.partition(": ")[2].partition(" →")[0]
