"""opencode's `run --format json`: steps with text, tools and counts of their own."""

from __future__ import annotations

from typing import Any

from maestro_state.catalog.streams.lines import JsonLines, count, money, part, total, words


class Stream(JsonLines):
    """Text from text events; numbers summed over steps; done when the last step finished for good."""

    terminal = "step_finish"

    def on_event(self, event: dict[str, Any]) -> list[str]:
        """Take one line."""
        self.told(tool_session=words(event, "sessionID"))
        match event.get("type"):
            case "step_start":
                self.ended = False
            case "text":
                return self.say(part(event, "part", "text"), new=True)
            case "error":
                name, told = words(event, "error", "name"), words(event, "error", "data", "message")
                status = count(event, "error", "data", "statusCode")
                said = told or (f"the API answered {status}" if status else None)
                self.failure = ": ".join(one for one in (name, said) if one) or "it ended in an error"
            case "step_finish":
                self._on_step(part(event, "part"))
        return []

    def _on_step(self, step: object) -> None:
        # A step that ends to call tools is followed by another one.
        self.ended = words(step, "reason") != "tool-calls"
        tokens = part(step, "tokens")
        read, written = count(tokens, "cache", "read"), count(tokens, "cache", "write")
        cost = money(step, "cost")
        self.told(
            tokens_input=total(self.usage.tokens_input, count(tokens, "input"), read, written),
            tokens_output=total(self.usage.tokens_output, count(tokens, "output"), count(tokens, "reasoning")),
            cost=None if cost is None else (self.usage.cost or 0.0) + cost,
        )
