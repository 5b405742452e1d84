"""The tools whose histories are read; each by its own module, imported when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Protocol, cast

from maestro_state.errors import InvalidValue
from maestro_state.histories.values import Conversation, Stamped

TOOLS = ("claude", "codex", "gemini", "qwen", "opencode", "llm")


class Reader(Protocol):
    """What a tool's module can do."""

    TOOL: str

    def roots(self, environment: Mapping[str, str], home: str) -> list[str]:
        """Return where it keeps its histories."""

    def files(self, path: str) -> Iterator[Stamped]:
        """Yield the histories below a folder, or a file."""

    def conversations(self, found: Stamped) -> Iterator[Conversation]:
        """Yield the conversations of a file, with those of their sub-agents."""


def reader_of(tool: str) -> Reader:
    """Return what reads a tool's histories."""
    if tool not in TOOLS:
        known = f"{', '.join(TOOLS)}, or a file: .json, .md, .zip"
        raise InvalidValue(f"'{tool[:40]}' keeps no history that is known here", hint=known)
    return cast(Reader, import_module(f"maestro_state.histories.{tool}"))
