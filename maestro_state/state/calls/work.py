"""Calls on work sessions as wholes: start, end, pause, read, list."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec

from maestro_state.clock import iso
from maestro_state.errors import InvalidValue
from maestro_state.models.schema import check
from maestro_state.models.undecodable import UNDECODABLE
from maestro_state.models.work import DEPTH_MAX, WorkSession, WorkView
from maestro_state.models.work_names import WorkPath, breadcrumbs_dir
from maestro_state.state.calls.replies import accept_work, text, word_of
from maestro_state.state.calls.terms import Stamp, Terms
from maestro_state.state.scripts import Call, Query, load
from maestro_state.vocabulary import WORK_ENDED, WorkStatus

#: Longest type of a work session.
TYPE_MAX = 64
#: Largest related_entity or metadata: both are in the index, which is read whole to list.
OBJECT_MAX = 16 * 1024

#: What includes/work_summary.lua answers, in its order.
_SUMMARY = ("last_id", "state", "created_at", "last_activity", "ttl_ms", "user_id", "archived_id", "session_type",
            "path", "related_entity", "metadata", "accepted", "applied")  # fmt: skip


class WorkEntry(msgspec.Struct, frozen=True, array_like=True):
    """A work session as the index stores it; `last_id` first, because index_session.lua compares it."""

    last_id: str
    state: str
    created_at: int
    last_activity: int
    ttl_ms: int
    user_id: str
    archived_id: str | None
    session_type: str
    path: str
    related_entity: dict[str, Any]
    metadata: dict[str, Any]
    accepted: int
    applied: int

    @property
    def id(self) -> str:
        """The cookie."""
        return self.path.rsplit("/", 1)[-1]


_decode_entries = msgspec.json.Decoder(list[WorkEntry]).decode


def check_type(session_type: str) -> str:
    """Return a type that can be kept and shown."""
    if not 0 < len(session_type) <= TYPE_MAX or not session_type.isprintable():
        raise InvalidValue(f"the type must be 1 to {TYPE_MAX} printable characters", hint="work_task, for example")
    return session_type


def check_object(name: str, value: dict[str, Any]) -> bytes:
    """Return a JSON object as stored."""
    try:
        stored = msgspec.json.encode(value)
    except (TypeError, ValueError) as error:
        raise InvalidValue(f"{name} must be a JSON object: {error}") from error
    if len(stored) > OBJECT_MAX:
        raise InvalidValue(f"{name} is {len(stored)} bytes; at most {OBJECT_MAX} are kept")
    return stored


def start_work(
    terms: Terms,
    stamp: Stamp,
    path: WorkPath,
    session_type: str,
    related_entity: dict[str, Any],
    metadata: dict[str, Any],
    ttl_ms: int,
    *,
    status: str = WorkStatus.RUNNING,
    created_ms: int | None = None,
) -> Call:
    """Make a work session at its place in the tree."""
    if len(path) > DEPTH_MAX:
        raise InvalidValue(f"work sessions are nested at most {DEPTH_MAX} deep")
    fields: list[Any] = ["user_id", terms.user, "session_type", check_type(session_type), "path", "/".join(path),
                         "related_entity", check_object("related_entity", related_entity),
                         "metadata", check_object("metadata", metadata)]  # fmt: skip
    if created_ms is not None:
        fields += ["created_at", created_ms]
    if status in WORK_ENDED:
        fields += ["ended_at", stamp.now_ms]
    args = (stamp.idempotency_key, stamp.now_ms, terms.grace_ms, str(status), ttl_ms, *fields)
    return Call(load("start_work"), terms.keys.work(path[-1]), args,
                lambda reply: accept_work(reply, path[-1], "starting it"))  # fmt: skip


def add_child(terms: Terms, stamp: Stamp, parent_id: str, child_id: str) -> Call:
    """Note a child in its parent; before the child is made, so that none is ever missing from its parent."""
    args = (stamp.idempotency_key, stamp.now_ms, terms.grace_ms, terms.user, child_id)
    return Call(load("add_child"), terms.keys.work(parent_id), args,
                lambda reply: accept_work(reply, parent_id, "starting a child"))  # fmt: skip


def end_work(terms: Terms, stamp: Stamp, work_id: str, status: str, children_seen: int) -> Call:
    """End a work session for good."""
    if status not in WORK_ENDED:
        raise InvalidValue(f"'{status[:40]}' is not how a work session ends", hint=f"one of {', '.join(WORK_ENDED)}")
    args = (stamp.idempotency_key, stamp.now_ms, terms.grace_ms, terms.user, str(status), children_seen)
    return Call(load("end_work"), terms.keys.work(work_id), args,
                lambda reply: accept_work(reply, work_id, "ending it"))  # fmt: skip


def mark_work(terms: Terms, stamp: Stamp, work_id: str, status: str) -> Call:
    """Pause or resume a work session."""
    args = (stamp.idempotency_key, stamp.now_ms, terms.grace_ms, terms.user, str(status))
    action = "pausing it" if status == WorkStatus.PAUSED else "resuming it"
    return Call(load("mark_work"), terms.keys.work(work_id), args,
                lambda reply: accept_work(reply, work_id, action))  # fmt: skip


def _number(value: Any) -> int:
    return int(value or 0)


def _entry(values: list[Any]) -> WorkEntry:
    said = dict(zip(_SUMMARY, values, strict=True))
    return WorkEntry(
        last_id=text(said["last_id"]),
        state=text(said["state"]),
        created_at=_number(said["created_at"]),
        last_activity=_number(said["last_activity"]),
        ttl_ms=_number(said["ttl_ms"]),
        user_id=text(said["user_id"] or b""),
        archived_id=text(said["archived_id"]) if said["archived_id"] else None,
        session_type=text(said["session_type"]),
        path=text(said["path"]),
        related_entity=msgspec.json.decode(said["related_entity"]),
        metadata=msgspec.json.decode(said["metadata"]),
        accepted=_number(said["accepted"]),
        applied=_number(said["applied"]),
    )


def index_work(terms: Terms, summary: list[Any]) -> Call:
    """Write what a script answered of a work session into the index; an older one is dropped by the script."""
    entry = _entry(summary)
    args = (
        entry.id,
        entry.last_id,
        msgspec.json.encode(entry),
        entry.last_activity,
        entry.last_activity + entry.ttl_ms,
        int(entry.last_id != entry.archived_id),
        entry.ttl_ms + terms.grace_ms,
    )
    return Call(load("index_session"), terms.keys.work_index, args, word_of)


def keep_work(terms: Terms, now_ms: int, work_id: str, last_id: str) -> Call:
    """Note that the disk has a work session up to an entry; answers None when more was added since."""

    def read(reply: list[Any]) -> list[Any] | None:
        if text(reply[0]) == "MOVED":
            return None
        summary: list[Any] = accept_work(reply, work_id, "keeping it")[1]
        return summary

    return Call(load("keep_work"), terms.keys.work(work_id), (now_ms, last_id), read)


def dirty_work(terms: Terms) -> Query:
    """Read the ids of work sessions with changes that are not on disk, oldest first."""
    return Query(
        ("ZRANGE", terms.keys.work_index[3], 0, -1), lambda reply: [one.decode(errors="replace") for one in reply]
    )


def overdue_work(terms: Terms, now_ms: int) -> Query:
    """Read the ids of work sessions whose life is over by the index: the server may have let go of them."""
    command = ("ZRANGEBYSCORE", terms.keys.work_index[2], "-inf", now_ms)
    return Query(command, lambda reply: [one.decode(errors="replace") for one in reply])


def forget_work(terms: Terms, work_id: str) -> Call:
    """Take a work session out of the index."""
    return Call(load("forget_session"), terms.keys.work_index, (work_id,), word_of)


def work_of(entry: WorkEntry, cursor: str = "0-0") -> WorkView:
    """Make the value that is shown from what is stored."""
    path = tuple(entry.path.split("/"))
    record = WorkSession(
        session_id=path[-1],
        session_type=entry.session_type,
        parent_session_id=path[-2] if len(path) > 1 else None,
        status=entry.state,
        created=iso(entry.created_at),
        modified=iso(entry.last_activity),
        related_entity=entry.related_entity,
        breadcrumbs_dir=breadcrumbs_dir(path),
        metadata=entry.metadata,
    )
    return WorkView(
        record=record, path=path, accepted=entry.accepted, applied=entry.applied, cursor=cursor, last_id=entry.last_id
    )


def read_work(terms: Terms, work_id: str) -> Query:
    """Read a work session; None when the server has none of that id."""

    def read(reply: list[Any]) -> WorkView | None:
        *summary, cursor, number = reply
        check(f"work session {work_id}", number)
        return work_of(_entry(summary), text(cursor or b"0-0")) if summary[0] else None

    return Query(("HMGET", terms.keys.of_work(work_id, "session"), *_SUMMARY, "cursor", "schema"), read)


def read_children(terms: Terms, work_id: str) -> Query:
    """Read the ids of a work session's children."""
    return Query(("SMEMBERS", terms.keys.of_work(work_id, "children")), lambda reply: sorted(map(text, reply)))


def _entries(rows: list[bytes]) -> list[WorkEntry]:
    """Read rows of the index; one that is damaged does not hide the others."""
    try:
        return _decode_entries(b"[" + b",".join(rows) + b"]")
    except UNDECODABLE:
        found = []
        for row in rows:
            with suppress(*UNDECODABLE):
                found += _decode_entries(b"[" + row + b"]")
        return found


def all_work(terms: Terms) -> Query:
    """Read every work session from the index, last modified first."""

    def read(reply: list[bytes]) -> list[WorkView]:
        entries = _entries(reply)
        entries.sort(key=lambda entry: entry.last_activity, reverse=True)
        return [work_of(entry) for entry in entries]

    index = terms.keys.work_index
    return Query(("HVALS", index[0]), read)
