"""Messages and events of a session as values, and the ids that order them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from maestro_state.clock import iso

if TYPE_CHECKING:
    from maestro_state.models.session import SessionSummary

#: Who may speak in a message.
ROLES = ("user", "assistant", "system", "tool")


class Message(msgspec.Struct, frozen=True, gc=False):
    """One message. Its time is in its id, so it is not stored twice."""

    id: str
    role: str
    content: str
    metadata: dict[str, Any] | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_results: list[dict[str, Any]] | None = None
    parent_id: str | None = None
    user: str | None = None
    content_ref: str | None = None  #: where the whole content is, when this is only an excerpt
    retracted_at: str | None = None  #: since when it is no longer handed out; it stays in the record

    @property
    def timestamp(self) -> str:
        """When it was said."""
        return id_time(self.id)

    def document(self) -> dict[str, Any]:
        """Return the message as it is printed and archived."""
        always = {"id": self.id, "role": self.role, "content": self.content, "timestamp": self.timestamp}
        return always | self.parts()

    def parts(self) -> dict[str, Any]:
        """Return what not every message has."""
        rest = ("metadata", "tool_calls", "tool_results", "parent_id", "user", "content_ref", "retracted_at")
        return {name: value for name in rest if (value := getattr(self, name)) is not None}


class Event(msgspec.Struct, frozen=True):
    """One thing that happened, as followers see it."""

    id: str
    type: str
    data: dict[str, Any]

    @property
    def ts(self) -> str:
        """When it happened."""
        return id_time(self.id)

    def output(self) -> bytes:
        """Return what a run printed, byte for byte, from a `run.output`."""
        from base64 import b64decode

        return b64decode(self.data["base64"]) if "base64" in self.data else str(self.data["text"]).encode()

    def document(self) -> dict[str, Any]:
        """Return the event as `watch --json` prints it."""
        return {"id": self.id, "ts": self.ts, "type": self.type, "data": self.data}


class Changed(NamedTuple):
    """That a session's row of the list changed."""

    id: str  #: its place in the order of all changes
    session_id: str
    row: SessionSummary | None  #: as it is now; None when the server has the session no longer


def with_retractions(messages: list[Message], retracted: Mapping[str, int]) -> list[Message]:
    """Mark what was taken back; `retracted` has ids, and `..id` for all messages up to that one, with when it was."""
    if not retracted:
        return messages
    spans = sorted((id_order(name[2:]), at) for name, at in retracted.items() if name.startswith("..") and name != "..")

    def taken_back(message: Message) -> int | None:
        times = [at for until, at in spans if id_order(message.id) <= until]
        return min((*times, retracted[message.id]) if message.id in retracted else times, default=None)

    marked = ((message, taken_back(message)) for message in messages)
    return [one if at is None else msgspec.structs.replace(one, retracted_at=iso(at)) for one, at in marked]


def id_time(entry_id: str) -> str:
    """Return the time a stream id carries."""
    return iso(int(entry_id.split("-", 1)[0]))


def id_order(entry_id: str) -> tuple[int, int]:
    """Return a stream id as something that sorts."""
    ms, _, seq = entry_id.partition("-")
    return int(ms), int(seq or 0)
