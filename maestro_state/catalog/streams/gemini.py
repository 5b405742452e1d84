"""Gemini CLI's stream-json: init, message, tool and result lines."""

from __future__ import annotations

from typing import Any

from maestro_state.catalog.streams.lines import JsonLines, count, part, words


class Stream(JsonLines):
    """Text from the model's messages, which come in pieces; numbers and verdict from the result line."""

    def __init__(self, tool: str, exit_codes: dict[int, str]) -> None:
        """Start before the first byte."""
        super().__init__(tool, exit_codes)
        self._in_message = False

    def on_event(self, event: dict[str, Any]) -> list[str]:
        """Take one line."""
        match event.get("type"):
            case "message":
                return self._on_message(event)
            case "init":
                self.told(tool_session=words(event, "session_id"), model=words(event, "model"))
            case "tool_use" | "tool_result":
                self._in_message = False
            case "error":
                self.warning = words(event, "message")
            case "result":
                self._on_result(event)
        return []

    def _on_message(self, event: dict[str, Any]) -> list[str]:
        if event.get("role") not in ("assistant", "model"):
            return []
        texts = self.say(event.get("content"), new=not (self._in_message and event.get("delta") is True))
        self._in_message = True
        return texts

    def _on_result(self, event: dict[str, Any]) -> None:
        self.ended = True
        stats = part(event, "stats")
        models = part(stats, "models")
        self.told(
            model=next(iter(models), None) if isinstance(models, dict) else None,
            tokens_input=count(stats, "input_tokens"),
            tokens_output=count(stats, "output_tokens"),
        )
        if event.get("status") != "success":
            self.failure = words(event, "error", "message") or self.warning or "it ended in an error"
