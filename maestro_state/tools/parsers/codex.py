"""Codex's `exec --json`: thread, turn and item events."""

from __future__ import annotations

import re
from typing import Any

from maestro_state.tools.outcome import Outcome
from maestro_state.tools.parsers.activity import DENIED, FILE_CHANGE, TOOL_CALL, about
from maestro_state.tools.parsers.lines import JsonLines, count, part, words

#: A change that its sandbox did not allow; it says so only on stderr.
_REJECTED = re.compile(rb"error=([^\n]{1,300}?rejected by user approval settings)")


class Stream(JsonLines):
    """Text from agent messages, numbers and verdict from the turn's end."""

    terminal = "turn.completed"

    def on_event(self, event: dict[str, Any]) -> list[str]:
        """Take one line."""
        item = part(event, "item")
        match event.get("type"):
            case "thread.started":
                self.told(tool_session=words(event, "thread_id"))
            case "item.started":
                self._on_call(item)
            case "item.completed" if part(item, "type") == "agent_message":
                self.warning = None
                return self.say(part(item, "text"), new=True)
            case "item.completed":
                self._on_done(item)
            case "turn.completed":
                self.ended, self.failure = True, None
                self.told(
                    tokens_input=count(event, "usage", "input_tokens"),
                    tokens_output=count(event, "usage", "output_tokens"),
                    tokens_cache_read=count(event, "usage", "cached_input_tokens") or None,
                    tokens_cache_write=count(event, "usage", "cache_write_input_tokens") or None,
                    tokens_reasoning=count(event, "usage", "reasoning_output_tokens") or None,
                )
            case "turn.failed":
                self.failure = words(event, "error", "message") or "the turn failed"
            case "error":
                self._on_error(words(event, "message"))
        return []

    def _on_error(self, said: str | None) -> None:
        # It may still be trying: only the end of the turn, or of the program, decides.
        if said and said.startswith("Reconnecting"):
            self.retried("error", said)
        else:
            self.warning = said

    def _on_call(self, item: object) -> None:
        kind = words(item, "type")
        if kind == "command_execution":
            self.activities.note(TOOL_CALL, kind, words(item, "command") or "")
        elif kind in ("mcp_tool_call", "collab_tool_call", "web_search"):
            name = words(item, "tool") or kind
            self.activities.note(TOOL_CALL, name, words(item, "query") or about(part(item, "arguments")))

    def _on_done(self, item: object) -> None:
        kind, status = words(item, "type"), words(item, "status")
        if kind == "command_execution" and status == "declined":
            self.activities.note(DENIED, kind, words(item, "command") or "")
        if kind != "file_change":
            return
        changes = part(item, "changes")
        for change in changes if isinstance(changes, list) else []:
            done = FILE_CHANGE if status == "completed" else DENIED
            self.activities.note(done, kind, words(change, "path") or "")

    def end(self, exit_code: int | None, stderr: bytes = b"") -> Outcome:
        """Judge the call; stderr tells what its sandbox refused."""
        for said in _REJECTED.findall(stderr):
            self.activities.note(DENIED, "file_change", said.decode("utf-8", "replace"))
        return super().end(exit_code, stderr)
