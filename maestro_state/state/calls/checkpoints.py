"""Calls of those who write sessions to disk: read at one moment, mark as archived, freeze what is over, find work."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from maestro_state.errors import SessionNotFound
from maestro_state.models.context import ContextItem
from maestro_state.models.run import OPEN, RelevantOutput, Run
from maestro_state.models.schema import check
from maestro_state.models.session import SETTABLE, Session
from maestro_state.state.calls import contents
from maestro_state.state.calls.index import session_ids
from maestro_state.state.calls.messages import retracted_of
from maestro_state.state.calls.replies import accept, refusal, text, word_of
from maestro_state.state.calls.runs import ending
from maestro_state.state.calls.sessions import RECORD, session_of
from maestro_state.state.calls.terms import Stamp, Terms
from maestro_state.state.keys import named
from maestro_state.state.scripts import Call, Query, load
from maestro_state.vocabulary import SessionState

#: Events, and open runs, above which a session is read whole rather than what has changed.
CHANGES_MAX = 500

Part = TypeVar("Part", ContextItem, Run)


class Moment(msgspec.Struct, frozen=True):
    """A session's record and contents as they were at one moment."""

    session: Session
    last_id: str
    archived_id: str | None
    project: str | None  #: root of the checkout it was started in
    fields: dict[str, Any]  #: what the archive keeps beyond the record
    items: list[ContextItem]
    runs: list[Run]
    relevant: list[RelevantOutput]
    is_whole: bool  #: False when only what may have changed was read
    # Of the runs that were read:
    sent: dict[str, bytes]  #: what each was given, as JSON
    first: dict[str, str | None]  #: id of the first piece that its present try printed
    printed: dict[str, int]  #: bytes that its present try printed

    @property
    def printed_in_all(self) -> int | None:
        """Bytes that they have printed together; None when that is not known of each."""
        return sum(self.printed.values()) if len(self.printed) == sum(map(bool, self.first.values())) else None


class Before(msgspec.Struct, frozen=True):
    """The contents of a session as they were at an earlier moment."""

    last_id: str
    items: list[ContextItem]
    runs: list[Run]
    relevant: list[RelevantOutput]


def read_contents(terms: Terms, session_id: str, now_ms: int) -> Call:
    """Read a session at one moment. Grows with the number of items and runs, not with what they hold."""
    nothing = Before("", [], [], [])

    def read(reply: list[Any]) -> Moment:
        if text(reply[0]) != "OK":
            raise SessionNotFound(session_id)
        return _moment(terms, session_id, now_ms, reply, nothing)

    return Call(load("read_contents"), terms.keys.session(session_id), (), read)


def read_changes(terms: Terms, session_id: str, now_ms: int, before: Before) -> Call:
    """Read a session at one moment as what has changed since an earlier one; None when that is too much, or unknown.

    Every change of an item or a run has its event; only open runs change without.
    """

    def read(reply: list[Any]) -> Moment | None:
        if text(reply[0]) == "NOT_FOUND":
            raise SessionNotFound(session_id)
        return _moment(terms, session_id, now_ms, reply, before) if text(reply[0]) == "OK" else None

    open_runs = [run.id for run in before.runs if run.status in OPEN]
    args = (before.last_id, CHANGES_MAX, *open_runs[:CHANGES_MAX])
    return Call(load("read_changes"), terms.keys.session(session_id), args, read)


def _moment(terms: Terms, session_id: str, now_ms: int, reply: list[Any], before: Before) -> Moment:
    _, record, items, runs, taken_back = reply
    stored, run_fields = contents.fields_of(record), contents.fields_of(runs)
    found = contents.runs_in(run_fields)
    return Moment(
        session=session_of(terms, session_id, [stored.get(name) for name in RECORD], now_ms),
        last_id=text(stored["last_id"]),
        archived_id=text(stored["archived_id"]) if "archived_id" in stored else None,
        project=text(stored["project"]) if "project" in stored else None,
        fields=_fields(stored, retracted_of(taken_back)),
        items=_merged(before.items, contents.read_items(terms, session_id).read(items)),
        runs=_merged(before.runs, found),
        relevant=_relevant(before.relevant, contents.relevant_in(run_fields)),
        is_whole=not before.last_id,
        sent={name[:-5]: value for name, value in run_fields.items() if name.endswith(":sent")},
        first={run.id: _text_or_none(run_fields.get(f"{run.id}:first")) for run in found},
        printed={name[:-5]: int(value) for name, value in run_fields.items() if name.endswith(":size")},
    )


def _merged(before: list[Part], found: list[Part]) -> list[Part]:
    """Return all items or runs, oldest first: as they were found, else as they were before."""
    if not before:
        return found
    all_of_them = {one.id: one for one in before} | {one.id: one for one in found}
    # Those that are new have higher numbers than all others, and come in order.
    return list(all_of_them.values())


def _relevant(before: list[RelevantOutput], found: list[RelevantOutput]) -> list[RelevantOutput]:
    if not before:
        return found
    promoted = {one.run_id: one for one in before} | {one.run_id: one for one in found}
    return [promoted[run_id] for run_id in sorted(promoted, key="{}:".format)]  # as the server's fields are


