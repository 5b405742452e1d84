"""`maestro context`, `use` and `tool` as a person types them: documents, exit codes, pipes and terminals."""

from __future__ import annotations

import io
import json
import os
import pty
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from maestro_cli.main import run

from maestro_state import Maestro
from tests.support.cli_runs import MAESTRO, printed
from tests.support.waiting import wait_until


@pytest.fixture
def checkout(project: Path, served: None) -> Path:
    """Return a project with a session and a few files."""
    (project / "src").mkdir()
    (project / "src" / "a.py").write_text("print(1)\n")
    (project / "src" / "b.log").write_text("ignored\n")
    (project / ".gitignore").write_text("*.log\n")
    printed(project, "session", "start", "commands")
    return project


class Commands:
    """The command line inside this process: a command is then not mostly start-up."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capsys, self._monkeypatch = capsys, monkeypatch

    def prints(self, *words: str, stdin: bytes = b"") -> Any:
        """Run a command that must succeed; return its document."""
        self._monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        left_with, said = run([*words, "--json"]), self._capsys.readouterr()
        assert (left_with, said.err) == (0, ""), words
        return json.loads(said.out)

    def fails(self, *words: str) -> tuple[int, str, str]:
        """Run a command that must fail; return its exit code, the error's code and its hint."""
        left_with, said = run([*words, "--json"]), self._capsys.readouterr()
        assert said.out == "", words
        error = json.loads(said.err)["error"]
        return left_with, error["code"], error["hint"] or ""


