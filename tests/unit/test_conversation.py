"""What `watch` makes of events: a conversation in which several runs at once can be told apart."""

from __future__ import annotations

from base64 import b64encode

import click
import pytest
from maestro_cli import output
from maestro_cli.screen import columns, figures
from maestro_cli.screen.authors import author
from maestro_cli.screen.conversation import Conversation

from maestro_state.models.message import Event
from maestro_state.models.run import Flags, Run, Usage

BEGAN = 1794807908676


def run_of(run_id: str, **fields: object) -> Run:
    """Return a run as the server has it."""
    always = {"tool": "claude", "prompt_source": "cli", "flags": Flags(False, False), "status": "running"}
    rest = {"created_at": "2026-11-16T05:45:08.000Z", "context_refs": [], "context_version": []}
    return Run(id=run_id, **{**always, **rest, **fields})  # type: ignore[arg-type]


class Known:
    """The runs of a test."""

    def __init__(self, *runs: Run, prompt: bytes = b"why?") -> None:
        self.runs = {run.id: run for run in runs}
        self.asked = prompt

    def read(self, run_id: str) -> Run | None:
        return self.runs.get(run_id)

    def prompt(self, run: Run) -> bytes:
        return self.asked


def shown(*events: tuple[str, dict[str, object]], known: Known | None = None) -> list[str]:
    """Return the lines of some events, without the time."""
    conversation = Conversation(known or Known(), "ana")
    lines: list[str] = []
    for at, (kind, data) in enumerate(events):
        lines += conversation.take(Event(f"{BEGAN}-{at}", kind, data))
    lines += conversation.rest()
    return [line.split(" ", 1)[1] if line[2:3] == ":" else line for line in lines]


def piece(run_id: str, text: str) -> tuple[str, dict[str, object]]:
    """Return a piece of a run's answer."""
    return "run.output", {"run": run_id, "text": text}


def test_pieces_are_joined_until_a_line_ends():
    """However small the pieces, and whoever speaks between them, each line is whole; empty ones at the end are not."""
    lines = shown(*(piece("0001", char) for char in "one two\n\n\nthree\n\n"), piece("0002", "ot"), piece("0001", "f"),
                  piece("0002", "her\n"), piece("0001", "our"))  # fmt: skip
    assert lines == ["0001 │ one two", "0001 │", "0001 │ three", "0002 │ other", "0001 │", "0001 │ four"]


def test_a_character_in_two_pieces_is_one():
    """Bytes that are no text by themselves are shown when the rest of them has come."""
    first, second = "é\n".encode()[:1], "é\n".encode()[1:]
    events = [("run.output", {"run": "0001", "text": "?", "base64": b64encode(part).decode()})
              for part in (first, second)]  # fmt: skip
    assert shown(*events) == ["0001 │ é"]


