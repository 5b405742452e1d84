"""Model, mode, arguments and conversations at the command line; a stand-in for a tool says how it was called."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.support.cli_runs import maestro_command, printed, refused
from tests.support.embedded_project import ended_project

#: Prints what `claude` prints, its arguments and its input as the answer; a conversation of its own unless it resumes.
CLAUDE = f"""#!{sys.executable} -IS
import json, sys
words = sys.argv[1:]
old = words[words.index("--resume") + 1] if "--resume" in words else None
said = json.dumps({{"argv": words[1:], "stdin": sys.stdin.read()}})
cost = 0.75 if old else 0.25
print(json.dumps({{"type": "system", "subtype": "init", "session_id": old or "c-1", "model": "m-1"}}))
print(json.dumps({{"type": "result", "subtype": "success", "is_error": False, "result": said,
                   "session_id": old or "c-1", "total_cost_usd": cost,
                   "usage": {{"input_tokens": 3, "output_tokens": 2}}}}))
"""

project = ended_project


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """Return an environment in which the stand-in is `claude`."""
    for name in ("claude", "codex"):
        program = tmp_path / name
        program.write_text(CLAUDE)
        program.chmod(0o755)
    return {"PATH": f"{tmp_path}:{os.environ['PATH']}"}


def test_the_tools_defaults_and_what_a_run_says_besides(project: Path, env: dict[str, str]):
    """Defaults of `use` reach every run, what a run says wins, both are in its record; another tool has none."""
    printed(project, "session", "start", "options", env=env)
    used = printed(project, "use", "claude", "--model", "opus", "--mode", "edit", "--", "--max-turns", "3", env=env)
    assert used == {
        "tool_active": "claude", "model": "opus", "mode": "edit", "arguments": ["--max-turns", "3"],
        "allows": used["allows"],
    }  # fmt: skip
    assert "change files" in used["allows"]
    status = printed(project, "session", "status", env=env)["session"]
    assert status["tool_options"] == {"model": "opus", "mode": "edit", "arguments": ["--max-turns", "3"]}

    told = maestro_command(project, "run", "hello", env=env)
    assert told.returncode == 0
    assert "claude may change files in the working directory" in told.stderr
    assert '"--model", "opus", "--permission-mode", "acceptEdits", "--max-turns", "3"]' in told.stdout
    again = maestro_command(project, "run", "hello", env=env)
    assert "may change files" not in again.stderr  # said once is enough

    ran = printed(
        project, "run", "--no-history", "--model", "haiku", "--", "--a prompt with dashes", "--verbose", env=env
    )
    assert (ran["model"], ran["mode"], ran["arguments"]) == ("haiku", "edit", ["--max-turns", "3", "--verbose"])
    assert '"stdin": "--a prompt with dashes"' in ran["output"]
    assert '"--model", "haiku"' in ran["output"]
    dry = printed(project, "run", "--dry", "--stdin", "--mode", "read", "--", "--flag", stdin=b"piped", env=env)
    assert dry["preview"]["argv"][-5:] == ["--permission-mode", "plan", "--max-turns", "3", "--flag"]
    other = printed(project, "run", "--tool", "codex", "--dry", "hello", env=env)
    assert "opus" not in other["preview"]["argv"]
    assert printed(project, "use", "claude", env=env) == {"tool_active": "claude"}  # a new choice has no old defaults


def test_a_command_line_of_a_known_tool_is_that_tool(project: Path, env: dict[str, str]):
    """Its text, tokens and cost are read, and the arguments are the session's; also from MAESTRO_TOOL."""
    printed(project, "session", "start", "line", "--tool", "claude --model opus", env=env)
    ran = printed(project, "run", "hello", env=env)
    assert (ran["tool"], ran["arguments"]) == ("claude", ["--model", "opus"])
    said = maestro_command(project, "use", "claude --model opus --append-system-prompt 'be short'", env=env).stdout
    assert said == "using claude · --model opus --append-system-prompt 'be short'\n"
    printed(project, "use", "claude --model opus", env=env)
    assert ran["usage"] == {
        "model": "m-1", "tokens_input": 3, "tokens_output": 2, "cost": 0.25, "tool_session": "c-1",
        "counters": {"cost": 0.25},
    }  # fmt: skip
    mine = printed(project, "run", "hello", "--no-history", env=env | {"MAESTRO_TOOL": "cat -u"})
    assert (mine["tool"], mine["output"]) == ("cat -u", "hello")
    named = printed(project, "run", "hello", "--tool", "cat", env=env | {"MAESTRO_TOOL": "cat -u"})
    assert named["tool"] == "cat"


def test_going_on_with_a_conversation(project: Path, env: dict[str, str]):
    """The conversation's id is handed to the tool, what it was sent is not sent again, counters become shares."""
    printed(project, "session", "start", "talk", "--tool", "claude", env=env)
    code, error = refused(project, "run", "--continue", "and?", env=env)
    assert (code, error["code"]) == (4, "no_conversation")
    printed(project, "context", "add", "--text", "old remark", env=env)
    printed(project, "run", "first", env=env)
    printed(project, "context", "add", "--text", "new remark", env=env)
    ran = printed(project, "run", "--continue", "second", env=env)

    assert ran["continues"] == "0001"
    assert '"--resume", "c-1"' in ran["output"]
    assert "new remark" in ran["output"]
    assert "old remark" not in ran["output"]
    assert ran["context_refs"] == ["ctx-0002"]
    assert (ran["usage"]["cost"], ran["usage"]["counters"]) == (0.5, {"cost": 0.75})
    third = printed(project, "run", "--continue-from", "1", "third", env=env)
    assert third["continues"] == "0001"
    assert [run.get("continues") for run in printed(project, "runs", env=env)["runs"]] == [None, "0001", "0001"]

    for words, exit_code in (
        (("--continue-from", "9"), 3),
        (("--continue-from", "1", "--tool", "codex"), 2),
        (("--continue", "--continue-from", "1"), 2),
        (("--continue", "--tool", "cat"), 2),
        (("--mode", "edit", "--tool", "llm"), 2),
    ):
        assert refused(project, "run", "and?", *words, env=env)[0] == exit_code, words


def test_an_image_reaches_a_tool_by_its_path_or_is_refused(project: Path, env: dict[str, str]):
    """A tool that takes images is told where it is; one that does not is not called at all."""
    (project / "dot.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(32))
    printed(project, "session", "start", "image", "--tool", "claude", env=env)
    printed(project, "context", "add", "dot.png", env=env)
    dry = printed(project, "run", "--dry", "what is it?", env=env)
    assert "@dot.png" in dry["preview"]["stdin"]
    ran = printed(project, "run", "what is it?", env=env)
    assert "The file: @dot.png" in ran["output"]
    assert "base64" not in ran["output"]
    code, error = refused(project, "run", "--tool", "cat", "what is it?", env=env)
    assert (code, error["code"]) == (2, "invalid_value")
    assert "cat takes no images, and ctx-0001 (dot.png) is one" in error["message"]
    assert len(printed(project, "runs", env=env)["runs"]) == 2
