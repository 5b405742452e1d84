"""Calls on the index that spans sessions: summaries to list from, deadlines, what is not on disk yet."""

from __future__ import annotations

from typing import Any

import msgspec

from maestro_state.clock import iso
from maestro_state.models import SessionSummary
from maestro_state.names import slug_of
from maestro_state.ops.replies import text
from maestro_state.ops.terms import Terms
from maestro_state.scripts import Call, Query, load
from maestro_state.states import SessionState, liveness


class IndexEntry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A summary as the index stores it; `last_id` first, because index_session.lua compares it."""

    last_id: str
    id: str
    state: str
    created_at: int
    last_activity: int
    ttl_ms: int
    user_id: str
    tool_active: str | None
    frozen_at: int | None
    archived_id: str | None


_decode = msgspec.json.Decoder(list[IndexEntry]).decode
_encode = msgspec.json.encode


def entry_of(session_id: str, summary: list[Any]) -> IndexEntry:
    """Read what includes/summary.lua answers."""
    last_id, state, created_at, last_activity, ttl_ms, user_id, tool, frozen_at, archived_id = summary
    return IndexEntry(
        last_id=text(last_id),
        id=session_id,
        state=text(state),
        created_at=int(created_at),
        last_activity=int(last_activity),
        ttl_ms=int(ttl_ms),
        user_id=text(user_id or b""),
        tool_active=text(tool) if tool else None,
        frozen_at=int(frozen_at) if frozen_at else None,
        archived_id=text(archived_id) if archived_id else None,
    )


def index_session(terms: Terms, entry: IndexEntry, *, is_on_disk: bool = False) -> Call:
    """Write a summary; an older one than the index has is dropped by the script.

    `is_on_disk` says that all but the newest changes were just written: those wait since now.
    """
    is_dirty = entry.last_id != entry.archived_id
    args = (
        entry.id,
        entry.last_id,
        _encode(entry),
        entry.last_activity,
        entry.last_activity + entry.ttl_ms,
        "anew" if is_dirty and is_on_disk else int(is_dirty),
        entry.ttl_ms + terms.grace_ms,
        int(entry.state == SessionState.RUNNING),
    )
    return Call(load("index_session"), terms.keys.index, args, lambda reply: text(reply[0]))


def read_summary(terms: Terms, session_id: str) -> Query:
    """Read what includes/summary.lua would answer; None when the session is gone, or not complete yet."""
    fields = ("last_id", "state", "created_at", "last_activity", "ttl_ms", "user_id", "tool_active", "frozen_at",
              "archived_id", "filling")  # fmt: skip
    command = ("HMGET", terms.keys.of_session(session_id, "session"), *fields)
    return Query(command, lambda reply: reply[:-1] if reply[0] and not reply[-1] else None)


def forget_session(terms: Terms, session_id: str) -> Call:
    """Take a session out of the index."""
    return Call(load("forget_session"), terms.keys.index, (session_id,), lambda reply: text(reply[0]))


def _entries(values: list[bytes | None]) -> list[IndexEntry]:
    # One decode for all rows: a tenth of the cost of decoding them one by one.
    return _decode(b"[" + b",".join(value for value in values if value) + b"]")


def all_sessions(terms: Terms) -> Query:
    """Read every summary, in no order. Grows with the number of sessions: one reply, one decode."""
    return Query(("HVALS", terms.keys.of_index("summaries")), _entries)


def running_sessions(terms: Terms) -> Query:
    """Read the ids of sessions with open runs; costs what those cost, however many sessions there are."""
    command = ("ZRANGE", terms.keys.of_index("running"), 0, -1)
    return Query(command, lambda reply: [text(session_id) for session_id in reply])


def count_sessions(terms: Terms) -> Query:
    """Ask how many sessions the index has."""
    return Query(("HLEN", terms.keys.of_index("summaries")), int)


def newest_sessions(terms: Terms, count: int) -> Call:
    """Read the summaries of the sessions last active, newest first, in one round trip."""
    return Call(load("newest_sessions"), terms.keys.index, (count,), lambda reply: _entries(reply[1]))


def summary_of(terms: Terms, entry: IndexEntry, now_ms: int, *, active: bool) -> SessionSummary:
    """Return one row of a list."""
    finalized = entry.frozen_at if entry.state == SessionState.FINALIZED else None
    return SessionSummary(
        id=entry.id,
        slug=slug_of(entry.id),
        state=entry.state,
        status=liveness(entry.state, entry.last_activity, entry.ttl_ms, terms.idle_after_ms, now_ms),
        created_at=iso(entry.created_at),
        updated_at=iso(entry.last_activity),
        finalized_at=iso(finalized) if finalized else None,
        user_id=entry.user_id,
        active=active,
        archived=False,
        orphan=False,
    )