def test_a_long_line_is_read_as_it_comes_on_a_terminal(monkeypatch):
    """It is broken between words to the width, before it has ended; every row has the run's number."""
    monkeypatch.setattr(output, "is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("NO_COLOR", "1")
    text = "the cookie lost its domain in the last release and nobody saw it"
    conversation = Conversation(Known(), "ana")
    early = [row for at, char in enumerate(text) for row in conversation.take(Event(f"1-{at}", *piece("0001", char)))]
    assert early == ["0001 │ the cookie lost its domain in the"]
    assert list(conversation.rest()) == ["0001 │ last release and nobody saw it"]


def test_who_asked_what_and_how_it_ended():
    """The question with who and where, what it goes on from, activity on a line each, the end with all figures."""
    usage = Usage(model="opus", tokens_input=1234, tokens_output=340, cost=0.021)
    times = {"started_at": "2026-11-16T05:45:08.000Z", "finished_at": "2026-11-16T05:45:20.400Z"}
    run = run_of("0002", user="eva", terminal="pts/3", continues="0001", usage=usage, status="success", **times)
    lines = shown(
        ("run.started", {"run": "0002", "tool": "claude", "user": "eva"}),
        ("run.claimed", {"run": "0002", "owner": "vm:1"}),
        piece("0002", "let me see"),
        ("run.activity", {"run": "0002", "kind": "tool_call", "name": "Bash", "summary": "pytest\n-q"}),
        ("run.activity", {"run": "0002", "kind": "tool_call", "name": "Edit", "summary": "b.py"}),
        ("run.activity", {"run": "0002", "kind": "file_change", "name": "Edit", "summary": "b.py"}),
        ("run.activity", {"run": "0002", "kind": "retry", "name": "api_retry", "summary": "overloaded"}),
        ("run.activity", {"run": "0002", "kind": "denied", "name": "Write", "summary": "a.py"}),
        piece("0002", "done"),
        ("run.finished", {"run": "0002", "status": "success"}),
        known=Known(run, prompt=b"fix it\nplease"),
    )
    assert lines == [
        "eva@pts/3 asks claude, going on from 0001",
        "0002 ? fix it",
        "0002 ? please",
        "0002 │ let me see",
        "0002 · Bash: pytest -q",
        "0002 · Edit: b.py",
        "0002 · changed b.py",
        "0002 · tries again: overloaded",
        "0002 · not allowed: Write: a.py",
        "0002 │ done",
        "0002 ✓ success · 12 s · opus · 1.2k tokens in, 340 out · $0.0210 · 1 not allowed",
    ]


def test_an_end_without_success_says_why():
    """The reason stands below, also when the run itself is gone; a cancel says whose it was."""
    lines = shown(
        ("run.cancel_requested", {"run": "0001", "user": "eva"}),
        ("run.finished", {"run": "0001", "status": "canceled", "error": "canceled"}),
        ("run.requeued", {"run": "0002"}),
    )
    assert lines == [
        "0001 ! eva cancels it",
        "0001 ✗ canceled",
        "0001   canceled",
        "0002 ! its worker was lost; it starts over",
    ]


def test_who_joins_is_told_what_goes_on():
    """Of a run that was open before, who asked what; once, also if its beginning comes as an event after all."""
    run = run_of("0003", user="eva", terminal="pts/3")
    conversation = Conversation(Known(run, prompt=b"why?"), "ana")
    told = list(conversation.join(run))
    assert [line.split(" ", 1)[1] for line in told] == ["eva@pts/3 asks claude", "? why?"]
    began = Event(f"{BEGAN}-0", "run.started", {"run": "0003", "tool": "claude"})
    assert list(conversation.take(began)) == []
    other = Event(f"{BEGAN}-1", "run.started", {"run": "0004", "tool": "codex"})
    assert [line.split(" ", 1)[1] for line in conversation.take(other)] == ["ana asks codex"]


def test_a_long_question_is_shown_by_its_beginning():
    """The rest is a command away."""
    lines = shown(("run.started", {"run": "0001", "tool": "cat"}), known=Known(run_of("0001"), prompt=b"line\n" * 40))
    assert lines[0] == "ana asks cat"
    assert lines[-1] == "0001 ? … 28 more lines: maestro show 0001 --prompt"
    assert len(lines) == 14


def test_messages_are_shown_once():
    """One by itself is; the question and the answer of a run are its own."""
    asked = {"role": "user", "content": "why?", "metadata": {"run": "0001"}}
    said = {"role": "user", "content": "look at the cookie", "user": "eva"}
    long = {"role": "assistant", "content": "one\ntwo"}
    lines = shown(("message.added", asked), ("message.added", said), ("message.added", long))
    assert lines == ["user (eva): look at the cookie", "assistant", "  one", "  two"]


def test_calls_of_tools_are_told_with_what_they_ask():
    """As frameworks keep them, with words or without; what only changes a state is told once, and briefly."""
    call = {"id": "c1", "name": "look", "arguments": {"where": "up\x1b[2J"}}
    lines = shown(
        ("message.added", {"role": "assistant", "content": "", "tool_calls": [call, {"id": "c2", "name": "go"}]}),
        ("message.added", {"role": "assistant", "content": "I look.", "tool_calls": [call | {"arguments": "{}"}]}),
        (
            "message.added",
            {"role": "tool", "content": "a bird", "tool_results": [{"call_id": "c1", "content": "a bird"}]},
        ),
        ("message.added", {"role": "system", "content": "", "metadata": {"adk": {"id": "1"}}}),
        ("state.changed", {"keys": '["mood"]'}),
        ("session.kept", {}),
        ("checkpoint.added", {"checkpoint": "1f", "namespace": "", "parent": "", "source": "loop", "step": "3"}),
        ("message.added", {"role": "system", "content": "", "metadata": {"openai": {"__enc__": 1}}}),
    )
    assert lines == [
        'assistant → look {"where":"up\\u001b[2J"}',
        "  → go",
        "assistant: I look.",
        "  → look {}",
        "tool: a bird",
        'the state changed: ["mood"]',
        "checkpoint of step 3 (loop)",
        "system:",
    ]


def test_agents_are_told_apart():
    """Each is named as its program calls itself, in a line, whatever that is: two of them are both assistants."""
    of = [{"client": "codex 1"}, {"client": "a\nuser: b\x1b" + "c" * 100}, {"client": ["x"]}]
    lines = shown(*(("message.added", {"role": "assistant", "content": "hi", "metadata": one}) for one in of))
    assert lines == ["assistant (codex 1): hi", f"assistant (a user: b␛{'c' * 70}): hi", "assistant: hi"]


def test_a_question_is_not_of_the_tool_it_asks():
    """Whom it was put to is no author of it, as it is of the answer."""
    of = {"tool": "claude"}
    assert (author("eva", of, "user"), author(None, of, "user")) == (" (eva)", "")
    assert (author("eva", of, "assistant"), author(None, of, "assistant")) == (" (eva, claude)", " (claude)")


@pytest.mark.parametrize(
    ("kind", "data", "told"),
    [
        ("tool.selected", {"tool": "codex", "user": "eva"}, "eva chose codex: runs of this session use it from now on"),
        ("context.added", {"item": "ctx-0001", "kind": "file", "source": "a.py"}, "ana added ctx-0001 file a.py"),
        ("context.added", {"item": "ctx-2", "kind": "output", "source": "0001"}, "ana added ctx-2 output of run 0001"),
        ("context.removed", {"item": "ctx-0001"}, "ana took ctx-0001 out of the context"),
        ("session.aborted", {"reason": "wrong\nbranch"}, "ana gave the session up: wrong branch"),
        ("never.heard", {"of": "it"}, "never.heard of=it"),
    ],
)
def test_what_else_happens_is_one_sentence(kind, data, told):
    """Others are named, the session's owner is who is not; what nobody knows is shown as it is."""
    assert shown((kind, data)) == [told]


def test_no_event_is_obeyed(monkeypatch):
    """Whatever an event carries, nothing of it is more than a picture."""
    monkeypatch.setattr(output, "is_terminal", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    bad = "\x1b[2J\x9b2J\u202e"
    data = dict.fromkeys(("name", "summary", "kind", "tool", "user", "role", "content", "error", "status"), bad)
    kinds = (
        "run.started",
        "run.activity",
        "run.finished",
        "message.added",
        "tool.selected",
        "run.cancel_requested",
        bad,
    )
    for kind in kinds:
        for line in shown((kind, {"run": "0001", **data}), known=Known(prompt=bad.encode())):
            assert not set(click.unstyle(line)) & set(bad[:1] + bad[4:5] + bad[7:]), (kind, line)


def test_a_huge_line_costs_what_it_is_long():
    """Megabytes without a line end are broken in one go."""
    rows = columns.rows_of("x" * 3_000_000, 80)
    assert len(rows) == 37_500
    assert columns.rows_of("", 80) == [""]
    assert columns.rows_of("日本語 日本語", 7) == ["日本語", "日本語"]


@pytest.mark.parametrize(
    ("number", "short"), [(0, "0"), (999, "999"), (1000, "1.0k"), (9_949, "9.9k"), (56_400, "56k"), (1_200_000, "1.2M")]
)
def test_numbers_are_short(number, short):
    """Three figures tell enough."""
    assert figures.count(number) == short
