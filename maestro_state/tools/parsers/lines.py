"""What all JSON streams share: whole lines from torn bytes, objects from lines, and a fair judgement at the end.

A line that is no JSON object is kept (a little of it) for the error text only: tools print their last words that way.
A line longer than LINE_MAX is dropped whole, so that memory stays bounded whatever a tool prints.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import Any

import msgspec

from maestro_state.models.run import Activity, Usage
from maestro_state.models.undecodable import UNDECODABLE
from maestro_state.tools.outcome import ERROR, SUCCESS, Outcome
from maestro_state.tools.parsers.activity import RETRY, Activities

#: Longest line that is read, in bytes: above any answer, far below what memory holds.
LINE_MAX = 32 * 1024 * 1024

#: How much of what is no JSON is kept for the error text, in bytes.
NOISE_MAX = 2000

#: Longest line of stderr that is looked at, in bytes.
STDERR_LINE_MAX = 4096

#: Longest error text, in characters.
ERROR_MAX = 500


class JsonLines(ABC):
    """Reads JSON objects line by line; a tool's own class says what each means."""

    #: The event without which no call is a success, as the error text names it.
    terminal = "result"

    def __init__(self, tool: str, exit_codes: dict[int, str]) -> None:
        self._tool = tool
        self._exit_codes = exit_codes
        self._parts: list[bytes] = []
        self._size = 0
        self._dropping = False
        self._noise = b""
        self._spoken = False
        self._text_ended = True
        self.ended = False  #: the terminal event was seen
        self.failure: str | None = None  #: what the tool itself said went wrong
        self.warning: str | None = None  #: what it said last about trouble that it had not given up on
        self.usage = Usage()
        self.activities = Activities()
        self._stderr_rest = b""

    @property
    def so_far(self) -> Usage:
        """Return what the tool has consumed until now, as far as it told."""
        return self.usage

    @abstractmethod
    def on_event(self, event: dict[str, Any]) -> list[str]:
        """Take one object and return the texts for people in it."""

    def feed(self, data: bytes) -> list[str]:
        """Take the next bytes and return the texts for people in them."""
        texts: list[str] = []
        *whole, rest = data.split(b"\n")
        for piece in whole:
            self._keep(piece)
            texts += self._line()
        self._keep(rest)
        return texts

    def hear(self, data: bytes) -> None:
        """Take the next bytes of stderr, where some tools say what their stream does not."""
        *lines, rest = (self._stderr_rest + data).split(b"\n")
        for line in lines:
            self.on_stderr(line[:STDERR_LINE_MAX])
        self._stderr_rest = rest[-STDERR_LINE_MAX:]

    def on_stderr(self, line: bytes) -> None:
        """Take one line of stderr; most tools say nothing there that their stream does not."""
        del line

    def is_noise(self, line: bytes) -> bool:
        """Tell whether a line of stderr says nothing to people: brackets, or where in a program something happened."""
        line = line.strip(b" \t\r{}[]();,")
        return not line or line.startswith(b"at ")

    def retried(self, name: str, reason: str) -> None:
        """Note that the tool tries again, and why: if it is ended meanwhile, that is the reason."""
        self.warning = reason
        self.activities.note(RETRY, name, reason)

    def take_activities(self) -> list[Activity]:
        """Return what the agent did since this was asked last."""
        return self.activities.take()

    def end(self, exit_code: int | None, stderr: bytes = b"") -> Outcome:
        """Judge the call: success only with the terminal event, whatever the exit code says."""
        texts = self._line()
        if self._spoken and not self._text_ended:
            texts.append("\n")
        self.hear(b"\n")
        stderr = b"\n".join(line for line in stderr.splitlines() if not self.is_noise(line))
        error = self._error(exit_code, stderr)
        return Outcome(
            status=ERROR if error else SUCCESS,
            error=error,
            usage=self.usage,
            text="".join(texts),
            trouble=None if self.warning is None else shorten(self.warning),
            last_words=last_line(stderr)[:ERROR_MAX],
            denied=tuple(self.activities.denied),
        )

    def told(self, **values: Any) -> None:
        """Record what the tool told about itself; a value it did not tell leaves the one before."""
        self.usage = msgspec.structs.replace(
            self.usage, **{name: value for name, value in values.items() if value is not None}
        )

    def say(self, text: object, *, new: bool = False) -> list[str]:
        """Return a text for people; a `new` one starts a paragraph of its own."""
        if not isinstance(text, str) or not text:
            return []
        # A lone surrogate, which JSON can spell, has no bytes.
        text = text.encode("utf-8", "replace").decode()
        if new and self._spoken:
            text = ("\n" if self._text_ended else "\n\n") + text
        self._spoken, self._text_ended = True, text.endswith("\n")
        return [text]

    @property
    def has_spoken(self) -> bool:
        """Tell whether there was any text yet."""
        return self._spoken

    def _keep(self, piece: bytes) -> None:
        if self._dropping or not piece:
            return
        self._size += len(piece)
        if self._size > LINE_MAX:
            self._dropping = True
            self._parts.clear()
        else:
            self._parts.append(piece)

    def _line(self) -> list[str]:
        """Read the line that is complete now."""
        line, dropped = b"".join(self._parts).strip(), self._dropping
        self._parts.clear()
        self._size, self._dropping = 0, False
        if dropped:
            self.warning = f"{self._tool} printed a line of more than {LINE_MAX} bytes, which was not read"
            return []
        if not line:
            return []
        event = decode(line)
        if event is None:
            self._noise = (self._noise + line + b"\n")[-NOISE_MAX:]
            return []
        return self.on_event(event)

    def _error(self, exit_code: int | None, stderr: bytes) -> str | None:
        if self.failure is not None:
            return shorten(f"{self._tool}: {self.failure}")
        if self.ended and exit_code in (0, None):
            return None
        reason = self._exit_codes.get(exit_code, "") if exit_code is not None else ""
        if self.ended:
            said = reason or last_line(stderr)
            return shorten(f"{self._tool} ended with exit code {exit_code}{f': {said}' if said else ''}")
        said = reason or last_line(self._noise) or last_line(stderr) or self.warning or ""
        how = "was killed" if exit_code is None else f"ended with exit code {exit_code}"
        return shorten(f"{self._tool} {how} without its {self.terminal} event{f': {said}' if said else ''}")


