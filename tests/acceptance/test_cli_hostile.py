"""A session whose every text is hostile: no command lets any of it reach a terminal as more than a picture."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from maestro_cli.main import run

from tests.support.embedded_project import temporary_project
from tools import reference

#: A title that is set, a colour we never use, the same with one byte (C1), directions turned, hidden text.
HOSTILE = (
    "a\x1b]0;own\x07\x1b[35mb\x9b35mc\x9d0;own\x9c\u061c\u200e\u200f\u202ed\u202c\u2066e\u2069\x7f\U000e0061f\u2028g"
)
#: What no screen may get, once our own colours and the cleared status line are taken away (which begins with \\r).
OBEYED = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\U000e0000-\U000e007f]"
)
OWN = re.compile(r"\x1b\[(?:[012]|3[0-46-7])m|\x1b\[2K")
#: Commands that serve until they are told to stop, and what takes this test's own server away.
_SERVING = {"mcp", "serve", "worker", "scheduler", "stack stop"}

#: What each command is given, in the order they are tried; any other is called without words.
_WORDS: dict[str, list[list[str]]] = {
    "session start": [["one more", "--note", HOSTILE], [HOSTILE]],
    "session list": [[], ["--state", HOSTILE], ["--user", HOSTILE]],
    "session status": [[], [HOSTILE], ["latest"]],
    "session switch": [["{session}"], [HOSTILE]],
    "session get": [["context_summary"], ["preferences"], [HOSTILE]],
    "session set": [["context_summary", HOSTILE], [HOSTILE, "x"], ["preferences", HOSTILE]],
    "session fork": [["{session}", "forked"]],
    "session delete": [[HOSTILE], ["forked"]],
    "session abort": [["--reason", HOSTILE]],
    "run": [[HOSTILE, "--tool", "cat"], [HOSTILE, "--dry"], [HOSTILE, "--tool", HOSTILE], [HOSTILE, "--confirm"]],
    "show": [["1", "--prompt"], ["1", "--context"], ["1", "--meta"], [HOSTILE]],
    "cancel": [[HOSTILE]],
    "context add": [["--text", HOSTILE, "--label", HOSTILE], ["."], [f"./{HOSTILE}"], ["--file", HOSTILE]],
    "context list": [[], ["--all"]],
    "context show": [["ctx-0001"], ["ctx-0002"], [HOSTILE]],
    "context remove": [["ctx-0001"], [HOSTILE]],
    "context use-output": [[HOSTILE]],
    "context refresh": [[], [HOSTILE]],
    "use": [[f"cat '{HOSTILE}'"], [HOSTILE]],
    "tool check": [[HOSTILE], ["echo"]],
    "watch": [["--from", "start", "--until-idle", "0.01"], ["--from", HOSTILE]],
    "message add": [["--role", "user", HOSTILE], ["--role", HOSTILE, "x"]],
    "messages": [["--all"], ["--since", HOSTILE]],
    "discuss start": [["--kind", HOSTILE, "--ref", HOSTILE], ["--kind", "track", "--ref", HOSTILE], []],
    "discuss say": [[HOSTILE]],
    "discuss done": [[HOSTILE]],
    "discuss show": [["latest"], [HOSTILE]],
    "discuss replay": [["latest", "--dry-run"], [HOSTILE]],
    "discuss migrate": [[HOSTILE]],
    "wsession start": [["task", "--entity", f"track={HOSTILE}"], [HOSTILE]],
    "wsession breadcrumb add": [["--cookie", "{work}", "--prompt", HOSTILE, "--response", HOSTILE, "--model", HOSTILE,
                                 "--error", HOSTILE], ["--cookie", HOSTILE, "--prompt", "p", "--response", "r"]],
    "wsession breadcrumbs": [["{work}"]],
    "wsession timeline": [["{work}"]],
    "wsession stats": [["{work}"]],
    "wsession show": [["{work}"], [HOSTILE]],
    "wsession list": [[], ["--type", HOSTILE]],
    "work": [["{work}", "--once"], [HOSTILE, "--once"]],
    "export": [["{session}"], ["--format", HOSTILE]],
    "pull": [[HOSTILE]],
    "usage": [["--by", by] for by in ("day", "tool", "model", "session", "user")] + [["--since", HOSTILE]],
    "completion": [["bash"], [HOSTILE]],
    "acl": [["--terminal", HOSTILE]],
}  # fmt: skip
#: Changing ones first, in this order; what freezes and removes comes last.
_FIRST = ("use", "session set", "context add", "message add", "run", "wsession breadcrumb add", "work", "discuss start",
          "discuss say")  # fmt: skip
_LAST = ("context remove", "context clear", "session fork", "session delete", "session end", "session abort", "status",
         "session list", "session status")  # fmt: skip


class Terminal(io.TextIOWrapper):
    """What a command takes for a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def project(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a project with a hostile file name, ours as the present folder."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("NO_COLOR", raising=False)
    with temporary_project() as folder:
        monkeypatch.chdir(folder)
        (folder / HOSTILE).write_text(HOSTILE)
        yield folder


def on_terminal(monkeypatch: pytest.MonkeyPatch, *words: str) -> str:
    """Run a command as if on a terminal whose user answers no; return all that it printed."""
    streams = [Terminal(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2)]
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdin", Terminal(io.BytesIO(b"n\n"), encoding="utf-8"))
        patched.setattr(sys, "stdout", streams[0])
        patched.setattr(sys, "stderr", streams[1])
        run(list(words))
    return "".join(stream.buffer.getvalue().decode() for stream in streams)  # type: ignore[attr-defined]


def calls(names: list[str]) -> list[list[str]]:
    """Return every command line to try, in an order in which there is something to see."""
    middle = [name for name in names if name not in _FIRST + _LAST]
    ordered = [name for name in (*_FIRST, *middle, *_LAST) if name in names and name not in _SERVING]
    return [[*name.split(), *words] for name in ordered for words in _WORDS.get(name, [[]])]


def test_no_view_obeys_what_is_stored(project: Path, monkeypatch: pytest.MonkeyPatch):
    """Every command, on a terminal and with --json, among them every refusal: nothing to obey, nothing turned round."""
    session = json.loads(on_terminal(monkeypatch, "session", "start", "hostile", "--note", HOSTILE, "--json"))["id"]
    work = on_terminal(monkeypatch, "wsession", "start", "task", "--entity", f"track={HOSTILE}").split()[0]
    names = [words.removeprefix("maestro ") for words, _ in reference.commands()]
    shown = 0
    for call in calls(names):
        words = [word.replace("{session}", session).replace("{work}", work) for word in call]
        for more in ([], ["--json"]):
            seen = on_terminal(monkeypatch, *words, *more)
            assert not OBEYED.search(OWN.sub("", seen)), (words, more, ascii(seen))
            shown += "\\u061c" in seen
    assert shown > 60  # the control: hostile text was there to be shown


def test_a_pipe_gets_exact_bytes_where_it_asked_for_them(project: Path, capfdbinary: pytest.CaptureFixture[bytes]):
    """`session get` into a pipe is the text itself; a document has the same value, written harmlessly."""
    assert run(["session", "start", "exact"]) == 0
    assert run(["session", "set", "context_summary", HOSTILE]) == 0
    capfdbinary.readouterr()
    assert run(["session", "get", "context_summary"]) == 0
    assert capfdbinary.readouterr().out == f"{HOSTILE}\n".encode()
    assert run(["session", "get", "context_summary", "--json"]) == 0
    document = capfdbinary.readouterr().out
    assert document.isascii()
    assert json.loads(document)["value"] == HOSTILE


def test_the_shell_is_offered_no_stranger(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """An index that came with the repository puts nothing on the screen while somebody completes."""
    folder = project / ".maestro" / "sessions"
    folder.mkdir(parents=True)
    row = {"slug": "x", "state": "iniciada", "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z"}
    rows = [{"id": HOSTILE, **row}, {"id": "fine--abc123", **row}]
    (folder / "index.json").write_text(json.dumps({"sessions": rows}))
    monkeypatch.setenv("COMP_WORDS", "maestro session switch ")
    monkeypatch.setenv("COMP_CWORD", "3")
    monkeypatch.setenv("_MAESTRO_COMPLETE", "bash_complete")
    from click.shell_completion import shell_complete
    from maestro_cli.main import maestro

    assert shell_complete(maestro, {}, "maestro", "_MAESTRO_COMPLETE", "bash_complete") == 0
    assert capsys.readouterr().out.split() == ["plain,fine--abc123"]
