"""Claude Code's stream-json: system, assistant, user and result lines; the keys come in any order."""

from __future__ import annotations

from typing import Any

import msgspec

from maestro_state.catalog.streams.lines import JsonLines, count, money, part, total, words
from maestro_state.contents import Usage


class Stream(JsonLines):
    """Text from assistant lines, numbers and verdict from the result line."""

    def __init__(self, tool: str, exit_codes: dict[int, str]) -> None:
        """Start before the first byte."""
        super().__init__(tool, exit_codes)
        self._before, self._answer = Usage(), Usage()
        self._answer_id: str | None = None

    @property
    def so_far(self) -> Usage:
        """Return what the answers until now have counted; the result line counts better."""
        return self.usage if self.ended else _sum(self.usage, self._before, self._answer)

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
        # Its usage is that of the first byte of the answer: the counts that stay are taken from the result line.
        self.told(model=words(event, "message", "model"))
        if (answer_id := words(event, "message", "id")) != self._answer_id:
            # One answer comes in several lines, each with the count of all of them.
            self._before, self._answer_id = _sum(Usage(), self._before, self._answer), answer_id
        usage = part(event, "message", "usage")
        self._answer = Usage(tokens_input=_sent(usage), tokens_output=count(usage, "output_tokens"))
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
            tokens_input=_sent(usage),
            tokens_output=count(usage, "output_tokens"),
            cost=money(event, "total_cost_usd"),
        )
        said = words(event, "result")
        if event.get("is_error") is True or event.get("subtype") not in (None, "success"):
            self.failure = said or words(event, "subtype") or "it ended in an error"
            return []
        return [] if self.has_spoken else self.say(said)


def _sent(usage: Any) -> int | None:
    """Return how many tokens were sent: what was read from or written to its cache was sent too."""
    names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    return total(*(count(usage, name) for name in names))


def _sum(known: Usage, *parts: Usage) -> Usage:
    """Return what is known with the tokens of all parts."""
    return msgspec.structs.replace(
        known,
        tokens_input=total(*(one.tokens_input for one in parts)),
        tokens_output=total(*(one.tokens_output for one in parts)),
    )
