"""Reading what happened: one id space over all streams of a session, one cursor to follow them by."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import msgspec

from maestro_state.errors import InvalidValue, SessionNotFound
from maestro_state.models.message import Event, id_order
from maestro_state.models.names import is_stream_id
from maestro_state.models.session import Session
from maestro_state.state.calls.messages import message_values
from maestro_state.state.calls.terms import Terms
from maestro_state.state.keys import FOLLOWED
from maestro_state.state.scripts import Query

#: Entries read from each stream at a time: of a fast run's output, 32 MB.
PAGE = 64

#: The cursor before everything.
START = "0-0"


def check_cursor(cursor: str) -> str:
    """Return the id to read after; `start` is before everything."""
    if cursor == "start":
        return START
    if not is_stream_id(cursor):
        raise InvalidValue(f"'{cursor[:40]}' is not the id of an event", hint="--from start, or an id watch printed")
    return cursor


def started_event(session: Session, created_ms: int) -> Event:
    """Return the first event of every session: it is not stored, the record says all of it."""
    return Event(f"{created_ms}-0", "session.started", {"name": session.slug, "user": session.user_id})


def read_after(terms: Terms, session_id: str, cursor: str, block_ms: int | None, page: int = PAGE) -> tuple[Any, ...]:
    """Return the command that reads every stream of a session after the cursor, waiting if told."""
    keys = terms.keys.followed(session_id)
    wait = () if block_ms is None else ("BLOCK", block_ms)
    return ("XREAD", "COUNT", page, *wait, "STREAMS", *keys, *([cursor] * len(keys)))


def event_of(stream: str, entry: list[Any]) -> Event:
    """Make an event from an entry of one of the followed streams."""
    if stream == "messages":
        message = message_values(entry)
        return Event(message["id"], "message.added", message)
    if stream == "outputs":
        return _output_event(entry)
    fields = entry[1]
    data: dict[str, Any] = {fields[at].decode(): fields[at + 1].decode() for at in range(0, len(fields), 2)}
    kind = data.pop("type")
    if "by" in data:
        data["user"] = data.pop("by")
    if "end" in data:
        data |= msgspec.json.decode(data.pop("end"))
    return Event(entry[0].decode(), kind, data)


def _output_event(entry: list[Any]) -> Event:
    """Make an event of a chunk of output: its text, and its exact bytes where it is not all text."""
    fields = entry[1]
    run, chunk = fields[1].decode(), fields[3]
    try:
        data = {"run": run, "text": chunk.decode()}
    except UnicodeDecodeError:
        data = {"run": run, "text": chunk.decode(errors="replace"), "base64": b64encode(chunk).decode()}
    return Event(entry[0].decode(), "run.output", data)


def merge(terms: Terms, session_id: str, reply: list[Any] | None, page: int = PAGE) -> list[Event]:
    """Merge what XREAD answered into one order. A stream that filled its page may have more before the others' last
    entries, so everything after the end of a full page is left for the next read.
    """
    if not reply:
        return []
    streams = terms.keys.followed(session_id)
    events: list[Event] = []
    horizon: tuple[int, int] | None = None
    for key, entries in reply:
        stream = FOLLOWED[streams.index(key.decode())]
        events += [event_of(stream, entry) for entry in entries]
        if len(entries) == page:
            end = id_order(events[-1].id)
            horizon = end if horizon is None else min(horizon, end)
    if len(reply) == 1:
        return events  # one stream is in order, and nothing of another can come before it
    events.sort(key=lambda event: id_order(event.id))
    return [event for event in events if horizon is None or id_order(event.id) <= horizon]


def last_id(terms: Terms, session_id: str) -> Query:
    """Read the id of the newest event: the cursor of somebody who wants only what comes."""

    def read(reply: bytes | None) -> str:
        if reply is None:
            raise SessionNotFound(session_id)
        return reply.decode()

    return Query(("HGET", terms.keys.of_session(session_id, "session"), "last_id"), read)
