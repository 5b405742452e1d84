"""`maestro run` and what belongs to it, as users call it: pipes, terminals, Ctrl-C, shapes and exit codes."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.cli_runs import MAESTRO, maestro_command, printed, refused
from tests.support.embedded_project import ended_project
from tests.support.waiting import wait_until

META = {"id", "tool", "prompt_source", "flags", "status", "created_at", "context_refs", "context_version"}

project = ended_project


class Screen:
    """A command on a terminal of its own."""

    def __init__(self, folder: Path, *words: str, program: Sequence[str] = (MAESTRO,)) -> None:
        pid, self.master = pty.fork()
        if pid == 0:
            os.chdir(folder)
            os.environ["TERM"] = "xterm"
            for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
                signal.signal(number, signal.SIG_DFL)  # as on any terminal; `nohup make test &` ignores them for all
            os.execvp(program[0], [*program, *words])
        self.pid = pid
        self.seen = b""

    def wait_for(self, text: bytes) -> None:
        """Read until the text is on the screen."""
        wait_until(lambda: self._read() or text in self.seen, f"{text!r} on the screen")

    def _read(self) -> None:
        while select.select([self.master], [], [], 0)[0]:
            try:
                data = os.read(self.master, 65536)
            except OSError:
                return  # the terminal's other end is closed
            if not data:
                return
            self.seen += data

    def press(self, keys: bytes) -> None:
        """Type."""
        os.write(self.master, keys)

    def end(self) -> int:
        """Wait for the command and return its exit code."""
        status: list[int] = []

        def is_over() -> bool:
            self._read()
            pid, found = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                status.append(found)
            return bool(pid)

        wait_until(is_over, "the command has ended")
        self._read()
        os.close(self.master)
        return os.waitstatus_to_exitcode(status[0])


_COUNTING_TOOL = """#!/bin/sh
cat >/dev/null
echo '{"type":"system","subtype":"init","session_id":"s1","model":"m1"}'
echo '{"type":"assistant","message":{"id":"a1","usage":{"input_tokens":1000,"cache_read_input_tokens":200,"output_tokens":30},"content":[{"type":"tool_use"}]}}'
echo '{"type":"assistant","message":{"id":"a1","usage":{"input_tokens":1000,"cache_read_input_tokens":200,"output_tokens":34},"content":[{"type":"tool_use"}]}}'
while ! test -e more; do sleep 0.05; done
echo '{"type":"assistant","message":{"id":"a2","usage":{"input_tokens":11,"output_tokens":2},"content":[{"type":"tool_use"}]}}'
while ! test -e end; do sleep 0.05; done
echo '{"type":"result","subtype":"success","is_error":false,"result":"done","usage":{"input_tokens":1300,"output_tokens":40}}'
"""  # noqa: E501 - lines as the tool prints them


def test_the_status_line_counts_tokens_while_the_tool_runs(project: Path, monkeypatch: pytest.MonkeyPatch):
    """Time, tool and the tokens told so far are on the screen; what the result line counts is recorded."""
    programs = project / "programs"
    programs.mkdir()
    (programs / "claude").write_text(_COUNTING_TOOL)
    (programs / "claude").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    printed(project, "session", "start", "tokens", "--tool", "claude")
    screen = Screen(project, "run", "count")
    screen.wait_for(b"1200 in, 34 out tokens")
    assert re.search(rb"0001 claude \xc2\xb7 running \xc2\xb7 \d+ s \xc2\xb7 1200 in, 34 out tokens", screen.seen)
    assert printed(project, "show", "1", "--meta")["run"]["usage"]["tokens_input"] == 1200
    (project / "more").touch()
    screen.wait_for(b"1211 in, 36 out tokens")
    (project / "end").touch()
    assert screen.end() == 0
    usage = printed(project, "show", "1", "--meta")["run"]["usage"]
    assert (usage["tokens_input"], usage["tokens_output"]) == (1300, 40)


def test_run_shapes_and_exit_codes(project: Path):
    """Documents have the fields of the contract; success is 0, a failed run 1, both with their document."""
    printed(project, "session", "start", "shapes", "--tool", "echo")
    ran = printed(project, "run", "hello")
    assert set(ran) >= META | {"exit_code", "output", "output_ref", "started_at", "finished_at"}
    assert (ran["id"], ran["status"], ran["exit_code"], ran["output"]) == ("0001", "success", 0, "echo: hello\n")
    assert set(ran["output_ref"]) == {"path", "size", "digest"}

    failed = maestro_command(project, "run", "p", "--tool", "sh -c 'echo some; echo why >&2; exit 3'", "--json")
    assert failed.returncode == 1
    assert json.loads(failed.stderr)["error"]["code"] == "run_failed"
    document = json.loads(failed.stdout)
    assert (document["status"], document["exit_code"], document["output"]) == ("error", 3, "some\n")
    assert "why" in document["error"]

    dry = printed(project, "run", "p", "--dry", "--no-history", "--tool", "cat -n")
    assert (dry["status"], dry["preview"]) == ("dry", {"argv": ["cat", "-n"], "stdin": "p"})
    assert [run["status"] for run in printed(project, "runs")["runs"]] == ["success", "error", "dry"]
    assert printed(project, "show")["output"] == "echo: hello\n"
    assert printed(project, "show", "2")["run"]["error"] == document["error"]
    assert printed(project, "show", "1", "--prompt")["prompt"] == "hello"
    status = printed(project, "session", "status")
    assert (status["session"]["state"], status["last_output"]["run_id"]) == ("com_saida", "0001")
    assert printed(project, "stack", "status")["workers"] >= 1


def test_prompts_come_from_argument_pipe_or_file(project: Path):
    """Each way is recorded; two at once, none, a missing file and an unknown tool are refused."""
    printed(project, "session", "start", "prompts", "--tool", "cat")
    (project / "p.txt").write_bytes(b"from \xff file")
    assert printed(project, "run", "--stdin", stdin=b"from pipe")["prompt_source"] == "stdin"
    ran = printed(project, "run", "--file", "p.txt")
    assert (ran["prompt_source"], ran["prompt_file"]) == ("file", "p.txt")
    assert maestro_command(project, "run", "--no-history", "--", "--help").stdout == "--help"
    assert refused(project, "run")[0] == 2
    assert refused(project, "run", "p", "--file", "p.txt")[0] == 2
    assert refused(project, "run", "--file", "nowhere.txt")[0] == 3
    assert refused(project, "run", "p", "--tool", "no-such-program")[0] == 3
    assert refused(project, "show", "99")[0] == 3
    assert refused(project, "show", "x1")[0] == 2
    assert refused(project, "cancel")[0] == 4


def test_a_pipe_gets_exactly_the_bytes(project: Path):
    """Escapes, bytes that are not text and a missing newline arrive as the tool wrote them."""
    printed(project, "session", "start", "bytes")
    data = bytes(range(256)) + b"\x1b]0;title\x07\x9b31m no newline"
    (project / "data").write_bytes(data)
    ran = subprocess.run([MAESTRO, "run", "p", "--tool", "cat data"], cwd=project, capture_output=True, check=True)
    assert ran.stdout == data
    shown = subprocess.run([MAESTRO, "show"], cwd=project, capture_output=True, check=True)
    assert shown.stdout == data


def test_a_terminal_obeys_nothing_a_tool_prints(project: Path):
    """On a terminal no escape, C1, or bidirectional mark of the output arrives; --raw shows it as it is."""
    printed(project, "session", "start", "escapes")
    evil = "\x1b[2J\x1b]52;c;ZXZpbA==\x07\x1bP1$r\x1b\\\x9b31m\r overwritten \u202e evil \x08\x7f plain\n".encode()
    (project / "evil").write_bytes(evil + b"\x9b\x90 8-bit\n")
    ran = Screen(project, "run", "p", "--tool", "cat evil")
    assert ran.end() == 0
    shown = Screen(project, "show")
    assert shown.end() == 0
    watched = Screen(project, "watch", "--from", "start", "--until-idle", "0.5")
    assert watched.end() == 0
    for screen in (ran, shown, watched):
        # what is taken off here are our own colours, the status line and the terminal's line ends
        text = re.sub(r"\x1b\[[0-9;]*m|\r\x1b\[2K|\r\n", "", screen.seen.decode())
        assert "plain" in text
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text), text
    raw = Screen(project, "show", "--raw")
    assert raw.end() == 0
    assert b"\x1b[2J" in raw.seen  # control: the escapes are in what is stored


@pytest.mark.parametrize(
    ("ahead", "answer", "code", "status"),
    [
        (b"", b"c", 1, "canceled"),
        (b"", b"\x03", 1, "canceled"),
        (b"", b"xd", 130, "running"),
        (b"c", b"", 1, "canceled"),
        (b"d", b"", 130, "running"),
    ],
)
def test_ctrl_c_asks(project: Path, ahead: bytes, answer: bytes, code: int, status: str):
    """Ctrl-C asks: c cancels, d leaves it running, a second Ctrl-C cancels; keys typed before the question count."""
    printed(project, "session", "start", "interrupt")
    # The status line shows the tool's words before it runs: what is waited for stands in none of them.
    screen = Screen(project, "run", "p", "--tool", "sh -c 'echo begun $((40 + 2)); sleep 600'")
    screen.wait_for(b"begun 42")
    screen.press(b"\x03" + ahead)
    if answer:
        screen.wait_for(b"[c]ancel")
        screen.press(answer)

    assert screen.end() == code
    assert printed(project, "runs")["runs"][0]["status"] == status
    if status == "running":
        assert printed(project, "cancel", "--wait")["status"] == "canceled"


def test_ctrl_c_asks_on_the_terminal_when_something_was_piped_in(project: Path):
    """The question and its answer are the terminal's, whatever standard input is."""
    printed(project, "session", "start", "piped")
    words = ["sh", "-c", f"echo asked | {MAESTRO} run --stdin --tool \"sh -c 'echo begun; sleep 600'\""]
    screen = Screen(project, program=words)
    screen.wait_for(b"begun\r\n")
    screen.press(b"\x03c")
    screen.wait_for(b"[c]ancel")
    screen.end()
    wait_until(lambda: printed(project, "runs")["runs"][0]["status"] == "canceled", "it was canceled")


