"""What the stream readers make of what tools print, in the shapes the tools print it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from maestro_state.models.run import Usage
from maestro_state.tools import Outcome, delta, resolve
from maestro_state.tools.parsers import lines


def stream(*events: Any) -> bytes:
    """Write events as a tool does, one to a line."""
    return b"".join((one if isinstance(one, bytes) else json.dumps(one).encode()) + b"\n" for one in events)


def read(
    tool: str, data: bytes, exit_code: int | None = 0, stderr: bytes = b"", step: int | None = None
) -> tuple[str, Outcome]:
    """Feed a reader, in pieces of `step` bytes if given; return all its text and the outcome."""
    parser = resolve(tool).parser()
    step = step or len(data) or 1
    text = "".join(part for at in range(0, len(data), step) for part in parser.feed(data[at : at + step]))
    outcome = parser.end(exit_code, stderr)
    return text + outcome.text, outcome


CLAUDE_RESULT = {
    "subtype": "success", "is_error": False, "result": "pong", "session_id": "ca7d", "total_cost_usd": 0.00015375,
    "usage": {"input_tokens": 12, "cache_creation_input_tokens": 3, "cache_read_input_tokens": 5, "output_tokens": 7},
    "modelUsage": {"claude-sonnet-4-5": {"inputTokens": 12}}, "type": "result",
}  # fmt: skip
CLAUDE = stream(
    {"type": "system", "subtype": "init", "session_id": "ca7d", "model": "claude-sonnet-4-5", "tools": []},
    {"type": "assistant", "message": {"content": [{"type": "text", "text": "let me läok"}, {"type": "tool_use"}],
                                      "usage": {"output_tokens": 1}}, "parent_tool_use_id": None, "session_id": "ca7d"},
    {"type": "user", "message": {"content": [{"type": "tool_result", "content": "secret file"}]}, "session_id": "ca7d"},
    {"type": "assistant", "message": {"content": [{"type": "text", "text": "sub-agent"}]}, "parent_tool_use_id": "t1"},
    {"type": "assistant", "message": {"content": [{"type": "text", "text": "pong ✓"}]}, "session_id": "ca7d"},
    CLAUDE_RESULT,
)  # fmt: skip
CODEX = stream(
    {"type": "thread.started", "thread_id": "01a1"},
    {"type": "turn.started"},
    {"type": "item.completed", "item": {"id": "0", "type": "error", "message": "not fatal"}},
    {"type": "item.completed", "item": {"id": "1", "type": "reasoning", "text": "hmm"}},
    {"type": "item.completed", "item": {"id": "2", "type": "agent_message", "text": "pong ✓"}},
    {"type": "turn.completed", "usage": {"input_tokens": 120, "cached_input_tokens": 20, "output_tokens": 45}},
)
GEMINI = stream(
    b"Loaded cached credentials.",
    {"type": "init", "session_id": "g1", "model": "gemini-2.5-flash"},
    {"type": "message", "role": "user", "content": "the prompt"},
    {"type": "message", "role": "assistant", "content": "po", "delta": True},
    {"type": "message", "role": "assistant", "content": "ng ✓", "delta": True},
    {"type": "result", "status": "success", "stats": {"input_tokens": 50, "output_tokens": 8, "cached": 10, "input": 40,
                                                      "models": {"gemini-2.5-flash": {}}}},
)  # fmt: skip
QWEN = stream(
    {"type": "system", "subtype": "init", "session_id": "q1", "model": "qwen3"},
    {"type": "assistant", "message": {"content": [{"type": "text", "text": "pong ✓"}]}, "session_id": "q1"},
    {"type": "result", "subtype": "success", "session_id": "q1", "is_error": False, "result": "pong ✓",
     "usage": {"input_tokens": 60, "output_tokens": 12, "cache_read_input_tokens": 8, "total_tokens": 72}},
)  # fmt: skip
OPENCODE = stream(
    {"type": "step_start", "sessionID": "ses_1", "part": {}},
    {"type": "step_finish", "sessionID": "ses_1", "part": {"reason": "tool-calls", "cost": 0.5, "tokens": {
        "input": 20, "output": 1, "reasoning": 2, "cache": {"read": 0, "write": 0}}}},
    {"type": "step_start", "sessionID": "ses_1", "part": {}},
    {"type": "text", "sessionID": "ses_1", "part": {"text": "pong ✓"}},
    {"type": "step_finish", "sessionID": "ses_1", "part": {"reason": "stop", "cost": 0.25, "tokens": {
        "input": 26, "output": 6, "reasoning": 0, "cache": {"read": 4, "write": 0}}}},
)  # fmt: skip

RECORDED = {
    "claude": (CLAUDE, "let me läok\n\npong ✓\n", Usage(
        model="claude-sonnet-4-5", tokens_input=20, tokens_output=7, tokens_cache_read=5, tokens_cache_write=3,
        cost=0.00015375, tool_session="ca7d")),
    "codex": (CODEX, "pong ✓\n", Usage(
        tokens_input=120, tokens_output=45, tokens_cache_read=20, tool_session="01a1")),
    "gemini": (GEMINI, "pong ✓\n", Usage(
        model="gemini-2.5-flash", tokens_input=50, tokens_output=8, tokens_cache_read=10, tool_session="g1")),
    "qwen": (QWEN, "pong ✓\n", Usage(
        model="qwen3", tokens_input=60, tokens_output=12, tokens_cache_read=8, tool_session="q1")),
    "opencode": (OPENCODE, "pong ✓\n", Usage(
        tokens_input=50, tokens_output=9, tokens_cache_read=4, tokens_reasoning=2, cost=0.75, tool_session="ses_1")),
}  # fmt: skip


@pytest.mark.parametrize("tool", RECORDED)
@pytest.mark.parametrize("step", [None, 1, 7])
def test_text_numbers_and_verdict_are_read(tool: str, step: int | None):
    """A whole call gives its text, its counters and success, however its bytes are torn."""
    data, text, usage = RECORDED[tool]
    assert read(tool, data, step=step) == (text, Outcome(status="success", usage=usage, text="\n"))


@pytest.mark.parametrize("tool", RECORDED)
def test_a_last_line_without_newline_counts(tool: str):
    """A tool that leaves out its last newline has still said everything."""
    data, text, usage = RECORDED[tool]
    said, outcome = read(tool, data.rstrip(b"\n"))
    assert (said, outcome.status, outcome.usage) == (text, "success", usage)


@pytest.mark.parametrize("tool", RECORDED)
def test_no_terminal_event_is_no_success(tool: str):
    """Cut anywhere before its terminal event is complete, a call is an error, whatever the exit code."""
    data, _, _ = RECORDED[tool]
    last = data.rstrip(b"\n").rindex(b"\n") + 1
    for cut in {0, last // 2, last, last + 5, len(data) - 2}:
        for exit_code in (0, 1, None):
            _, outcome = read(tool, data[:cut], exit_code)
            assert outcome.status == "error"
            assert outcome.error is not None
            assert tool in outcome.error


@pytest.mark.parametrize("tool", RECORDED)
def test_what_is_not_known_is_passed_over(tool: str):
    """Unknown events, other JSON, text and broken bytes between the events change nothing."""
    data, text, usage = RECORDED[tool]
    noise = [
        b"", b"   ", b"plain words", b"[1, 2]", b'"text"', b"{", b'{"type": "result"', b"\xff\xfe", b"nul\0nul", b"{}",
        b'{"type": null}', b'{"type": ["x"]}', b'{"type": "brand.new", "message": {"content": 7}}',
        b'{"type": "assistant", "message": {"content": "no list"}}', b'{"type": "message", "role": 1, "content": {}}',
        b'{"type": "text", "part": []}', b'{"type": "item.completed", "item": "x"}', b"{" * 5000,
        b'{"type": "\xff\xfe"}', b'{"type": ' + b"[" * 5000 + b"]" * 5000 + b"}",
    ]  # fmt: skip
    mixed = b"\n".join(
        line for event in data.splitlines() for line in (*noise, event)
    )  # fmt: skip
    said, outcome = read(tool, mixed)
    assert (said, outcome.status, outcome.usage) == (text, "success", usage)


def test_an_api_error_told_as_success_is_an_error():
    """A call whose only answer is an API error failed, though the tool says success and exits with 0."""
    said = "[API Error: 401 Incorrect API key]"
    data = stream(
        {"type": "assistant", "message": {"content": [{"type": "text", "text": said}]}},
        {"type": "result", "subtype": "success", "is_error": False, "result": said, "usage": {"input_tokens": 0}},
    )
    _, outcome = read("qwen", data)
    assert (outcome.status, outcome.error) == ("error", f"qwen: {said}")
    # the control: an answer that only speaks of such an error is an answer
    fine = stream({"type": "result", "subtype": "success", "is_error": False, "result": f"I saw {said}"})
    assert read("qwen", fine)[1].status == "success"


@pytest.mark.parametrize(
    ("tool", "data", "exit_code", "words"),
    [
        ("claude", stream({"type": "result", "subtype": "error_max_turns", "is_error": True}), 1, "error_max_turns"),
        ("claude", stream({"type": "result", "is_error": True, "result": "no credit"}), 1, "no credit"),
        ("claude", stream({"type": "system", "subtype": "api_retry", "attempt": 7, "error_status": 401}), None, "401"),
        ("claude", b"No conversation found with session ID: x\n", 1, "No conversation found"),
        ("claude", stream({"type": "user", "message": "[Request interrupted by user]"}), 0, "without its result"),
        ("codex", stream({"type": "error"}, {"type": "turn.failed", "error": {"message": "bad key"}}), 1, "bad key"),
        ("codex", stream({"type": "error", "message": "Reconnecting... waiting for network"}), None, "Reconnecting"),
        ("gemini", b"", 55, "does not trust this folder"),
        ("gemini", stream({"type": "result", "status": "error", "error": {"message": "no key"}}), 145, "no key"),
        ("gemini", stream({"type": "result", "status": "error"}), 145, "ended in an error"),
        ("opencode", stream({"type": "error", "error": {"name": "E", "data": {"statusCode": 401}}}), 1, "E: the API"),
        ("opencode", stream({"type": "step_finish", "part": {"reason": "tool-calls"}}), 0, "without its step_finish"),
        ("llm", b"half an ans", 1, "ended with exit code 1: Error: no key"),
        ("echo", b"", 3, "ended with exit code 3: Error: no key"),
        ("echo", b"", None, "was killed"),
    ],
)  # fmt: skip
def test_failures_say_what_the_tool_said(tool: str, data: bytes, exit_code: int | None, words: str):
    """Each tool's way of failing is an error with its own reason."""
    stderr = b"noise\nError: no key\n" if tool in ("llm", "echo") else b""
    _, outcome = read(tool, data, exit_code, stderr)
    assert outcome.status == "error"
    assert words in (outcome.error or "")


