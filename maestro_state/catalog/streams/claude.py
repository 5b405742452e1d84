"""Claude Code's stream-json: system, assistant, user and result lines; the keys come in any order."""

from __future__ import annotations

from typing import Any

from maestro_state.catalog.streams.lines import JsonLines, count, money, part, total, words


class Stream(JsonLines):
    """Text from assistant lines, numbers and verdict from the result line."""

    def on_event(self, event: dict[str, Any]) -> list[str]:
        """Take one line."""
        self.told(tool_session=words(event, "session_id"))
        match event.get("type"):
            case "system":
                return self._on_system(event)
            case "assistant" if not event.get("parent_tool_use_id"):
                return self._on_assistant(event)
            case "result":
                return self._on_result(event)
        return []

    def _on_system(self, event: dict[str, Any]) -> list[str]:
        self.told(model=words(event, "model"))
        if event.get("subtype") == "api_retry":
            status = count(event, "error_status")
            self.warning = f"the API answered {status or 'nothing'}; it tried {count(event, 'attempt') or 0} times"
        return []

    def _on_assistant(self, event: dict[str, Any]) -> list[str]:
        # Its usage is that of the first byte of the answer: the counts are taken from the result line.
        self.told(model=words(event, "message", "model"))
        blocks = part(event, "message", "content")
        texts: list[str] = []
        for block in blocks if isinstance(blocks, list) else []:
            if part(block, "type") == "text":
                texts += self.say(part(block, "text"), new=True)
        return texts

    def _on_result(self, event: dict[str, Any]) -> list[str]:
        self.ended = True
        usage = part(event, "usage")
        self.told(
            # What was read from or written to its cache was sent too.
            tokens_input=total(
                count(usage, "input_tokens"),
                count(usage, "cache_read_input_tokens"),
                count(usage, "cache_creation_input_tokens"),
            ),
            tokens_output=count(usage, "output_tokens"),
            cost=money(event, "total_cost_usd"),
        )
        said = words(event, "result")
        if event.get("is_error") is True or event.get("subtype") not in (None, "success"):
            self.failure = said or words(event, "subtype") or "it ended in an error"
            return []
        return [] if self.has_spoken else self.say(said)