def test_a_quiet_run_has_a_status_line_on_a_terminal_only(project: Path):
    """While nothing is printed the terminal says what is going on; it is gone when output comes."""
    printed(project, "session", "start", "quiet")
    tool = "sh -c 'while ! test -e go; do sleep 0.05; done; echo answer'"
    screen = Screen(project, "run", "p", "--tool", tool)
    screen.wait_for(b"running \xc2\xb7 ")
    (project / "go").touch()
    assert screen.end() == 0
    assert screen.seen.index(b"running") < screen.seen.index(b"answer")
    assert b"\r\x1b[2K" in screen.seen
    piped = subprocess.run([MAESTRO, "run", "p", "--tool", tool], cwd=project, capture_output=True, check=True)
    assert (piped.stdout, piped.stderr) == (b"answer\n", b"")


def test_confirm_shows_and_asks(project: Path):
    """Yes sends it and records when; no sends nothing; without a terminal nobody is asked."""
    printed(project, "session", "start", "confirm", "--tool", "cat")
    for answer, runs in ((b"n\n", 0), (b"y\n", 1)):
        screen = Screen(project, "run", "what I ask", "--confirm")
        screen.wait_for(b"Send this?")
        assert b"what I ask" in screen.seen
        screen.press(answer)
        assert screen.end() == (0 if runs else 1)
        assert len(printed(project, "runs")["runs"]) == runs
    flags = printed(project, "runs")["runs"][0]["flags"]
    assert flags["confirm"] is True
    assert flags["confirmed_at"]
    assert refused(project, "run", "p", "--confirm")[0] == 2


