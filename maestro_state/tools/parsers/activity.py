"""What an agent does beside answering, as its stream tells: calls of its tools, files it changed, tries, refusals."""

from __future__ import annotations

from typing import Any

import msgspec

from maestro_state.models.run import Activity

TOOL_CALL, FILE_CHANGE, RETRY, DENIED = "tool_call", "file_change", "retry", "denied"

#: Longest summary and name, in characters.
SUMMARY_MAX = 200
NAME_MAX = 80

#: Most that is kept of one call; an agent that does more is not looked at for each of them.
ACTIVITIES_MAX = 2000

#: What says best what a call is about, in the words the tools use, the best first.
_TELLING = ("command", "cmd", "file_path", "filePath", "path", "absolute_path", "notebook_path", "pattern", "query",
            "url", "prompt", "description")  # fmt: skip
_PATHS = ("file_path", "filePath", "path", "absolute_path", "notebook_path")


class Activities:
    """Collects what one call's stream tells; bounded."""

    def __init__(self) -> None:
        self._waiting: list[Activity] = []
        self._count = 0
        self.denied: list[str] = []  #: what was refused, each in a few words

    def note(self, kind: str, name: str, summary: str) -> None:
        """Take one thing the agent did."""
        self._count += 1
        if self._count > ACTIVITIES_MAX:
            return
        if self._count == ACTIVITIES_MAX:
            summary = f"{summary}; what it did after that is not kept"
        if kind == DENIED:
            self.denied.append(f"{name} {summary}".strip())
        self._waiting.append(Activity(kind, one_line(name, NAME_MAX) or kind, one_line(summary, SUMMARY_MAX)))

    def take(self) -> list[Activity]:
        """Return what is new."""
        taken, self._waiting = self._waiting, []
        return taken


def one_line(text: str, limit: int) -> str:
    """Bring a text into one line of bearable length, without control characters."""
    text = " ".join("".join(char if char.isprintable() else " " for char in text[: 4 * limit]).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def about(arguments: Any) -> str:
    """Say in one line what a call of a tool is about."""
    if not isinstance(arguments, dict) or not arguments:
        return ""
    for name in _TELLING:
        value = arguments.get(name)
        if isinstance(value, str) and value:
            return value
        if isinstance(value, list) and value:
            return " ".join(str(one) for one in value)
    return msgspec.json.encode(arguments).decode("utf-8", "replace")


def path_in(arguments: Any) -> str | None:
    """Return the file a call of a tool is about."""
    found = (arguments.get(name) for name in _PATHS) if isinstance(arguments, dict) else ()
    return next((one for one in found if isinstance(one, str) and one), None)
