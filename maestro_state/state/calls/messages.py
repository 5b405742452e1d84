"""Calls on messages: append, last N, since. The hot path: one script to write, one range to read."""

from __future__ import annotations

from typing import Any

import msgspec

from maestro_state.errors import InvalidValue
from maestro_state.models.message import ROLES, Message, id_order
from maestro_state.models.names import is_stream_id
from maestro_state.state.calls.replies import accept
from maestro_state.state.calls.terms import Stamp, Terms
from maestro_state.state.calls.values import json_bytes
from maestro_state.state.scripts import Call, Query, load

#: Optional parts of a message that are stored as JSON.
_JSON_PARTS = {"metadata": dict, "tool_calls": list, "tool_results": list}

#: Optional parts that are stored as they are → their names in a message.
_TEXT_PARTS = {"by": "user", "parent_id": "parent_id", "content_ref": "content_ref"}

#: Roles as they are stored. What is none of them was written by nobody of ours, and is not guessed at.
_ROLES = {role.encode(): role for role in ROLES}

_decode = msgspec.json.decode


def add_message(terms: Terms, stamp: Stamp, session_id: str, role: str, content: str, parts: dict[str, Any]) -> Call:
    """Append a message; `parts` may hold metadata, tool_calls, tool_results, parent_id."""
    fields, size = message_parts(role, content, parts)
    if size > terms.max_value_bytes:
        raise InvalidValue(f"the message is {size} bytes; at most {terms.max_value_bytes} are kept")
    args = (stamp.idempotency_key, stamp.now_ms, terms.grace_ms, terms.user, *fields)
    return Call(load("add_message"), terms.keys.session(session_id), args,
                lambda reply: accept(reply, session_id, "adding a message"))  # fmt: skip


def message_parts(role: str, content: str, parts: dict[str, Any]) -> tuple[list[Any], int]:
    """Return a message as its stream stores it, and its size."""
    if role not in ROLES:
        raise InvalidValue(f"'{role[:40]}' is not a role", hint=f"one of {', '.join(ROLES)}")
    try:
        stored = content.encode()
    except UnicodeEncodeError as error:
        raise InvalidValue("the message is not valid Unicode text", hint="send UTF-8") from error
    fields: list[Any] = [role, stored]
    size = len(stored)
    for name, value in parts.items():
        if value is None:
            continue
        part = _part(name, value)
        size += len(part)
        fields += [name, part]
    return fields, size


def _part(name: str, value: Any) -> bytes:
    """Check one optional part and return it as stored."""
    if name == "parent_id":
        if not is_stream_id(value):
            raise InvalidValue(f"parent_id must be the id of a message, not {value!r:.40}")
        return str(value).encode()
    if not isinstance(value, _JSON_PARTS[name]):
        raise InvalidValue(f"{name} must be a JSON {'object' if name == 'metadata' else 'list of objects'}")
    if name == "tool_calls":
        _check_links(name, value, "id")
    if name == "tool_results":
        _check_links(name, value, "call_id")
    return json_bytes(name, value)


def _check_links(name: str, rows: list[Any], key: str) -> None:
    """See that every row carries the id by which call and result find each other."""
    for row in rows:
        if not isinstance(row, dict) or not isinstance(row.get(key), str) or not row[key]:
            raise InvalidValue(f"each of {name} needs a text '{key}': results name the id of their call")


def message_of(entry: list[Any]) -> Message:
    """Make a message from a stream entry: its content is always first, under its role; the rest as it was given."""
    entry_id, fields = entry
    if len(fields) == 2:
        return Message(entry_id.decode(), _ROLES[fields[0]], fields[1].decode())
    if len(fields) == 4 and fields[2] == b"metadata":  # as adapters write them by the thousand
        return Message(entry_id.decode(), _ROLES[fields[0]], fields[1].decode(), _decode(fields[3]))
    return Message(**message_values(entry))


def message_values(entry: list[Any]) -> dict[str, Any]:
    """Return what a stream entry says of a message, by name; what a later version adds is passed over."""
    entry_id, fields = entry
    if fields[0] == b"role":  # as first written: role and content were two fields, in this order
        fields = [fields[1], *fields[3:]]
    values: dict[str, Any] = {"id": entry_id.decode(), "role": _ROLES[fields[0]], "content": fields[1].decode()}
    for at in range(2, len(fields), 2):
        name = fields[at].decode()
        if name in _TEXT_PARTS:
            values[_TEXT_PARTS[name]] = fields[at + 1].decode()
        elif name in _JSON_PARTS:
            values[name] = _decode(fields[at + 1])
    return values


def stored_fields(message: Message) -> list[str]:
    """Return a message as its stream stores it."""
    fields = [message.role, message.content]
    for name in _JSON_PARTS:
        value = getattr(message, name)
        if value is not None:
            fields += [name, msgspec.json.encode(value).decode()]
    for name, part in _TEXT_PARTS.items():
        if text := getattr(message, part):
            fields += [name, text]
    return fields


def _newest_last(reply: list[Any]) -> list[Message]:
    return [message_of(entry) for entry in reversed(reply)]


def _in_order(reply: list[Any]) -> list[Message]:
    return [message_of(entry) for entry in reply]


def last_messages(terms: Terms, session_id: str, count: int, before: str | None = None) -> Query:
    """Read the last messages, or the last before one, oldest first. Costs what they cost, whatever lies around them."""
    if count < 1:
        raise InvalidValue("the number of messages must be at least 1")
    if before is not None and (not is_stream_id(before) or id_order(before) == (0, 0)):
        raise InvalidValue(f"'{before[:40]}' is not the id of a message")
    end = f"({before}" if before else "+"
    command = ("XREVRANGE", terms.keys.of_session(session_id, "messages"), end, "-", "COUNT", count)
    return Query(command, _newest_last)


def all_entries(terms: Terms, session_id: str) -> Query:
    """Read all messages as the stream stores them, for `message_of`."""
    return Query(("XRANGE", terms.keys.of_session(session_id, "messages"), "-", "+"), lambda reply: reply)


def messages_since(terms: Terms, session_id: str, since: str | None) -> Query:
    """Read the messages after an id, or all of them."""
    if since is not None and not is_stream_id(since):
        raise InvalidValue(f"'{since[:40]}' is not the id of a message")
    start = f"({since}" if since else "-"
    command = ("XRANGE", terms.keys.of_session(session_id, "messages"), start, "+")
    return Query(command, _in_order)


def read_retracted(terms: Terms, session_id: str) -> Query:
    """Read what was taken back, and when."""
    return Query(("HGETALL", terms.keys.of_session(session_id, "retracted")), retracted_of)


def retracted_of(reply: list[bytes]) -> dict[str, int]:
    """Make a table of what was taken back; the row `..` says again how far all of it was."""
    pairs = zip(reply[::2], reply[1::2], strict=True)
    return {name.decode(): int(at) for name, at in pairs if name != b".."}


def context_summary(terms: Terms, session_id: str) -> Query:
    """Read the summary as the system message it is handed over as; its id is where the messages after it begin."""

    def read(reply: list[bytes | None]) -> Message | None:
        summary, at = reply
        return Message(at.decode(), "system", summary.decode()) if summary and at else None

    session = terms.keys.of_session(session_id, "session")
    return Query(("HMGET", session, "context_summary", "at:context_summary"), read)
