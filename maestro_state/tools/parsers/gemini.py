"""Gemini CLI's stream-json: init, message, tool and result lines."""

from __future__ import annotations

import re
from typing import Any

from maestro_state.tools.parsers.activity import DENIED, FILE_CHANGE, TOOL_CALL, about, path_in
from maestro_state.tools.parsers.lines import JsonLines, count, part, words

#: What it says on stderr when it tries again, and why.
_RETRY = re.compile(rb"Attempt \d+ failed[^\n]{0,300}")

_WRITERS = frozenset({"write_file", "replace", "edit"})


class Stream(JsonLines):
    """Text from the model's messages, which come in pieces; numbers and verdict from the result line."""

    def __init__(self, tool: str, exit_codes: dict[int, str]) -> None:
        super().__init__(tool, exit_codes)
        self._in_message = False
        self._calls: dict[str, tuple[str, str | None]] = {}

    def on_event(self, event: dict[str, Any]) -> list[str]:
        """Take one line."""
        match event.get("type"):
            case "message":
                return self._on_message(event)
            case "init":
                model = words(event, "model")
                self.told(tool_session=words(event, "session_id"), model=None if model == "auto" else model)
            case "tool_use":
                self._on_call(event)
            case "tool_result":
                self._on_call_over(event)
            case "error":
                self.warning = words(event, "message")
            case "result":
                self._on_result(event)
        return []

    def on_stderr(self, line: bytes) -> None:
        """Notice that it tries again."""
        if found := _RETRY.search(line):
            self.retried("api_retry", found[0].decode("utf-8", "replace"))

    def _on_message(self, event: dict[str, Any]) -> list[str]:
        if event.get("role") not in ("assistant", "model"):
            return []
        texts = self.say(event.get("content"), new=not (self._in_message and event.get("delta") is True))
        self._in_message, self.warning = True, None
        return texts

    def _on_call(self, event: dict[str, Any]) -> None:
        self._in_message = False
        name, arguments = words(event, "tool_name") or "", part(event, "parameters")
        self.activities.note(TOOL_CALL, name, about(arguments))
        if (call_id := words(event, "tool_id")) and len(self._calls) < 1000:
            self._calls[call_id] = (name, path_in(arguments) if name in _WRITERS else None)

    def _on_call_over(self, event: dict[str, Any]) -> None:
        self._in_message = False
        name, path = self._calls.pop(words(event, "tool_id") or "", ("", None))
        if event.get("status") == "success":
            if path:
                self.activities.note(FILE_CHANGE, name, path)
            return
        said = words(event, "error", "message") or words(event, "output") or ""
        if any(word in said.lower() for word in ("denied", "not allowed", "requires user confirmation", "policy")):
            self.activities.note(DENIED, name, path or said)

    def _on_result(self, event: dict[str, Any]) -> None:
        self.ended = True
        stats = part(event, "stats")
        self.told(
            model=_answering(part(stats, "models")),
            tokens_input=count(stats, "input_tokens"),
            tokens_output=count(stats, "output_tokens"),
            tokens_cache_read=count(stats, "cached") or None,
        )
        if event.get("status") != "success":
            self.failure = words(event, "error", "message") or self.warning or "it ended in an error"


def _answering(models: object) -> str | None:
    """Return the model that answered: the one that said most. Its router comes first and says little."""
    if not isinstance(models, dict) or not models:
        return None
    said = [(count(numbers, "output_tokens") or 0, at, str(name)) for at, (name, numbers) in enumerate(models.items())]
    return max(said)[2]
