"""The catalogue itself: data only. Exact unattended command lines, each taking the prompt on stdin.

Only a mode that somebody asked for widens what a tool may do; without one its own configuration decides that, as it
does when a person calls it.
"""

from __future__ import annotations

from pathlib import Path

from maestro_state.tools.options import Mode
from maestro_state.tools.tool import CONVERSATION, FILE, PYTHON, Tool

_LOOKS = "read files and plan; it changes nothing"
_EDITS = "change files in the working directory without asking; other commands are refused"
_ANYTHING = "change any file and run any command as you, without asking"

_OPENCODE_EDITS = "change files and run commands in the working directory, except where its own settings ask first"

_MODEL_KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY")

#: What a tool counts over its whole session that counts all its tokens so.
_ALL_TOKENS = frozenset(
    {"tokens_input", "tokens_output", "tokens_cache_read", "tokens_cache_write", "tokens_reasoning"}
)

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
        words=("claude", "-p", "--output-format", "stream-json", "--verbose", "--include-partial-messages"),
        version=("claude", "--version"),
        sees=("ANTHROPIC_*", "CLAUDE_*"),
        stream="claude",
        ends_with="a result event that is no error",
        # `usage` is of this call; the cost runs on over a resumed session.
        cumulative=frozenset({"cost"}),
        about="Claude Code",
        model_flag="--model",
        modes={
            "read": Mode(("--permission-mode", "plan"), _LOOKS),
            "edit": Mode(("--permission-mode", "acceptEdits"), _EDITS),
            "full": Mode(("--permission-mode", "bypassPermissions"), _ANYTHING),
        },
        resume=("--resume", CONVERSATION),
        own_flags=frozenset({"--output-format", "--input-format"}),
        takes=frozenset({"image", "pdf"}),
        mentions="quoted",
    ),
    Tool(
        name="codex",
        words=("codex", "exec", "--json", "--skip-git-repo-check"),
        last_words=("-",),
        version=("codex", "--version"),
        sees=("CODEX_*", "OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG*", "OPENAI_PROJECT*"),
        stream="codex",
        ends_with="a turn.completed event",
        cumulative=_ALL_TOKENS,
        about="Codex CLI",
        model_flag="-m",
        modes={
            "read": Mode(("-s", "read-only"), "read files and run commands that change nothing"),
            "edit": Mode(
                ("-s", "workspace-write"),
                "change files and run commands in the working directory without asking, in its sandbox",
            ),
            "full": Mode(("--dangerously-bypass-approvals-and-sandbox",), _ANYTHING),
        },
        # Its options must stand before the word.
        resume=("resume", CONVERSATION),
        takes=frozenset({"image"}),
        attach=(f"--image={FILE}",),
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
        model_flag="-m",
        modes={
            "read": Mode(("--approval-mode", "plan"), _LOOKS),
            "edit": Mode(("--approval-mode", "auto_edit"), _EDITS),
            "full": Mode(("--approval-mode", "yolo"), _ANYTHING),
        },
        resume=("--resume", CONVERSATION),
        own_flags=frozenset({"-o", "--output-format"}),
        takes=frozenset({"image", "pdf"}),
        mentions="escaped",
    ),
    Tool(
        name="qwen",
        words=("qwen", "-o", "stream-json", "--include-partial-messages"),
        version=("qwen", "--version"),
        sees=("QWEN_*", "DASHSCOPE_*", "OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL"),
        stream="qwen",
        ends_with="a result event that is no error and tells of none",
        cumulative=_ALL_TOKENS,
        exit_codes=(*_GEMINI_EXITS, (55, "its budget is used up")),
        about="Qwen Code",
        model_flag="-m",
        modes={
            "read": Mode(("--approval-mode", "plan"), _LOOKS),
            "edit": Mode(("--approval-mode", "auto-edit"), _EDITS),
            "full": Mode(("--approval-mode", "yolo"), _ANYTHING),
        },
        resume=("--resume", CONVERSATION),
        own_flags=frozenset({"-o", "--output-format", "--input-format"}),
        takes=frozenset({"image", "pdf"}),
        mentions="escaped",
    ),
    Tool(
        name="opencode",
        # Its log on stderr is where it names the model and says that it tries again.
        words=("opencode", "run", "--format", "json", "--pure", "--print-logs", "--log-level", "INFO"),
        version=("opencode", "--version"),
        sees=("OPENCODE_*", *_MODEL_KEYS),
        stream="opencode",
        ends_with="a last step_finish event, and no error event",
        about="opencode",
        model_flag="-m",
        modes={
            "read": Mode(("--agent", "plan"), _LOOKS),
            "edit": Mode((), _OPENCODE_EDITS),
            "full": Mode(("--auto",), _ANYTHING),
        },
        may_edit=_OPENCODE_EDITS,
        resume=("-s", CONVERSATION),
        takes=frozenset({"image", "pdf"}),
        attach=("-f", FILE),
        own_flags=frozenset({"--format"}),
    ),
    Tool(
        name="llm",
        words=("llm", "--usage"),
        version=("llm", "--version"),
        sees=("LLM_*", *_MODEL_KEYS),
        stream="llm",
        about="LLM, any model it has a plugin for",
        model_flag="-m",
        # It has no tools unless its user gives it some.
        modes={"read": Mode((), "answer; it has no tools")},
        resume=("--cid", CONVERSATION),
        takes=frozenset({"image", "pdf"}),
        attach=("-a", FILE),
        log=("llm", "logs", "-n", "8", "--json"),
    ),
    Tool(
        name="echo",
        # By its path and isolated: nothing the project contains can take its place.
        words=(PYTHON, "-I", "-S", str(Path(__file__).with_name("echo.py"))),
        version=(PYTHON, "-I", "-S", str(Path(__file__).with_name("echo.py")), "--version"),
        about="built in: says what it was sent; needs no account",
    ),
)
