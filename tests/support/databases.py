"""Databases as opencode and llm keep them, small."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

_OPENCODE = """
CREATE TABLE session (id TEXT PRIMARY KEY, parent_id TEXT, directory TEXT, title TEXT,
  time_created INT, time_updated INT);
CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INT, time_updated INT, data TEXT);
CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT,
  time_created INT, time_updated INT, data TEXT);
"""

#: What llm keeps, in the form of earlier versions.
LLM = """
CREATE TABLE conversations (id TEXT PRIMARY KEY, name TEXT, model TEXT);
CREATE TABLE responses (id TEXT PRIMARY KEY, model TEXT, prompt TEXT, system TEXT, response TEXT, conversation_id TEXT,
  duration_ms INT, datetime_utc TEXT, input_tokens INT, output_tokens INT, token_details TEXT, resolved_model TEXT);
"""


def make(path: Path, schema: str, fill: Callable[[sqlite3.Connection], object]) -> Path:
    """Write a database."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(schema)
        fill(connection)
        connection.commit()
    return path


def opencode(path: Path, cwd: str) -> Path:
    """A conversation that delegated to a child, in opencode's database."""

    def fill(connection: sqlite3.Connection) -> None:
        def say(session: str, number: int, role: str, parts: list[dict[str, Any]], **more: Any) -> None:
            key, at = f"msg_{session}_{number}", 1793613600000 + number * 1000
            info = {"role": role, "time": {"created": at}, **more}
            connection.execute("INSERT INTO message VALUES (?, ?, ?, ?, ?)", (key, session, at, at, json.dumps(info)))
            for place, part in enumerate(parts):
                row = (f"prt_{key}_{place}", key, session, at, at, json.dumps(part))
                connection.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?, ?)", row)

        tokens = {"input": 10, "output": 5, "reasoning": 2, "cache": {"read": 3, "write": 1}}
        for session, parent in (("ses_a", None), ("ses_b", "ses_a")):
            row = (session, parent, cwd, f"Title of {session}", 1793613600000, 1793613609000)
            connection.execute("INSERT INTO session VALUES (?, ?, ?, ?, ?, ?)", row)
        say("ses_a", 1, "user", [{"type": "text", "text": "ask a child"},
                                 {"type": "text", "text": "hidden", "synthetic": True}])  # fmt: skip
        state = {
            "status": "completed",
            "input": {"prompt": "say two"},
            "output": "two",
            "metadata": {"sessionId": "ses_b"},
        }
        say("ses_a", 2, "assistant", [{"type": "tool", "tool": "task", "callID": "call_1", "state": state},
                                      {"type": "text", "text": "it said two"}],
            tokens=tokens, cost=0.25, modelID="model-x")  # fmt: skip
        say("ses_b", 1, "user", [{"type": "text", "text": "say two"}])
        say("ses_b", 2, "assistant", [{"type": "text", "text": "two"}], tokens=tokens, cost=0.5, modelID="model-x")

    return make(path, _OPENCODE, fill)


def llm(path: Path) -> Path:
    """Two questions in one conversation of llm's, in the form of earlier versions."""

    def fill(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO conversations VALUES ('conv-1', 'say pong', 'm')")
        details = json.dumps({"prompt_tokens_details": {"cached_tokens": 8}})
        for number, prompt in enumerate(("say pong", "again")):
            row = (f"resp-{number}", "m", prompt, "be brief", f"pong {number}", "conv-1", 100,
                   f"2026-11-02T10:00:0{number}+00:00", 60, 12, details, None)  # fmt: skip
            connection.execute(f"INSERT INTO responses VALUES ({', '.join('?' * 12)})", row)

    return make(path, LLM, fill)