def test_end_waits_for_open_runs_or_cancels_them(project: Path):
    """A session with an open run is ended by --wait when it is over, by --cancel at once."""
    for flag, status in (("--wait", "success"), ("--cancel", "canceled")):
        (project / "go").unlink(missing_ok=True)
        session = printed(project, "session", "start", "ending")["id"]
        tool = "sh -c 'while ! test -e go; do sleep 0.05; done'"
        assert printed(project, "run", "p", "--detach", "--tool", tool)["status"] in ("pending", "running")
        assert refused(project, "session", "end")[1]["code"] == "runs_open"
        ending = subprocess.Popen([MAESTRO, "session", "end", flag, "--json"], cwd=project, stdout=subprocess.PIPE)
        if flag == "--wait":
            (project / "go").touch()
        said, _ = ending.communicate(timeout=60)
        assert json.loads(said)["state"] == "finalizada"
        assert [run["status"] for run in printed(project, "--session", session, "runs")["runs"]] == [status]


def test_a_server_without_workers_is_not_waited_for_in_silence(project: Path):
    """On a shared server with no worker the command says so, and goes on when one comes."""
    printed(project, "session", "start", "alone", "--tool", "cat")
    address = printed(project, "stack", "status")["address"]
    env = {"MAESTRO_REDIS_URL": address, "MAESTRO_NAMESPACE": "other"}
    printed(project, "session", "start", "alone", "--tool", "cat", env=env)
    run = subprocess.Popen([MAESTRO, "run", "finally"], cwd=project, env=os.environ | env, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE)  # fmt: skip
    assert b"no worker is listening" in run.stderr.readline()
    worked = maestro_command(project, "worker", "--burst", env=env)
    assert worked.returncode == 0, worked.stderr
    said, _ = run.communicate(timeout=60)
    assert (run.returncode, said) == (0, b"finally")


def test_several_workers_stop_together(project: Path):
    """`worker --count 3` keeps three; a killed one is replaced; SIGTERM ends all of them."""
    printed(project, "session", "start", "pool", "--tool", "cat")
    address = printed(project, "stack", "status")["address"]
    env = {"MAESTRO_REDIS_URL": address, "MAESTRO_NAMESPACE": "pool"}
    pool = subprocess.Popen([MAESTRO, "worker", "--count", "3"], cwd=project, env=os.environ | env)
    try:
        from maestro_state import Maestro

        with Maestro(project, redis_url=address, namespace="pool") as maestro:
            wait_until(lambda: maestro.runs.workers() == 3, "three workers listen")
            maestro.sessions.start("pool", tool="cat")
            runs = [maestro.runs.start(f"{number}") for number in range(6)]
            assert [maestro.runs.wait(run).status for run in runs] == ["success"] * 6
            pool.send_signal(signal.SIGTERM)
            assert pool.wait(60) == 0
            assert maestro.runs.workers() == 0
    finally:
        pool.kill()
        pool.wait()
