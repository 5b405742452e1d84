"""What tools answer with: documents that fit into a model's window, each text with who wrote it. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from maestro_state.models.message import Event, Message

#: Longest text of a message or an event in an answer, in characters.
TEXT_MAX = 16_000
#: Most of a run's output in an answer, in bytes.
OUTPUT_MAX = 16 * 1024
#: Longest content of one context item in an answer, in characters; the resource has it whole.
CONTENT_MAX = 64_000
#: After so many characters of events an answer ends; the cursor goes on from there.
EVENTS_MAX = 64_000
#: Longest of anything else that is said with a message, in characters of JSON.
FIELD_MAX = 2_000
#: Most characters of messages in an answer: of more, long ones are cut shorter, to this at the least.
MESSAGES_MAX, SHORTEST = 64_000, 250


def message_documents(messages: list[Message], owner: str) -> list[dict[str, Any]]:
    """Return messages as `messages` prints them, all together no more than a model can take."""
    sizes, most = [len(one.content) for one in messages], TEXT_MAX
    while most > SHORTEST and sum(min(size, most) for size in sizes) > MESSAGES_MAX:
        most //= 2
    return [message_document(one, owner, most) for one in messages]


def message_document(message: Message, owner: str, most: int = TEXT_MAX) -> dict[str, Any]:
    """Return a message as `messages` prints it, and what wrote it: of the session's owner it is not stored."""
    document = {name: bounded(value, min(most, FIELD_MAX)) for name, value in message.document().items()}
    document["content"] = clip(message.content, most)
    document["source"] = source_of(message.user or owner, message.metadata)
    return document


def source_of(user: str | None, metadata: dict[str, Any] | None) -> dict[str, Any]:
    """Say who wrote a text: a person, and the tool, run or client by which it came."""
    known = {name: (metadata or {}).get(name) for name in ("tool", "model", "run", "client")}
    return {name: value for name, value in {"user": user, **known}.items() if value}


def event_document(event: Event) -> dict[str, Any]:
    """Return an event as `watch --json` prints it, its texts cut to what a model can take."""
    document = event.document()
    document["data"] = {name: bounded(value, TEXT_MAX) for name, value in event.data.items() if name != "base64"}
    return document


def bounded(value: Any, most: int) -> Any:
    """Return what a document holds; a text that is too long cut, and so is anything else, as text."""
    if isinstance(value, dict | list) and len(text := msgspec.json.encode(value).decode()) > most:
        value = text
    return clip(value, most) if isinstance(value, str) else value


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