@pytest.fixture
def commands(checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Commands:
    """Return the command line, in the checkout."""
    monkeypatch.chdir(checkout)
    return Commands(capsys, monkeypatch)


def test_documents(checkout: Path, commands: Commands):
    """Every command prints the documented shape."""
    added = commands.prints("context", "add", "src", "a note", "--label", "initial")
    assert [item["id"] for item in added["items"]] == ["ctx-0001", "ctx-0002"]
    assert added["items"][0]["source"]["path_rel"] == "src/a.py"
    assert added["items"][0]["labels"] == ["initial"]
    piped = commands.prints("context", "add", "-", stdin=b"\xff piped\n")
    assert piped["items"][0]["kind"] == "text"
    listed = commands.prints("context", "list")["items"]
    assert [(item["id"], item["drift"]) for item in listed] == [
        ("ctx-0001", "same"), ("ctx-0002", None), ("ctx-0003", None)
    ]  # fmt: skip
    (checkout / "src" / "a.py").write_text("print(22)\n")
    assert commands.prints("context", "refresh")["items"][0]["id"] == "ctx-0004"
    assert commands.prints("context", "show", "1")["content"] == "print(1)\n"
    assert "content_base64" in commands.prints("context", "show", "3")
    assert commands.prints("context", "remove", "ctx-0002")["items"][0]["state"] == "removed"
    assert commands.prints("context", "clear") == {"removed": 2}
    assert len(commands.prints("context", "list", "--all")["items"]) == 4
    assert commands.prints("use", "sort -u") == {"tool_active": "sort -u"}
    assert {row["name"] for row in commands.prints("tool", "list")["tools"]} >= {"claude", "echo"}
    assert commands.prints("tool", "check", "echo")["tools"][0]["status"] == "ok"


def test_people_see_what_a_text_is_and_that_a_tool_is_missing(
    commands: Commands, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """A text is listed by its first line, or by its note; choosing a tool that is not there warns, and chooses it."""
    added = commands.prints("context", "add", "--text", "\n  first \x1b[31mline\nsecond\n")["items"]
    assert added[0]["source"]["preview"] == "first \x1b[31mline"
    commands.prints("context", "add", "--text", "a text with a note", "--note", "the note")
    commands.prints("context", "add", "--text", "x" * 1000)
    capsys.readouterr()
    assert run(["context", "list"]) == 0
    shown = capsys.readouterr().out
    assert "first " in shown
    assert "\x1b[31m" not in shown
    assert "the note" in shown
    assert "a text with a note" not in shown
    assert "second" not in shown
    assert commands.prints("context", "list")["items"][2]["source"]["preview"] == "x" * 80

    monkeypatch.setenv("PATH", "/nowhere")
    assert run(["use", "claude"]) == 0
    assert "claude is not installed here" in capsys.readouterr().err
    assert commands.prints("session", "status")["session"]["tool_active"] == "claude"
    assert run(["use", "echo"]) == 0
    assert "not installed" not in capsys.readouterr().err


def test_exit_codes(
    checkout: Path, commands: Commands, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """Refusals leave with the documented code and say what to do."""
    commands.prints("context", "add", "text")
    commands.prints("context", "remove", "1")
    (checkout / "out").symlink_to("/etc/hostname")
    for words, exit_code, code in (
        (("context", "add", "none/such.py"), 3, "path_not_found"),
        (("context", "add", "--file", "none"), 3, "path_not_found"),
        (("context", "add", "/etc/hostname"), 2, "path_refused"),
        (("context", "add", "out"), 2, "path_refused"),
        (("context", "show", "ctx-0009"), 3, "item_not_found"),
        (("context", "show", "nonsense"), 2, "invalid_value"),
        (("context", "remove", "1"), 4, "refused"),
        (("context", "use-output", "last"), 3, "run_not_found"),
        (("use", "no-such-program-anywhere"), 3, "unknown_tool"),
        (("use", "sort 'open"), 2, "invalid_value"),
    ):
        assert commands.fails(*words)[:2] == (exit_code, code), words
    assert "--text" in commands.fails("context", "add", "none/such.py")[2]
    assert run(["tool", "check", "no-such-program-anywhere", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["tools"][0]["status"] == "missing"
    with monkeypatch.context() as small:
        small.setenv("MAESTRO_MAX_BLOB_BYTES", "5")
        assert commands.fails("context", "add", "src/a.py")[:2] == (2, "content_too_large")
    commands.prints("session", "end")
    assert commands.fails("context", "add", "text")[0] == 4


def test_a_pipe_gets_the_bytes_and_a_terminal_no_escapes(checkout: Path):
    """`show` on a pipe is exact; on a terminal nothing stored can move the cursor or rename the window."""
    hostile = b"\x1b]0;owned\x07\x1b[2J\x9b31m\rover\xff\xc2\x9b31m\xe2\x80\xae"
    (checkout / "src" / "\x1b[31mname").write_bytes(hostile)
    printed(checkout, "context", "add", "src/\x1b[31mname", "--label", "plain")
    raw = subprocess.run([MAESTRO, "context", "show", "1"], cwd=checkout, capture_output=True, check=True)
    assert raw.stdout == hostile
    for words in (("show", "1"), ("list",)):
        screen = on_terminal(checkout, "context", *words)
        assert b"name" in screen
        assert not [code for code in (b"\x1b]", b"\x1b[2J", b"\x1b[31m", b"\x07", b"\xc2\x9b") if code in screen]
    # the control: the raw bytes on the same terminal do carry them
    assert b"\x1b]0;owned" in on_terminal(checkout, "context", "show", "1", through_cat=True)


def on_terminal(folder: Path, *words: str, through_cat: bool = False) -> bytes:
    """Run a command with a terminal as stdout and return what reached it."""
    ours, theirs = pty.openpty()
    command = ["sh", "-c", f'"{MAESTRO}" "$@" | cat', "sh", *words] if through_cat else [MAESTRO, *words]
    process = subprocess.Popen(
        command, cwd=folder, stdin=subprocess.DEVNULL, stdout=theirs, stderr=subprocess.DEVNULL,
        env=os.environ | {"NO_COLOR": "1"},
    )  # fmt: skip
    os.close(theirs)
    seen = b""
    try:
        while part := os.read(ours, 65536):
            seen += part
    except OSError:
        pass  # how a terminal says that nobody is left
    finally:
        os.close(ours)
    assert process.wait() == 0
    return seen


def test_ctrl_c_leaves_whole_batches(checkout: Path):
    """An interrupted add of many files leaves items that are all whole, and the command exits with 130."""
    many = checkout / "many"
    many.mkdir()
    for number in range(3000):
        (many / f"{number:04d}").write_bytes(b"%d" % number * 2000)
    process = subprocess.Popen(
        [MAESTRO, "context", "add", "many"], cwd=checkout, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )

    try:
        with Maestro(checkout) as maestro:
            wait_until(lambda: maestro.sessions.read().counters.ctx_seq > 0, "the first batch is in")
        process.send_signal(signal.SIGINT)
        left_with = process.wait(60)
    finally:
        if process.poll() is None:
            process.kill()
    items = printed(checkout, "context", "list")["items"]
    assert left_with in (130, 0)  # it may have been done already
    assert left_with == 0 or 0 < len(items) < 3000
    assert [item["id"] for item in items] == [f"ctx-{number:04d}" for number in range(1, len(items) + 1)]
    assert {item["drift"] for item in items} == {"same"}
