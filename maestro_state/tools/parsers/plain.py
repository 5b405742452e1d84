"""A tool that prints plain text: its stdout is the output, its exit code the verdict."""

from __future__ import annotations

import codecs

from maestro_state.models.run import Activity, Usage
from maestro_state.tools.outcome import ERROR, SUCCESS, Outcome
from maestro_state.tools.parsers.lines import ERROR_MAX, last_line, shorten


class Stream:
    """Turns bytes into text for the screen; the bytes themselves are what is kept."""

    def __init__(self, tool: str, exit_codes: dict[int, str]) -> None:
        self._tool = tool
        self._exit_codes = exit_codes
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def so_far(self) -> Usage:
        """Return nothing: plain text tells no numbers."""
        return Usage()

    def feed(self, data: bytes) -> list[str]:
        """Return the text in the next bytes; a character torn between two reads comes with the second."""
        text = self._decoder.decode(data)
        return [text] if text else []

    def hear(self, data: bytes) -> None:
        """Pass over stderr: its end is looked at when the tool has ended."""

    def take_activities(self) -> list[Activity]:
        """Return nothing: plain text tells of no calls."""
        return []

    def end(self, exit_code: int | None, stderr: bytes = b"") -> Outcome:
        """Judge the call by its exit code."""
        rest = self._decoder.decode(b"", final=True)
        if exit_code == 0:
            return Outcome(status=SUCCESS, text=rest, last_words=last_line(stderr)[:ERROR_MAX])
        said = self._exit_codes.get(exit_code, "") if exit_code is not None else ""
        said = said or last_line(stderr)
        how = "was killed" if exit_code is None else f"ended with exit code {exit_code}"
        error = shorten(f"{self._tool} {how}{f': {said}' if said else ''}")
        return Outcome(status=ERROR, error=error, text=rest, last_words=last_line(stderr)[:ERROR_MAX])
