"""Calls on the session record: start, read, freeze, delete, compare-and-set."""

from __future__ import annotations

from typing import Any

import msgspec

from maestro_state.clock import iso
from maestro_state.errors import InvalidValue, RunsOpen, SessionNotFound
from maestro_state.models.binding import Bound, pair_of
from maestro_state.models.names import slug_of
from maestro_state.models.run import ToolOptions
from maestro_state.models.schema import check
from maestro_state.models.session import SETTABLE, Counters, Field, Session, Stats
from maestro_state.state.calls.replies import accept, text, word_of
from maestro_state.state.calls.terms import Stamp, Terms
from maestro_state.state.calls.values import check_size, json_bytes, text_bytes
from maestro_state.state.scripts import Call, Query, load
from maestro_state.vocabulary import LIVE, SessionState, liveness

#: The fields of the record, read by name: the hash also keeps the last call of each client.
RECORD = (
    "state", "created_at", "last_activity", "ttl_ms", "user_id", "tool_active", "frozen_at", "abort_reason",
    "run_seq", "ctx_seq", "runs_success", "runs_error", "notes", "task_id", "context_summary", "project_context",
    "working_directory", "preferences", "forked_from", "schema", "tool_options", "edits_told",
    "bound",
)  # fmt: skip


#: Longest time to live: ten years.
TTL_MAX_S = 10 * 366 * 24 * 3600


def start_session(terms: Terms, stamp: Stamp, session_id: str, ttl_ms: int, fields: dict[str, str | None]) -> Call:
    """Make a session; `fields` are further fields of the record, those without a value left out."""
    limit = terms.max_value_bytes
    present = [part for name, value in fields.items() if value for part in (name, text_bytes(name, value, limit))]
    args = (stamp.idempotency_key, stamp.now_ms, terms.grace_ms, str(SessionState.STARTED), ttl_ms,
            "user_id", terms.user, *present)  # fmt: skip
    return Call(load("start_session"), terms.keys.session(session_id), args,
                lambda reply: accept(reply, session_id, "starting it"))  # fmt: skip


def finalize_session(terms: Terms, stamp: Stamp, session_id: str) -> Call:
    """Freeze a session as finished."""
    args = (stamp.idempotency_key, stamp.now_ms, terms.grace_ms, terms.user, str(SessionState.FINALIZED))

    def read(reply: list[Any]) -> Any:
        if text(reply[0]) == "BAD_STATE" and text(reply[1]) == SessionState.RUNNING:
            raise RunsOpen(session_id)
        return accept(reply, session_id, "ending it")

    return Call(load("finalize_session"), terms.keys.session(session_id), args, read)


def abort_session(terms: Terms, stamp: Stamp, session_id: str, reason: str) -> Call:
    """Freeze a session as given up."""
    why = text_bytes("the reason", reason, terms.max_value_bytes)
    ending = msgspec.json.encode({"finished_at": iso(stamp.now_ms), "error": "the session was aborted"})
    args = (stamp.idempotency_key, stamp.now_ms, terms.grace_ms, terms.user, str(SessionState.ABORTED), why, ending)
    return Call(load("abort_session"), terms.keys.session(session_id), args,
                lambda reply: accept(reply, session_id, "aborting it"))  # fmt: skip


def delete_session(terms: Terms, session_id: str, *, only_archived: bool = False) -> Call:
    """Remove a session from the server for good; words: OK, NOT_FOUND, and MOVED when the disk has not all of it."""
    args = (int(only_archived),)
    return Call(load("delete_session"), terms.keys.session(session_id), args, word_of)


def has_session(terms: Terms, session_id: str) -> Query:
    """Ask whether there is such a session."""
    return Query(("EXISTS", terms.keys.of_session(session_id, "session")), bool)


def read_state(terms: Terms, session_id: str) -> Query:
    """Ask for a session's state; None when the server does not have it."""
    command = ("HGET", terms.keys.of_session(session_id, "session"), "state")
    return Query(command, lambda reply: None if reply is None else text(reply))


def read_life(terms: Terms, session_id: str, now_ms: int) -> Query:
    """Ask whether there is such a session, and whether it should have been frozen by now."""

    def read(reply: list[bytes | None]) -> tuple[bool, bool]:
        state, last_activity, ttl_ms, number = reply
        check(f"session {session_id}", number)
        if state is None or last_activity is None or ttl_ms is None:
            return state is not None, False
        return True, text(state) in LIVE and int(last_activity) + int(ttl_ms) <= now_ms

    names = ("state", "last_activity", "ttl_ms", "schema")
    return Query(("HMGET", terms.keys.of_session(session_id, "session"), *names), read)


def set_field(terms: Terms, stamp: Stamp, session_id: str, field: str, value: Any, if_revision: int | None) -> Call:
    """Replace a settable field, if its revision is still `if_revision`; returns the new revision."""
    stored = _stored(terms, field, value)
    args = (stamp.idempotency_key, stamp.now_ms, terms.grace_ms, terms.user, field, stored,
            -1 if if_revision is None else if_revision)  # fmt: skip
    return Call(load("set_field"), terms.keys.session(session_id), args,
                lambda reply: accept(reply, session_id, f"setting {field}"))  # fmt: skip


