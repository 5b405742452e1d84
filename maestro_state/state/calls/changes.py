"""Calls on the list of changes: which sessions' rows changed, in the order they did. For who follows all of them."""

from __future__ import annotations

from typing import Any, NamedTuple

from maestro_state.state.calls.index import session_ids
from maestro_state.state.calls.replies import word_of
from maestro_state.state.calls.terms import Terms
from maestro_state.state.scripts import Call, Query, load

#: Changes that are read at a time.
PAGE = 500


class Change(NamedTuple):
    """That a session's row changed."""

    id: str  #: its place in the order of changes
    session_id: str
    is_gone: bool = False  #: the row went


def read_changes(terms: Terms, after: str, wait_ms: int | None = None) -> tuple[Any, ...]:
    """Return the command that reads what changed after an id; waiting for it if told."""
    block = () if wait_ms is None else ("BLOCK", wait_ms)
    return ("XREAD", "COUNT", PAGE, *block, "STREAMS", *terms.keys.change, after)


def changes_of(reply: Any) -> list[Change]:
    """Read what that command answers."""
    return _changes(reply[0][1]) if reply else []


def end_of(reply: Any) -> str:
    """Return the place behind everything that such an answer has."""
    place: str = reply[0][1][-1][0].decode()
    return place


def _changes(entries: list[Any]) -> list[Change]:
    found = []
    for entry_id, fields in entries:
        for session_id in session_ids(fields[1::2][:1]):
            found.append(Change(entry_id.decode(), session_id, is_gone=b"gone" in fields[2::2]))
    return found


def changes_since(terms: Terms, since_ms: int) -> Query:
    """Read what changed since a moment, as far as it is kept."""
    return Query(("XRANGE", *terms.keys.change, since_ms, "+"), _changes)


def last_change(terms: Terms) -> Query:
    """Read the place of the newest change; `0-0` when there is none."""
    command = ("XREVRANGE", *terms.keys.change, "+", "-", "COUNT", 1)
    return Query(command, lambda reply: reply[0][0].decode() if reply else "0-0")


def first_change(terms: Terms) -> Query:
    """Read the place of the oldest change that is kept; None when there is none."""
    command = ("XRANGE", *terms.keys.change, "-", "+", "COUNT", 1)
    return Query(command, lambda reply: reply[0][0].decode() if reply else None)


def note_change(terms: Terms, session_id: str | bytes, life_ms: int, *, is_gone: bool = False) -> Call:
    """Tell that a session's row changed, or went. That it went is told once, however often it is sent."""
    args = (session_id, life_ms, int(is_gone))
    return Call(load("note_change"), terms.keys.change, args, word_of)
