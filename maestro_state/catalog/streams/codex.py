"""Codex's `exec --json`: thread, turn and item events."""

from __future__ import annotations

from typing import Any

from maestro_state.catalog.streams.lines import JsonLines, count, part, words


class Stream(JsonLines):
    """Text from agent messages, numbers and verdict from the turn's end."""

    terminal = "turn.completed"

    def on_event(self, event: dict[str, Any]) -> list[str]:
        """Take one line."""
        match event.get("type"):
            case "thread.started":
                self.told(tool_session=words(event, "thread_id"))
            case "item.completed" if part(event, "item", "type") == "agent_message":
                return self.say(part(event, "item", "text"), new=True)
            case "turn.completed":
                self.ended, self.failure = True, None
                self.told(
                    tokens_input=count(event, "usage", "input_tokens"),
                    tokens_output=count(event, "usage", "output_tokens"),
                )
            case "turn.failed":
                self.failure = words(event, "error", "message") or "the turn failed"
            case "error":
                # It may still be trying: only the end of the turn, or of the program, decides.
                self.warning = words(event, "message")
        return []
