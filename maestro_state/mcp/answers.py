"""What tools answer with: documents that fit into a model's window, each text with who wrote it. Pure."""

from __future__ import annotations

from typing import Any

from maestro_state.models.message import Event, Message

#: Longest text of a message or an event in an answer, in characters.
TEXT_MAX = 16_000
#: Most of a run's output in an answer, in bytes.
OUTPUT_MAX = 16 * 1024
#: Longest content of one context item in an answer, in characters; the resource has it whole.
CONTENT_MAX = 64_000
#: After so many characters of events an answer ends; the cursor goes on from there.
EVENTS_MAX = 64_000


def message_document(message: Message) -> dict[str, Any]:
    """Return a message as `messages` prints it, and what wrote it."""
    document = message.document()
    document["content"] = clip(message.content, TEXT_MAX)
    if source := source_of(message.user, message.metadata):
        document["source"] = source
    return document


def source_of(user: str | None, metadata: dict[str, Any] | None) -> dict[str, Any]:
    """Say who wrote a text: a person, and the tool, run or client by which it came."""
    known = {name: (metadata or {}).get(name) for name in ("tool", "model", "run", "client")}
    return {name: value for name, value in {"user": user, **known}.items() if value}


def event_document(event: Event) -> dict[str, Any]:
    """Return an event as `watch --json` prints it, its texts cut to what a model can take."""
    document = event.document()
    document["data"] = {
        name: clip(value, TEXT_MAX) if isinstance(value, str) else value
        for name, value in event.data.items()
        if name != "base64"
    }
    return document


def clip(text: str, most: int) -> str:
    """Leave out the middle of a text that is too long, and say how much."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters left out …]\n{text[-half:]}"


class Tail:
    """The end of what comes in pieces, however much that is."""

    def __init__(self, most: int = OUTPUT_MAX) -> None:
        """Keep at most so many bytes."""
        self._most = most
        self._kept = b""

    def add(self, piece: bytes) -> None:
        """Take the next piece."""
        self._kept = (self._kept + piece)[-self._most :]

    def text(self) -> str:
        """Return it as text of at most so many bytes; a character that was cut in two is left out."""
        start = next((at for at in range(min(4, len(self._kept))) if self._kept[at] & 0xC0 != 0x80), 0)
        text = self._kept[start:].decode(errors="replace")
        return text.encode()[-self._most :].decode(errors="ignore")
