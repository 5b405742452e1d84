"""Model, mode, arguments and conversation become the words of each tool; what a tool has not is refused first."""

from __future__ import annotations

from pathlib import Path

import pytest

from maestro_state.errors import InvalidValue, NoConversation
from maestro_state.models.run import Flags, Run, ToolOptions, Usage
from maestro_state.tools import MODES, check_continues, check_options, combined, names, resolve


def finished(tool: str, *, status: str = "success", conversation: str | None = "c1") -> Run:
    """Return a run that has ended."""
    return Run(id="0001", tool=tool, prompt_source="cli", flags=Flags(False, False), status=status,
               created_at="2026-01-01T00:00:00.000+00:00", context_refs=[], context_version=[],
               usage=Usage(tool_session=conversation))  # fmt: skip


#: Tool → what is executed for model m, mode edit, one more argument, in conversation c1.
SAID = {
    "claude": "--model m --permission-mode acceptEdits --extra --resume c1",
    "codex": "-m m -s workspace-write --extra resume c1 -",
    "gemini": "-m m --approval-mode auto_edit --extra --resume c1",
    "qwen": "-m m --approval-mode auto-edit --extra --resume c1",
    "opencode": "-m m --extra -s c1",
}


@pytest.mark.parametrize("tool", SAID)
def test_options_are_said_in_the_tools_own_words(tool: str):
    """Model, mode, arguments and the conversation come behind what is always said, in the order the tool takes."""
    options = ToolOptions(model="m", mode="edit", arguments=["--extra"])
    known = resolve(tool)
    check_options(known, options)
    assert known.argv(options, "c1") == [*known.words, *SAID[tool].split()]
    assert known.argv() == [*known.words, *known.last_words]


@pytest.mark.parametrize("tool", ["claude", "codex", "gemini", "qwen", "opencode"])
def test_every_agent_has_every_mode_and_says_what_it_allows(tool: str):
    """The three modes are three different calls, each with what it allows in words."""
    known = resolve(tool)
    assert tuple(known.modes) == MODES
    assert len({mode.words for mode in known.modes.values()}) == 3
    assert all(mode.allows for mode in known.modes.values())


@pytest.mark.parametrize(
    ("tool", "options", "words"),
    [
        ("llm", ToolOptions(mode="edit"), "llm has no mode edit"),
        ("llm", ToolOptions(mode="full"), "llm has no mode full"),
        ("echo", ToolOptions(mode="read"), "echo has no mode read"),
        ("echo", ToolOptions(model="m"), "echo cannot be told a model"),
        ("sort -u", ToolOptions(mode="edit"), "is a command line"),
        ("sort -u", ToolOptions(model="m"), "cannot be told a model"),
        ("claude", ToolOptions(mode="some"), "there is no mode 'some'"),
        ("claude", ToolOptions(model="--dangerously"), "not the name of a model"),
        ("claude", ToolOptions(model="a\nb"), "not the name of a model"),
        ("claude", ToolOptions(arguments=["--output-format", "text"]), "for Maestro to say"),
        ("gemini", ToolOptions(arguments=["--output-format=json"]), "for Maestro to say"),
        ("gemini", ToolOptions(arguments=["--outputFormat", "text"]), "for Maestro to say"),
        ("opencode", ToolOptions(arguments=["--no-format"]), "for Maestro to say"),
        ("claude", ToolOptions(arguments=["a\0b"]), "NUL"),
        ("claude", ToolOptions(arguments=["x" * 5000]), "at most"),
    ],
)
def test_what_a_tool_has_not_is_refused_before_it_is_called(tool: str, options: ToolOptions, words: str):
    """The refusal names the tool and what it lacks."""
    with pytest.raises(InvalidValue, match=words):
        check_options(resolve(tool), options)


def test_what_only_looks_like_a_flag_of_maestros_is_handed_on():
    """A word without dashes, and a flag that another tool has."""
    options = ToolOptions(arguments=["format", "--title", "output-format", "--output-format-of-mine"])
    check_options(resolve("opencode"), options)


def test_llm_reads_always():
    """The mode that llm is always in needs no word."""
    options = ToolOptions(mode="read", model="m")
    check_options(resolve("llm"), options)
    assert resolve("llm").argv(options, "c1")[1:] == ["--usage", "-m", "m", "--cid", "c1"]


def test_a_command_line_whose_program_is_known_is_that_tool(tmp_path: Path):
    """Reader, variables and name are the tool's; what the catalogue says by itself is not said twice."""
    tool = resolve("claude --model opus -p")
    assert (tool.name, tool.entry, tool.arguments, tool.stream) == (
        "claude",
        "claude",
        ("--model", "opus", "-p"),
        "claude",
    )
    assert resolve("codex exec -c x=1").arguments == ("-c", "x=1")
    assert resolve("codex exec -c x=1").argv() == [*resolve("codex").words, "-c", "x=1", "-"]
    assert resolve("opencode run -m a/b").arguments == ("-m", "a/b")

    program = tmp_path / "two words" / "qwen"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    there = resolve(f"'{program}' --proxy x")
    assert (there.entry, there.stream, there.arguments) == ("qwen", "qwen", ("--proxy", "x"))
    assert there.argv()[0] == str(program)
    # its name, without the arguments, means the same program again
    assert resolve(there.name).argv() == [str(program), *resolve("qwen").words[1:]]


def test_the_built_in_echo_is_not_the_program_of_that_name():
    """`echo hello` is a command line, as it always was."""
    assert resolve("echo hello").words == ("echo", "hello")
    assert resolve("echo").entry == "echo"
    assert "echo" in names()


def test_what_is_said_now_wins_over_the_sessions_defaults():
    """Model and mode replace the default, arguments come behind it."""
    defaults = ToolOptions(model="a", mode="read", arguments=["-x"])
    assert combined(ToolOptions(model="b", arguments=["-y"]), defaults) == ToolOptions(
        model="b", mode="read", arguments=["-x", "-y"]
    )
    assert combined(ToolOptions(mode="edit"), None) == ToolOptions(mode="edit")


@pytest.mark.parametrize(
    ("tool", "before", "kind", "words"),
    [
        ("echo", finished("echo"), InvalidValue, "keeps no conversations"),
        ("claude", None, NoConversation, "no run of claude"),
        ("claude", finished("codex"), InvalidValue, "a conversation with codex, not with claude"),
        ("claude", finished("claude", status="running"), NoConversation, "is running"),
        ("claude", finished("claude", conversation=None), NoConversation, "left no conversation"),
    ],
)
def test_what_cannot_be_gone_on_with_is_refused(tool: str, before: Run | None, kind: type[Exception], words: str):
    """Each refusal says why."""
    with pytest.raises(kind, match=words):
        check_continues("s--abcdef", resolve(tool), before)


def test_a_conversation_can_be_gone_on_with_by_the_same_tool_anywhere(tmp_path: Path):
    """A run of the tool, also one whose program was named by a path that is gone, can be gone on with."""
    check_continues("s--abcdef", resolve("claude"), finished("claude"))
    check_continues("s--abcdef", resolve("claude"), finished(str(tmp_path / "claude")))
