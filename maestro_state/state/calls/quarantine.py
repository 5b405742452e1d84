"""Calls on the list of what is damaged on the server, and on what repairing it needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from maestro_state.models.undecodable import UNDECODABLE
from maestro_state.state.calls.replies import text, word_of
from maestro_state.state.calls.terms import Terms
from maestro_state.state.keys import INDEX_KEYS, SESSION_KEYS
from maestro_state.state.scripts import Call, Query, load

#: The row of the index itself: a key of it was dropped, and sessions are missing there until a sweep looked at all.
INDEX = "index"
#: Rows kept, at most, and how long the list stays after the last one.
ROWS_MAX = 1000
LIFE_MS = 30 * 24 * 3600 * 1000
#: Longest reason kept.
_REASON_CHARS = 300


class Quarantined(msgspec.Struct, frozen=True):
    """One thing that is damaged."""

    id: str
    code: str  #: the error's
    reason: str
    seen_ms: int


class _Row(msgspec.Struct, frozen=True):
    code: str
    reason: str
    seen_ms: int


def note(terms: Terms, session_id: str, code: str, reason: str, now_ms: int) -> Call:
    """Note that something is damaged."""
    row = msgspec.json.encode(_Row(code, reason[:_REASON_CHARS], now_ms))
    args = (session_id, row, LIFE_MS, ROWS_MAX)
    return Call(load("quarantine_session"), terms.keys.quarantine, args, word_of)


def release(terms: Terms, session_ids: Sequence[str]) -> Call:
    """Take rows off the list."""
    return Call(load("release_session"), terms.keys.quarantine, tuple(session_ids), word_of)


def rows(terms: Terms) -> Query:
    """Read what is damaged; rows that are damaged themselves are left out."""

    def read(reply: list[bytes]) -> list[Quarantined]:
        found = []
        for name, value in zip(reply[::2], reply[1::2], strict=True):
            try:
                row = msgspec.json.decode(value, type=_Row)
                found.append(Quarantined(name.decode(), row.code, row.reason, row.seen_ms))
            except UNDECODABLE:
                continue
        return sorted(found, key=lambda one: one.id)

    return Query(("HGETALL", *terms.keys.quarantine), read)


def mend_index(keys: tuple[str, ...]) -> Call:
    """Drop what is of a wrong type in an index; returns how many keys that were."""
    types = tuple(key.type for key in INDEX_KEYS)
    return Call(load("mend_index"), keys, types, lambda reply: int(reply[1]))


def types_of(terms: Terms, session_id: str) -> list[tuple[Any, ...]]:
    """Return the commands that ask for the types of a session's keys, in table order."""
    return [("TYPE", key) for key in terms.keys.session(session_id)]


def wrong_keys(found: Sequence[Any]) -> list[str]:
    """Return the names of keys that are of another type than they should be."""
    pairs = zip(found, SESSION_KEYS, strict=True)
    return [key.name for kind, key in pairs if text(kind) not in ("none", key.type)]


def drop_keys(terms: Terms, session_id: str, names: Sequence[str]) -> Call:
    """Remove keys of a session by their names in the table."""
    return Call(load("drop_keys"), terms.keys.session(session_id), tuple(names), word_of)
