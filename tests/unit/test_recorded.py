"""What the stream readers make of what the real tools printed, as tests/recorded/ keeps it (tests/tools/record.py)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import pytest

from maestro_state.models.run import Activity, Usage
from maestro_state.tools import Outcome, delta, resolve

FOLDER = Path(__file__).parent.parent / "recorded"
AGENTS = ("claude", "codex", "gemini", "qwen", "opencode")
TOOLS = (*AGENTS, "llm")
MADE = "/place/project/made.txt"


class Read(NamedTuple):
    """What a reader made of one call."""

    pieces: list[str]
    activities: list[Activity]
    outcome: Outcome

    @property
    def text(self) -> str:
        """All it said."""
        return "".join([*self.pieces, self.outcome.text])

    def did(self, kind: str) -> list[tuple[str, str]]:
        """What it did of one kind."""
        return [(one.name, one.summary) for one in self.activities if one.kind == kind]


def read(tool: str, call: str) -> Read:
    """Read a recorded call as a worker does, line by line."""
    told = json.loads((FOLDER / tool / f"{call}.json").read_text())
    parser = resolve(tool).parser()
    pieces: list[str] = []
    for line in told["stdout"]:
        pieces += parser.feed((line if isinstance(line, str) else json.dumps(line)).encode() + b"\n")
    stderr = told["stderr"].encode()
    parser.hear(stderr)
    outcome = parser.end(told["exit_code"], stderr)
    return Read(pieces, parser.take_activities(), outcome)


@pytest.mark.parametrize("tool", TOOLS)
def test_an_answer_is_read_once_and_whole(tool: str):
    """The text is there once, however many pieces and repetitions it came in."""
    answer = read(tool, "answer")
    assert answer.outcome.status == "success"
    assert answer.text.count("Seen: MARK-first. Größe 日本 ✓ end.") == 1
    assert answer.text.startswith("Question ")
    assert answer.activities == []


@pytest.mark.parametrize("tool", ["claude", "gemini", "qwen"])
def test_an_answer_comes_in_pieces_where_the_tool_can(tool: str):
    """The first word is there long before the last."""
    pieces = read(tool, "answer").pieces
    assert len(pieces) > 4
    assert pieces[0] == "Question "


@pytest.mark.parametrize(
    ("tool", "usage"),
    [
        ("claude", Usage(model="claude-opus-4-8", tokens_input=20, tokens_output=7, cost=0.00025625)),
        ("codex", Usage(tokens_input=120, tokens_output=45)),
        ("gemini", Usage(model="gemini-3.8-flash", tokens_input=100, tokens_output=16)),
        ("qwen", Usage(model="fake-1", tokens_input=42, tokens_output=10)),
        ("opencode", Usage(model="loopback/fake-1", tokens_input=21, tokens_output=5, cost=3.1e-05)),
        ("llm", Usage(tokens_input=21, tokens_output=5)),
    ],
)
def test_numbers_and_model_are_the_tools_own(tool: str, usage: Usage):
    """Tokens, cost and the model that answered, not the one that only decided who does."""
    found = read(tool, "answer").outcome.usage
    known = (found.model, found.tokens_input, found.tokens_output, found.cost)
    assert known == (usage.model, usage.tokens_input, usage.tokens_output, usage.cost)
    assert (found.tool_session is None) == (tool == "llm")  # which says it in its log


@pytest.mark.parametrize("tool", AGENTS)
def test_going_on_is_the_same_conversation_and_counters_become_shares(tool: str):
    """The second call has the first one's conversation id, and its share is not the sum of both."""
    first, second = read(tool, "answer").outcome.usage, read(tool, "continue").outcome.usage
    assert second.tool_session == first.tool_session
    cumulative = resolve(tool).cumulative
    shares = [delta(first, cumulative, [])]
    shares.append(delta(second, cumulative, shares, shares[0]))
    assert shares[0].tokens_output == shares[1].tokens_output
    if first.cost is not None:
        assert shares[1].cost == pytest.approx(shares[0].cost)
    if "tokens_input" in cumulative:
        assert second.tokens_input == 2 * (first.tokens_input or 0)  # the control: the tool itself counts on


@pytest.mark.parametrize(
    ("tool", "name", "summary"),
    [
        ("claude", "Bash", "echo MARK-shell"),
        ("codex", "command_execution", "/bin/bash -lc 'echo MARK-shell'"),
        ("gemini", "run_shell_command", "echo MARK-shell"),
        ("qwen", "run_shell_command", "echo MARK-shell"),
        ("opencode", "bash", "echo MARK-shell"),
    ],
)
def test_calls_of_tools_are_told_by_the_tools_own_words(tool: str, name: str, summary: str):
    """Each call once, with what it is about; the answer is what came after it."""
    found = read(tool, "shell")
    assert found.did("tool_call") == [(name, summary)]
    assert found.did("denied") == []
    assert found.text.count("Question") == 1


@pytest.mark.parametrize(
    ("tool", "name"),
    [
        ("claude", "Write"),
        ("codex", "file_change"),
        ("gemini", "write_file"),
        ("qwen", "write_file"),
        ("opencode", "write"),
    ],
)
def test_changed_files_are_told(tool: str, name: str):
    """A file that was written is told once, when it is."""
    assert read(tool, "write").did("file_change") == [(name, MADE)]


@pytest.mark.parametrize(("tool", "word"), [("claude", MADE), ("codex", "patch rejected")])
def test_a_refused_permission_is_told_and_the_success_knows(tool: str, word: str):
    """Nothing was changed, the agent answered all the same: who asked must hear of it."""
    found = read(tool, "denied")
    assert found.outcome.status == "success"
    assert found.did("file_change") == []
    assert [word in summary for _, summary in found.did("denied")] == [True]
    assert [word in one for one in found.outcome.denied] == [True]


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("status", ["401", "404", "500"])
def test_a_refusing_api_is_an_error_with_its_reason(tool: str, status: str):
    """Whatever the exit code, the error is one, and it or the retries name what the API said."""
    found = read(tool, f"refused-{status}")
    assert found.outcome.status == "error"
    said = f"{found.outcome.error} {found.outcome.trouble}"
    # one says nothing while it tries, one speaks of high demand, one of a model that may not exist
    silent = {("qwen", "500"), ("codex", "500"), ("claude", "404")}
    assert status in said or (tool, status) in silent, said


@pytest.mark.parametrize(("tool", "status"), [("claude", "401"), ("claude", "500"), ("codex", "401"), ("gemini", "500"),
                                              ("opencode", "500")])  # fmt: skip
def test_retries_are_told_as_they_happen(tool: str, status: str):
    """Somebody who waits sees that it is tried again, and why."""
    found = read(tool, f"refused-{status}")
    retries = found.did("retry")
    assert retries
    assert found.outcome.trouble == retries[-1][1] or found.outcome.error
    assert all(status in summary for _, summary in retries)


@pytest.mark.parametrize("tool", ["opencode", "qwen", "llm", "gemini"])
def test_a_refusal_that_is_final_is_no_retry(tool: str):
    """Nobody is told of tries that were not made."""
    assert read(tool, "refused-404").did("retry") == []


@pytest.mark.parametrize("tool", ["gemini", "opencode"])
def test_last_words_are_words(tool: str):
    """A log line or a brace is not what a tool had to say."""
    said = read(tool, "refused-500").outcome.last_words
    assert "level=" not in said
    assert said == "" or any(char.isalpha() for char in said)