def _text_or_none(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def _fields(stored: dict[str, bytes], retracted: dict[str, int]) -> dict[str, Any]:
    adapted: dict[str, Any] = {"kept_id": text(stored["kept_id"])} if "kept_id" in stored else {}
    if retracted:
        adapted["retracted"] = retracted
    return adapted | {
        "last_id": text(stored["last_id"]),
        "created_ms": int(stored["created_at"]),
        "revisions": {name: int(stored[f"rev:{name}"]) for name in SETTABLE if f"rev:{name}" in stored},
        "set_at": {name: text(stored[f"at:{name}"]) for name in SETTABLE if f"at:{name}" in stored},
        "project": text(stored["project"]) if "project" in stored else None,
    }


def read_time() -> Query:
    """Ask the server for its clock, in milliseconds: the one that counts the life of its keys."""
    return Query(("TIME",), lambda reply: int(reply[0]) * 1000 + int(reply[1]) // 1000)


class Marked(msgspec.Struct, frozen=True):
    """What came of a mark: done with the summary to index, or `word` says why not."""

    word: str
    summary: list[Any] | None = None


def mark_archived(terms: Terms, session_id: str, archived_id: str, server_ms: int) -> Call:
    """Note that the archive is whole up to `archived_id`; words: OK, MOVED, NOT_FOUND."""

    def read(reply: list[Any]) -> Marked:
        word = text(reply[0])
        return Marked(word, reply[2] if word == "OK" else None)

    args = (server_ms, terms.grace_ms, archived_id)
    return Call(load("mark_archived"), terms.keys.session(session_id), args, read)


class Progress(msgspec.Struct, frozen=True):
    """How far the archive of a session is."""

    project: str | None
    last_id: str | None  #: None when the server has let go of the session
    archived_id: str | None
    waits: str | None  #: why nobody has written it yet, as the last one who tried said
    state: str | None
    filling: str | None  #: set until a fork has everything that it takes over

    @property
    def is_done(self) -> bool:
        """Tell whether everything the server has is on a disk."""
        return self.last_id == self.archived_id


def read_progress(terms: Terms, session_id: str) -> Query:
    """Ask how far the archive of a session is."""
    names = ("project", "last_id", "archived_id", "archive_waits", "state", "filling", "schema")

    def read(reply: list[Any]) -> Progress:
        *values, number = reply
        check(f"session {session_id}", number)
        return Progress(*map(_text_or_none, values))

    return Query(("HMGET", terms.keys.of_session(session_id, "session"), *names), read)


def defer_archive(terms: Terms, session_id: str, reason: str) -> Call:
    """Note on a session why its archive waits; the next one who writes it takes the note away."""
    return Call(load("defer_archive"), terms.keys.session(session_id), (reason[:500],), word_of)


def overdue_sessions(terms: Terms, before_ms: int, count: int) -> list[Query]:
    """Find sessions whose changes have been waiting for a disk since before a time; costs what it finds."""
    bounds = ("-inf", before_ms, "LIMIT", 0, count)
    return [Query(("ZRANGEBYSCORE", key, *bounds), session_ids) for key in terms.keys.all_of("dirty")]


def expire_session(terms: Terms, session_id: str, server_ms: int, horizon_ms: int, *, by_record: bool = False) -> Call:
    """Freeze a session whose time is over, if wanted by its record alone; words: OK, ALIVE, BAD_STATE, NOT_FOUND."""

    def read(reply: list[Any]) -> Marked:
        word = text(reply[0])
        if word == "NEWER":
            raise refusal(word, reply[1:], session_id, "ending it")
        return Marked(word, reply[2] if word == "OK" else None)

    why = ending(server_ms, "the session's time was over before a worker took the run")
    args = (server_ms, terms.grace_ms, terms.user, str(SessionState.FINALIZED), horizon_ms, why, int(by_record))
    return Call(load("expire_session"), terms.keys.session(session_id), args, read)


class Members(msgspec.Struct, frozen=True):
    """What a list of sessions names."""

    ids: list[str]
    junk: list[bytes]  #: what is no id at all: it stops nobody, and goes


def _members(reply: list[bytes]) -> Members:
    ids = session_ids(reply)
    known = {one.encode() for one in ids}
    return Members(ids, [one for one in reply if one not in known] if len(ids) < len(reply) else [])


def due_sessions(index: tuple[str, ...], until_ms: int, count: int) -> Query:
    """Find sessions of a shard whose deadline the index puts before a time; costs what it finds."""
    command = ("ZRANGEBYSCORE", named(index, "deadlines"), "-inf", until_ms, "LIMIT", 0, count)
    return Query(command, _members)


def dirty_sessions(index: tuple[str, ...], count: int) -> Query:
    """Find sessions of a shard with changes that are not on disk, the oldest first; costs what it finds."""
    command = ("ZRANGEBYSCORE", named(index, "dirty"), "-inf", "+inf", "LIMIT", 0, count)
    return Query(command, _members)


def count_dirty(terms: Terms) -> list[Query]:
    """Ask how many sessions of each shard have changes that are not on disk."""
    return [Query(("ZCARD", key), int) for key in terms.keys.all_of("dirty")]


def any_due(terms: Terms, until_ms: int) -> list[Query]:
    """Ask which shards have a session with a deadline before a time."""
    bounds = ("-inf", until_ms, "LIMIT", 0, 1)
    return [Query(("ZRANGEBYSCORE", key, *bounds), bool) for key in terms.keys.all_of("deadlines")]


def fill_session(
    terms: Terms, stamp: Stamp, session_id: str, parts: list[Any], *, life_ms: int, ctx_seq: int, target: str
) -> Call:
    """Give a new session a part of what it takes over; with a `target` state it is the last part."""
    args = (stamp.idempotency_key, stamp.now_ms, terms.grace_ms, terms.user, life_ms, target, ctx_seq,
            len(parts) // 3, *parts)  # fmt: skip
    return Call(load("fill_session"), terms.keys.session(session_id), args,
                lambda reply: accept(reply, session_id, "filling it"))  # fmt: skip