def test_a_success_that_exits_with_another_code_is_an_error():
    """The terminal event alone is not enough when the tool itself exits with an error."""
    assert read("claude", CLAUDE, 1, b"crashed at exit\n")[1].error == "claude ended with exit code 1: crashed at exit"


def test_plain_text_survives_any_split():
    """A character torn between two reads is whole; bytes that are no text are marked."""
    data = "ä✓\n".encode() + b"\xff\xe2\x9c"
    for step in (1, 2, 5):
        assert read("echo", data, step=step)[0] == "ä✓\n\ufffd\ufffd"
    assert read("llm", b"pong", 0, b"Token usage: 1,234 input, 7 output\n")[1].usage == Usage(
        tokens_input=1234, tokens_output=7
    )


def test_memory_is_bounded_whatever_a_tool_prints(monkeypatch: pytest.MonkeyPatch):
    """A line without end is dropped, and what follows it is still read."""
    monkeypatch.setattr(lines, "LINE_MAX", 1000)
    parser = resolve("claude").parser()
    for _ in range(100):
        assert parser.feed(b"x" * 100) == []
        assert sum(map(len, parser._parts)) <= 1000
    assert parser.feed(b"\n" + stream(CLAUDE_RESULT)) == ["pong"]
    assert parser.end(0).status == "success"


