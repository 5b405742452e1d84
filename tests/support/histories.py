"""Histories as the tools write them, small: what people asked, what was answered, what it consumed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from maestro_state import Maestro
from maestro_state.mirror.home import Home
from maestro_state.mirror.reader import ArchivedSession

CLAUDE_ID = "0a0a0a0a-0000-4000-8000-000000000001"
CODEX_ID = "0b0b0b0b-0000-4000-8000-000000000002"


def json_lines(rows: list[dict[str, Any]]) -> str:
    """Return rows as JSON lines, as programs write them."""
    return "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)


def stamp(second: int) -> str:
    """Return a time of the day that all samples are of."""
    return f"2026-11-02T10:{second // 60:02d}:{second % 60:02d}.500Z"


class ClaudeHistory:
    """A conversation with Claude Code, line by line."""

    def __init__(self, root: Path, cwd: str, session: str = CLAUDE_ID) -> None:
        self.folder = root / "projects" / cwd.replace("/", "-")
        self.path = self.folder / f"{session}.jsonl"
        self.rows: list[dict[str, Any]] = []
        self._cwd, self._session = cwd, session
        self._count = 0

    def _row(self, kind: str, **more: Any) -> dict[str, Any]:
        self._count += 1
        before = self.rows[-1].get("uuid") if self.rows else None
        row = {"parentUuid": before, "isSidechain": False, "type": kind, "uuid": f"{self._session[:8]}-{self._count}",
               "timestamp": stamp(self._count), "cwd": self._cwd, "sessionId": self._session, "version": "2.1.0",
               "gitBranch": "main", **more}  # fmt: skip
        self.rows.append(row)
        return row

    def ask(self, text: str, **more: Any) -> ClaudeHistory:
        self._row("user", message={"role": "user", "content": text}, **more)
        return self

    def answer(self, *parts: dict[str, Any] | str, answer: str, tokens: int = 10, **more: Any) -> ClaudeHistory:
        """Each part is a line of its own, with the whole usage repeated, as Claude Code does."""
        usage = {
            "input_tokens": tokens,
            "cache_creation_input_tokens": 2,
            "cache_read_input_tokens": 3,
            "output_tokens": 4,
        }
        for part in parts:
            block = {"type": "text", "text": part} if isinstance(part, str) else part
            message = {"id": answer, "role": "assistant", "model": "claude-x", "content": [block], "usage": usage}
            self._row("assistant", message=message, **more)
        return self

    def call(self, name: str, call: str, **arguments: Any) -> dict[str, Any]:
        return {"type": "tool_use", "id": call, "name": name, "input": arguments}

    def result(self, call: str, text: str) -> ClaudeHistory:
        block = {"type": "tool_result", "tool_use_id": call, "content": text}
        self._row("user", message={"role": "user", "content": [block]}, toolUseResult={"stdout": text})
        return self

    def write(self) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json_lines([{"type": "mode", "mode": "normal"}, *self.rows]))
        return self.path


def two_turns(root: Path, cwd: str, session: str = CLAUDE_ID) -> ClaudeHistory:
    """A question answered with a tool's help in an answer of two lines, and another."""
    history = ClaudeHistory(root, cwd, session)
    history.ask("why does the login fail?")
    history.answer("let me see", history.call("Bash", "call-1", command="ls src"), answer="msg-1")
    history.result("call-1", "login.py").answer("the cookie is stale", answer="msg-2")
    history.ask("fix it").answer(history.call("Edit", "call-2", file_path="src/login.py"), answer="msg-3")
    history.result("call-2", "done").answer("fixed", answer="msg-4")
    return history


def codex_rows(cwd: str) -> list[dict[str, Any]]:
    """A conversation with Codex: everything said is there twice, and its running totals too."""

    def row(second: int, kind: str, **payload: Any) -> dict[str, Any]:
        return {"timestamp": stamp(second), "type": kind, "payload": payload}

    def usage(sent: int, cached: int, said: int, thought: int) -> dict[str, int]:
        return {"input_tokens": sent, "cached_input_tokens": cached, "output_tokens": said,
                "reasoning_output_tokens": thought, "total_tokens": sent + said}  # fmt: skip

    def message(role: str, text: str) -> dict[str, Any]:
        kind = "input_text" if role == "user" else "output_text"
        return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}

    return [
        row(0, "session_meta", id=CODEX_ID, cwd=cwd, cli_version="0.166.0", git={"branch": "main"}),
        row(1, "event_msg", type="task_started", turn_id="turn-a"),
        row(1, "turn_context", turn_id="turn-a", cwd=cwd, model="gpt-x"),
        row(1, "response_item", **message("user", "<environment_context>linux</environment_context>")),
        row(2, "response_item", **message("user", "list the files")),
        row(2, "event_msg", type="user_message", message="list the files"),
        row(3, "response_item", type="function_call", name="shell", call_id="c1", arguments='{"command":["ls"]}'),
        row(4, "response_item", type="function_call_output", call_id="c1", output="a.py"),
        row(4, "token_usage_record", turn_id="turn-a", response_id="resp-1", usage=usage(100, 40, 20, 5)),
        row(4, "event_msg", type="token_count", info={"total_token_usage": usage(100, 40, 20, 5)}),
        row(5, "event_msg", type="agent_message", message="there is a.py"),
        row(5, "response_item", **message("assistant", "there is a.py")),
        row(5, "token_usage_record", turn_id="turn-a", response_id="resp-2", usage=usage(130, 100, 10, 0)),
        row(5, "event_msg", type="token_count", info={"total_token_usage": usage(230, 140, 30, 5)}),
        row(6, "event_msg", type="task_complete", turn_id="turn-a"),
        row(7, "event_msg", type="task_started", turn_id="turn-b"),
        row(7, "turn_context", turn_id="turn-b", cwd=cwd, model="gpt-x"),
        row(8, "response_item", **message("user", "and now delete it")),
        row(8, "event_msg", type="user_message", message="and now delete it"),
        row(9, "event_msg", type="turn_aborted", reason="interrupted"),
    ]


def said(maestro: Maestro, session_id: str) -> list[tuple[str, str]]:
    """Return who said what in an archived session."""
    return [(one.role, one.content) for one in archived(maestro, session_id).messages()]


def archived(maestro: Maestro, session_id: str) -> ArchivedSession:
    """Open an archived session of a project."""
    return ArchivedSession(Home.of_project(maestro.project), session_id)