def decode(line: bytes) -> dict[str, Any] | None:
    """Return the object in a line, None when there is none."""
    if not line.startswith(b"{"):
        return None
    try:
        event = msgspec.json.decode(line)
    except UNDECODABLE:
        # The strict reader refuses broken UTF-8 and lone surrogates; what a model said is worth a second look.
        try:
            event = json.loads(line.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            return None
    return event if isinstance(event, dict) else None


def part(event: object, *path: str) -> Any:
    """Return what lies at a path of objects, None where the path ends early."""
    for name in path:
        if not isinstance(event, dict):
            return None
        event = event.get(name)
    return event


def words(event: object, *path: str) -> str | None:
    """Return the text at a path, None when there is none."""
    found = part(event, *path)
    return found if isinstance(found, str) and found else None


def count(event: object, *path: str) -> int | None:
    """Return the counter at a path, None when there is none."""
    found = part(event, *path)
    return found if isinstance(found, int) and not isinstance(found, bool) and 0 <= found < 2**53 else None


def money(event: object, *path: str) -> float | None:
    """Return the amount at a path, None when there is none."""
    found = part(event, *path)
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found < 1e12:
        return None
    return float(found)


def total(*counts: int | None) -> int | None:
    """Add up counters, None when there is none of them."""
    known = [one for one in counts if one is not None]
    return sum(known) if known else None


def last_line(data: bytes) -> str:
    """Return the last line that says something."""
    lines = [line.strip() for line in data.decode("utf-8", "replace").splitlines()]
    return next((line for line in reversed(lines) if line), "")


def shorten(text: str) -> str:
    """Bring an error text into one line of bearable length."""
    text = " ".join(text.encode("utf-8", "replace").decode().split())
    return text if len(text) <= ERROR_MAX else text[: ERROR_MAX - 1] + "…"
