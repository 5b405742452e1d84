"""Qwen Code's stream-json: Claude's shape with two differences. Its input counts include what was cached, and an API
error arrives as a success whose text says so.
"""

from __future__ import annotations

from typing import Any

from maestro_state.tools.parsers import claude
from maestro_state.tools.parsers.lines import count, words


class Stream(claude.Stream):
    """Claude's reader, corrected."""

    def _on_result(self, event: dict[str, Any]) -> list[str]:
        texts = super()._on_result(event)
        self.told(tokens_input=count(event, "usage", "input_tokens"))
        said = words(event, "result")
        if self.failure is None and said and said.lstrip().startswith("[API Error"):
            self.failure = said.strip()
        return texts
