"""The catalogue itself: data only. Exact unattended command lines, each taking the prompt on stdin.

No flag here widens what a tool may do: its own configuration decides that, as it does when a person calls it.
"""

from __future__ import annotations

from pathlib import Path

from maestro_state.catalog.tool import PYTHON, Tool

_MODEL_KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY")

#: Exit codes that gemini documents; qwen began as the same program and keeps most of them.
_GEMINI_EXITS = (
    (41, "authentication failed"),
    (42, "it refused the input"),
    (44, "its sandbox failed"),
    (52, "its configuration is wrong"),
    (53, "it reached its limit of turns"),
    (54, "one of its tools failed"),
    (130, "it was interrupted"),
    (145, "the API refused the key (401)"),
)

TOOLS = (
    Tool(
        name="claude",
        words=("claude", "-p", "--output-format", "stream-json", "--verbose"),
        version=("claude", "--version"),
        sees=("ANTHROPIC_*", "CLAUDE_*"),
        stream="claude",
        ends_with="a result event that is no error",
        # `usage` is of this call; the cost runs on over a resumed session.
        cumulative=frozenset({"cost"}),
        about="Claude Code",
    ),
    Tool(
        name="codex",
        words=("codex", "exec", "--json", "--skip-git-repo-check"),
        last_words=("-",),
        version=("codex", "--version"),
        sees=("CODEX_*", "OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG*", "OPENAI_PROJECT*"),
        stream="codex",
        ends_with="a turn.completed event",
        cumulative=frozenset({"tokens_input", "tokens_output"}),
        about="Codex CLI",
    ),
    Tool(
        name="gemini",
        words=("gemini", "-o", "stream-json"),
        version=("gemini", "--version"),
        sees=("GEMINI_*", "GOOGLE_*"),
        stream="gemini",
        ends_with="a result event with status success",
        exit_codes=(*_GEMINI_EXITS, (55, "it does not trust this folder: start gemini here once and say so")),
        about="Gemini CLI",
    ),
    Tool(
        name="qwen",
        words=("qwen", "-o", "stream-json"),
        version=("qwen", "--version"),
        sees=("QWEN_*", "DASHSCOPE_*", "OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL"),
        stream="qwen",
        ends_with="a result event that is no error and tells of none",
        cumulative=frozenset({"tokens_input", "tokens_output"}),
        exit_codes=(*_GEMINI_EXITS, (55, "its budget is used up")),
        about="Qwen Code",
    ),
    Tool(
        name="opencode",
        words=("opencode", "run", "--format", "json", "--pure"),
        version=("opencode", "--version"),
        sees=("OPENCODE_*", *_MODEL_KEYS),
        stream="opencode",
        ends_with="a last step_finish event, and no error event",
        about="opencode",
    ),
    Tool(
        name="llm",
        words=("llm", "--usage"),
        version=("llm", "--version"),
        sees=("LLM_*", *_MODEL_KEYS),
        stream="llm",
        about="LLM, any model it has a plugin for",
    ),
    Tool(
        name="echo",
        # By its path and isolated: nothing the project contains can take its place.
        words=(PYTHON, "-I", "-S", str(Path(__file__).with_name("echo.py"))),
        version=(PYTHON, "-I", "-S", str(Path(__file__).with_name("echo.py")), "--version"),
        about="built in: says what it was sent; needs no account",
    ),
)
