"""Which conversations are a start's own: what somebody else said in the same folder never is."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from uuid import uuid4

import pytest

from maestro_state.clock import iso, now_ms
from maestro_state.histories.ownership import OwnedConversations, Start
from maestro_state.tools.interactive import INTERACTIVE
from tests.support.databases import LLM, make
from tests.support.histories import CODEX_ID, codex_rows, json_lines
from tests.support.interactive_tool import put_claude

Sitting = Callable[[], "subprocess.Popen[bytes]"]


@pytest.fixture
def sitting(tmp_path: Path) -> Iterator[Sitting]:
    """Return what starts a claude in the project, which waits for what is typed."""
    program, project = put_claude(tmp_path / "bin"), tmp_path / "project"
    project.mkdir()
    with ExitStack() as stack:

        def sit_down() -> subprocess.Popen[bytes]:
            started = stack.enter_context(
                subprocess.Popen(
                    [program], cwd=project, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_environment(tmp_path)
                )
            )
            stack.callback(started.kill)
            assert started.stdout is not None
            started.stdout.readline()
            return started

        yield sit_down


def _environment(tmp_path: Path) -> dict[str, str]:
    return {"CLAUDE_CONFIG_DIR": str(tmp_path / "claude")}


def _whose(tmp_path: Path, own: subprocess.Popen[bytes]) -> OwnedConversations:
    start = Start(tool="claude", pid=own.pid, started_ms=now_ms() - 1000, folder=str(tmp_path / "project"))
    return OwnedConversations(start, _environment(tmp_path), str(tmp_path))


def _say(tmp_path: Path) -> str:
    """Begin a conversation in the project; return its id."""
    told = str(uuid4())
    row = {"type": "user", "uuid": str(uuid4()), "parentUuid": None, "timestamp": iso(now_ms()), "sessionId": told,
           "cwd": str(tmp_path / "project"), "message": {"role": "user", "content": "hello"}}  # fmt: skip
    path = tmp_path / "claude" / "projects" / "p" / f"{told}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(row) + "\n")
    return told


def _found(whose: OwnedConversations) -> list[str]:
    return [one.external_id for one in whose.find(set())]


def test_what_was_begun_beside_somebody_else_is_nobodys_also_when_they_have_left(tmp_path: Path, sitting: Sitting):
    """Alone, a further conversation is the tool's own (the control); beside another one it may be the other's."""
    whose = _whose(tmp_path, sitting())
    alone = _say(tmp_path)
    assert _found(whose) == [alone]
    other = sitting()
    beside = _say(tmp_path)
    assert beside not in _found(whose)
    assert whose.in_doubt() == {beside}
    last = _say(tmp_path)
    other.kill()
    other.wait()
    assert not {beside, last} & set(_found(whose))
    again = _say(tmp_path)
    assert again in _found(whose)


def test_a_tool_that_told_once_is_not_guessed_about_when_it_has_ended(tmp_path: Path, sitting: Sitting):
    """Claude Code forgets its process when it ends; another's conversation is not its own for that."""
    own = sitting()
    whose = _whose(tmp_path, own)
    told, others = _say(tmp_path), _say(tmp_path)
    note = tmp_path / "claude" / "sessions" / f"{own.pid}.json"
    note.parent.mkdir()
    note.write_text(json.dumps({"sessionId": told}))
    assert _found(whose) == [told]
    note.unlink()
    own.kill()
    own.wait()
    assert others not in _found(whose)
    assert whose.in_doubt() == set()


@pytest.mark.parametrize("is_alone", [True, False])
def test_a_codex_that_was_gone_before_it_was_looked(tmp_path: Path, sitting: Sitting, is_alone: bool):
    """What it began is its own if no other one was there, and only when it has ended: until then it tells."""
    own = sitting()
    project = str(tmp_path / "project")
    start = Start(tool="codex", pid=own.pid, started_ms=now_ms() - 1000, folder=project)
    whose = OwnedConversations(start, {"CODEX_HOME": str(tmp_path / "codex")}, str(tmp_path))
    path = tmp_path / "codex" / "sessions" / "2026" / "11" / "02" / f"rollout-2026-11-02T10-00-00-{CODEX_ID}.jsonl"
    path.parent.mkdir(parents=True)
    rows = [{**row, "timestamp": iso(now_ms())} for row in codex_rows(project)]
    path.write_text(json_lines(rows))
    with nullcontext() if is_alone else _codex(tmp_path):
        assert _found(whose) == []
    own.kill()
    own.wait()
    assert _found(whose) == ([CODEX_ID] if is_alone else [])
    assert whose.in_doubt() == (set() if is_alone else {CODEX_ID})


@contextmanager
def _codex(tmp_path: Path) -> Iterator[None]:
    """Have another codex in the project for a while."""
    program = tmp_path / "bin" / "codex"
    program.write_text(f"#!{sys.executable}\nprint('here', flush=True)\ninput()\n")
    program.chmod(0o755)
    pipe = subprocess.PIPE
    with subprocess.Popen([program], cwd=tmp_path / "project", stdin=pipe, stdout=pipe) as started:
        assert started.stdout is not None
        started.stdout.readline()
        yield
        started.kill()


def _llm_conversation(folder: Path, at_ms: int) -> str:
    """Have llm's database hold a conversation that was made at a time; return its id."""
    digits = "0123456789abcdefghjkmnpqrstvwxyz"
    told = "".join(digits[at_ms >> 5 * place & 31] for place in reversed(range(10))) + "0" * 16

    def fill(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO conversations VALUES (?, 'hello', 'm')", (told,))
        row = ("r", "m", "hello", None, "pong", told, 100, iso(at_ms), 60, 12, None, None)
        connection.execute(f"INSERT INTO responses VALUES ({', '.join('?' * 12)})", row)

    make(folder / "logs.db", LLM, fill)
    return told


@pytest.mark.parametrize(("later_ms", "is_taken"), [(1_000, False), (60_000, True)])
def test_another_llm_that_is_still_starting_may_have_made_it(tmp_path: Path, later_ms: int, is_taken: bool):
    """One that was started long before has made its conversation (the control)."""
    now = now_ms()
    told = _llm_conversation(tmp_path, now + later_ms + 500)
    program = tmp_path / "llm"
    program.write_text("import sys\nfile = open(sys.argv[1])\nprint('ready', flush=True)\nsys.stdin.read()\n")
    words = [sys.executable, program, tmp_path / "logs.db"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        start = Start(tool="llm", pid=os.getpid() + (1 << 22), started_ms=now + later_ms, folder=str(tmp_path))
        whose = OwnedConversations(start, {"LLM_USER_PATH": str(tmp_path)}, str(tmp_path))
        os.utime(tmp_path / "logs.db", ((now + later_ms + 500) / 1000,) * 2)
        assert _found(whose) == ([told] if is_taken else [])
        assert whose.in_doubt() == (set() if is_taken else {told})
        other.kill()
    if not is_taken:
        assert _found(whose) == [], "what is in doubt stays so when the other has left"


def test_a_conversation_is_known_when_the_users_own_words_name_it():
    """By its id alone: a number or a name is the tool's to understand."""
    told = str(uuid4())
    for words in (("--resume", told), ("--model", "x", f"--resume={told}"), ("-r", told, "go on")):
        assert INTERACTIVE["qwen"].named(words) == told
    for words in ((), ("--resume",), ("--resume", "latest"), ("--model", told), (told,)):
        assert INTERACTIVE["qwen"].named(words) is None
    assert [one.named(()) for one in INTERACTIVE.values()] == [None] * len(INTERACTIVE)