def _stored(terms: Terms, field: str, value: Any) -> bytes:
    if field not in SETTABLE:
        raise InvalidValue(f"there is no field '{field[:40]}' to set", hint=f"one of {', '.join(SETTABLE)}")
    if field == "ttl_seconds":
        return b"%d" % check_ttl(value)
    if not SETTABLE[field]:
        if isinstance(value, str) and "\0" in value:
            raise InvalidValue(f"{field} must be text without NUL")
        if field == "working_directory":
            check_directory(value)
        return text_bytes(field, value, terms.max_value_bytes)
    if not isinstance(value, dict):
        raise InvalidValue(f"{field} must be a JSON object")
    return check_size(field, json_bytes(field, value), terms.max_value_bytes)


def check_ttl(ttl_seconds: Any) -> int:
    """Return a time to live in milliseconds; refuse what is none."""
    said = str(ttl_seconds)
    if not (said.isascii() and said.isdigit() and 1 <= int(said) <= TTL_MAX_S):
        raise InvalidValue(f"the time to live must be between 1 and {TTL_MAX_S} seconds, not {said[:40]}")
    return int(said) * 1000


def check_directory(path: str) -> None:
    """Refuse a folder that would be another one for whoever carries a run out: workers stand elsewhere."""
    if not isinstance(path, str) or not path.startswith("/"):
        hint = 'maestro session set working_directory "$PWD"'
        raise InvalidValue("working_directory must be an absolute path", hint=hint)


def tool_options(stored: bytes | None) -> ToolOptions | None:
    """Return the defaults of a session's tool, None when it has none."""
    return msgspec.json.decode(stored, type=ToolOptions) if stored else None


def get_field(terms: Terms, session_id: str, field: str) -> Query:
    """Read a settable field with its revision."""
    if field not in SETTABLE:
        raise InvalidValue(f"there is no field '{field[:40]}' to get", hint=f"one of {', '.join(SETTABLE)}")

    def read(reply: list[bytes | None]) -> Field:
        state, value, revision, number = reply
        if state is None:
            raise SessionNotFound(session_id)
        check(f"session {session_id}", number)
        return Field(field=field, value=_shown(field, value), revision=int(revision or 0))

    place = "ttl_ms" if field == "ttl_seconds" else field
    command = ("HMGET", terms.keys.of_session(session_id, "session"), "state", place, f"rev:{field}", "schema")
    return Query(command, read)


def _shown(field: str, value: bytes | None) -> Any:
    if field == "ttl_seconds":
        return int(value or 0) // 1000
    if SETTABLE[field]:
        return msgspec.json.decode(value) if value else {}
    return text(value) if value else None


def read_session(terms: Terms, session_id: str, now_ms: int) -> Query:
    """Read the record."""
    command = ("HMGET", terms.keys.of_session(session_id, "session"), *RECORD)
    return Query(command, lambda reply: session_of(terms, session_id, reply, now_ms))


def session_of(terms: Terms, session_id: str, reply: list[bytes | None], now_ms: int) -> Session:
    """Make the record from the fields named in RECORD."""
    stored = {name: value for name, value in zip(RECORD, reply, strict=True) if value is not None}
    if "state" not in stored:
        raise SessionNotFound(session_id)
    check(f"session {session_id}", stored.get("schema"))

    def words(name: str) -> str | None:
        return stored[name].decode() if name in stored else None

    def number(name: str) -> int:
        return int(stored.get(name, 0))

    state, last_activity, ttl_ms = stored["state"].decode(), number("last_activity"), number("ttl_ms")
    active_at = iso(last_activity)
    frozen_at = iso(number("frozen_at")) if "frozen_at" in stored else None
    return Session(
        id=session_id,
        slug=slug_of(session_id),
        state=state,
        tool_active=words("tool_active"),
        tool_options=tool_options(stored.get("tool_options")),
        edits_told=words("edits_told"),
        created_at=iso(number("created_at")),
        updated_at=active_at,
        finalized_at=frozen_at if state == SessionState.FINALIZED else None,
        aborted_at=frozen_at if state == SessionState.ABORTED else None,
        abort_reason=words("abort_reason"),
        counters=Counters(run_seq=number("run_seq"), ctx_seq=number("ctx_seq")),
        stats=Stats(runs_total=number("run_seq"), runs_success=number("runs_success"), runs_error=number("runs_error")),
        notes=words("notes"),
        session_id=session_id,
        task_id=words("task_id"),
        user_id=words("user_id") or "",
        status=liveness(state, last_activity, ttl_ms, terms.idle_after_ms, now_ms),
        last_activity=active_at,
        context_summary=words("context_summary"),
        project_context=msgspec.json.decode(stored.get("project_context", b"{}")),
        working_directory=words("working_directory") or "",
        preferences=msgspec.json.decode(stored.get("preferences", b"{}")),
        ttl_seconds=ttl_ms // 1000,
        forked_from=words("forked_from"),
        bound=Bound(*pair_of(bound)) if (bound := stored.get("bound")) else None,
    )