def test_a_lone_surrogate_does_not_lose_the_answer():
    """What JSON can spell and UTF-8 cannot is replaced; the rest of the text stays."""
    data = b'{"type": "result", "subtype": "success", "result": "a\\ud800b"}\n'
    text, outcome = read("claude", data)
    assert (text.encode(), outcome.status) == (b"a?b\n", "success")


def test_broken_bytes_do_not_lose_the_answer():
    """What is not UTF-8 in a line is replaced, wherever it came from: the file that an agent read, most of all."""
    data = b'{"type": "result", "subtype": "success", "result": "a\xffb"}\n'
    text, outcome = read("claude", data)
    assert (text, outcome.status) == ("a\ufffdb\n", "success")


def test_cumulative_counters_become_shares():
    """Of counters that run over a tool's whole session only what this call added is recorded."""
    cumulative = resolve("codex").cumulative
    shares: list[Usage] = []
    for total in (120, 240, 300):
        shares.append(delta(Usage(tokens_input=total, tokens_output=total // 2, tool_session="t"), cumulative, shares))
    shares.append(delta(Usage(tokens_input=50, tool_session="other"), cumulative, shares))
    assert [share.tokens_input for share in shares] == [120, 120, 60, 50]
    assert [share.tokens_output for share in shares] == [60, 60, 30, None]
    assert delta(Usage(cost=0.3, tokens_input=5, tool_session="c"), resolve("claude").cumulative, [
        Usage(cost=0.1, tokens_input=5, tool_session="c")
    ]) == Usage(cost=pytest.approx(0.2), tokens_input=5, tool_session="c", counters={"cost": 0.3})  # fmt: skip
    assert delta(Usage(tokens_input=7), cumulative, shares) == Usage(tokens_input=7, counters={"tokens_input": 7})
    # versions that count the cost anew with each call are known by what they count beside it
    first = delta(Usage(cost=0.25, tokens_output=7, tool_session="c", counters={"said_in_all": 7}), {"cost"}, [])
    again = Usage(cost=0.5, tokens_output=7, tool_session="c", counters={"said_in_all": 14})
    assert delta(again, {"cost"}, [first]).cost == 0.25
    anew = Usage(cost=0.5, tokens_output=9, tool_session="c", counters={"said_in_all": 9})
    assert delta(anew, {"cost"}, [first]).cost == 0.5
    # a fork has another id and takes the counters over; what it went on from says where they stood
    fork = Usage(cost=0.5, tool_session="f")
    assert delta(fork, {"cost"}, [], Usage(cost=0.1, tool_session="c", counters={"cost": 0.25})).cost == 0.25
    assert delta(fork, {"cost"}, []).cost == 0.5
