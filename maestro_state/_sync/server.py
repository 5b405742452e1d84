# Generated from maestro_state/live by `make generate`. Do not edit.
"""Runs calls: the one place where a value of `state.calls` meets the connection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from maestro_state.clock import CallSequence, new_idempotency_key
from maestro_state.errors import (
    DamagedRecord,
    MaestroError,
    NotReplicated,
    ServerStorageError,
    SessionExpired,
    SessionNotFound,
)
from maestro_state.models.schema import check
from maestro_state.models.undecodable import UNDECODABLE
from maestro_state.net.faults import ReplyError
from maestro_state.net.fork import let_go_in_child
from maestro_state.state.calls.changes import note_change
from maestro_state.state.calls.contents import server_uptime
from maestro_state.state.calls.index import IndexEntry, entry_of, forget_session, index_session
from maestro_state.state.calls.replication import CONFIRM_MS, LASTING, confirmation, shortfall
from maestro_state.state.calls.terms import Stamp, Terms
from maestro_state.state.scripts import Call, Query

if TYPE_CHECKING:
    from maestro_state.net import AnyConnection


class Explain(Protocol):
    """Finds out why a change of a session was refused."""

    def __call__(self, session_id: str, error: MaestroError) -> MaestroError:
        """Return the error that says it."""


#: Seconds within which an owner that waits for a server sends its next heartbeat, once the server is back.
RETURN_S = 6

#: How long those who follow all sessions are told at least that one went, in milliseconds.
_TOLD_MS = 24 * 3600 * 1000
#: What reading a reply raises when a record is not what it should be.
UNREADABLE = (ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError, *UNDECODABLE)


def damage(error: Exception, key: str) -> MaestroError:
    """Return what to say of a record that cannot be read; an answer that says something else stays what it is."""
    if not isinstance(error, ReplyError):
        return DamagedRecord(key, f"{type(error).__name__}: {error}")
    if "WRONGTYPE" in str(error):
        return DamagedRecord(key, "a key of another type")
    return DamagedRecord(key, str(error)) if "user_script" in str(error) else error


def _key_of(query: Query) -> str:
    return str(query.command[1]) if len(query.command) > 1 else str(query.command[0])


def _read(query: Query, reply: Any) -> Any:
    try:
        return query.read(reply)
    except UNREADABLE as error:
        raise damage(error, _key_of(query)) from error


class Server:
    """One server under one set of terms."""

    def __init__(self, connection: AnyConnection, terms: Terms, now_ms: Callable[[], int]) -> None:
        """Take what every call needs; the connection opens itself at the first call."""
        self.connection = connection
        self.terms = terms
        self.now_ms = now_ms
        #: Says more of a session that a change was refused for because it is not there, or over; None: nobody does.
        self.explain: Explain | None = None
        self._sequences: list[CallSequence] = []
        let_go_in_child(self)

    def stamp(self, idempotency_key: str | None = None) -> Stamp:
        """Mark a call with its time and identity; a caller that repeats a call passes the id it used before."""
        return Stamp(self.now_ms(), idempotency_key or new_idempotency_key())

    def sequence(self) -> CallSequence:
        """Lend a sequence for one call: what is done by the thousand leaves one entry per client, not one per call."""
        try:
            return self._sequences.pop()
        except IndexError:  # not asked for beforehand: another thread may take the last one meanwhile
            return CallSequence(self._sequences)

    def forget(self) -> None:
        """Drop the sequences: a forked child that went on with its parent's would be taken for a repeat of it."""
        self._sequences.clear()

    def run(self, call: Call) -> Any:
        """Run one script: one round trip. Raises NotReplicated when it is done and too few replicas have it."""
        value, missing = self.attempt(call)
        if missing:
            raise missing
        return value

    def attempt(self, call: Call) -> tuple[Any, NotReplicated | None]:
        """Run one script; answer beside its value what is wrong when it is done and too few replicas have it.

        Raises DamagedRecord when what it works on is not what it should be.
        """
        try:
            return self._attempt(call)
        except ReplyError as error:
            if not self._mended(error, call.keys):
                raise damage(error, call.keys[0]) from error
        except UNREADABLE as error:
            raise damage(error, call.keys[0]) from error
        return self._attempt(call)

    def _attempt(self, call: Call) -> tuple[Any, NotReplicated | None]:
        if not self.terms.wait_replicas or call.script.name not in LASTING:
            return call.read(self.connection.script(call.script, call.keys, call.args)), None
        reply, _, confirmed = self.connection.script_then(
            call.script, call.keys, call.args, confirmation(self.terms, call), wait_ms=CONFIRM_MS
        )
        return call.read(reply), shortfall(self.terms, confirmed)

    def fetch(self, query: Query) -> Any:
        """Run one plain read: one round trip. Raises DamagedRecord when that is not what it should be."""
        try:
            return query.read(self.connection.call(*query.command))
        except ReplyError as error:
            if not self._mended(error, query.command[1:2]):
                raise damage(error, _key_of(query)) from error
        except UNREADABLE as error:
            raise damage(error, _key_of(query)) from error
        return query.read(self.connection.call(*query.command))

    def fetch_all(self, queries: Sequence[Query]) -> list[Any]:
        """Run plain reads in one write (on a cluster one by one); return what each of them found.

        Raises DamagedRecord, with its name, when one of them is not what it should be.
        """
        try:
            replies = self.connection.calls([query.command for query in queries])
        except ReplyError:  # of which one is not said: each by itself is mended, or named
            return [self.fetch(query) for query in queries]
        return [_read(query, reply) for query, reply in zip(queries, replies, strict=True)]

    def fetch_shown(self, query: Query) -> Any:
        """Run a read of something as it is shown and as it is recorded; owners that are silent count as gone.

        Not yet on a server that has only just come back: every lease ran out meanwhile, whoever lives.
        """
        found, recorded = self.fetch(query)
        if recorded is not None and self.fetch(server_uptime()) < RETURN_S:
            return recorded
        return found

    def fetch_of(self, session_id: str, *queries: Query) -> list[Any]:
        """Run plain reads of a session's other keys, if its record is of a form that is known: one round trip."""
        record = self.terms.keys.of_session(session_id, "session")
        commands = [("HGET", record, "schema"), *(query.command for query in queries)]
        try:
            number, *replies = self.connection.calls(commands)
            check(f"session {session_id}", number)
            return [query.read(reply) for query, reply in zip(queries, replies, strict=True)]
        except (ReplyError, *UNREADABLE) as error:
            raise damage(error, record) from error

    def _mended(self, error: ReplyError, keys: Sequence[Any]) -> bool:
        """Drop what somebody else put in the place of an index, which a sweep fills again; False if it is none."""
        if "WRONGTYPE" not in str(error):
            return False
        asked = {*keys}
        indexes = [one for one in (*self.terms.keys.indexes, self.terms.keys.work_index) if not asked.isdisjoint(one)]
        if not indexes:
            return False
        from maestro_state.state.calls.quarantine import INDEX, mend_index, note

        noted = note(self.terms, INDEX, DamagedRecord.code, f"{error}", self.now_ms())
        for call in (*map(mend_index, indexes), noted):
            self.connection.script(call.script, call.keys, call.args)
        return True

    def change(self, session_id: str, call: Call) -> Any:
        """Run a script that changes a session, and bring the index up to date when the script says it is due."""
        try:
            (value, summary), missing = self.attempt(call)
        except (SessionNotFound, SessionExpired) as error:
            raise self.refused(session_id, error) from error
        if summary:
            self.note(session_id, summary)
        if missing:
            raise missing
        return value

    def refused(self, session_id: str, error: MaestroError) -> MaestroError:
        """Return what to say when a session is not there, or over: whoever notices the end of its time freezes it."""
        return error if self.explain is None else self.explain(session_id, error)

    def note(self, session_id: str, summary: Any) -> None:
        """Bring the index up to date, if there is a summary that says it is due."""
        if summary:
            # The change itself is done: with no memory left for the index it must not seem undone.
            entry = entry_of(session_id, summary)
            with suppress(ServerStorageError):
                self.index(entry)
                if entry.bound:
                    self._keep_bound(entry)

    def index(self, entry: IndexEntry, *, is_on_disk: bool = False) -> bool:
        """Write a session's row into the index, and tell who follows all of them; False: the index has a newer one."""
        writing = index_session(self.terms, entry, is_on_disk=is_on_disk)
        noting = note_change(self.terms, entry.id, entry.ttl_ms + self.terms.grace_ms)
        word, _ = self.run_all([writing, noting])
        return bool(word == "OK")

    def unindex(self, session_id: str | bytes) -> None:
        """Take a session out of the index, and tell who follows all of them."""
        # One after the other: a server that was just restarted may know only the second script, and it would be told
        # that a session went while its row is still there.
        self.run(forget_session(self.terms, session_id))
        with suppress(ServerStorageError):  # with no memory left to tell it: that it went must not fail for that
            self.run(note_change(self.terms, session_id, _TOLD_MS, is_gone=True))

    def _keep_bound(self, entry: IndexEntry) -> None:
        """Have the key of a framework that a session is bound to live as long as the session."""
        from maestro_state.models.binding import Bound
        from maestro_state.state.calls.bindings import bind_session

        bound = Bound(*entry.bound) if entry.bound else None
        if bound:  # and still is: what is deleted meanwhile, or a fork that is not the key's yet, is not bound for this
            own = entry.id
            call = bind_session(self.terms, bound, own, entry.ttl_ms, is_begun=True, instead_of=own, only_moves=True)
            self.run(call)

    def change_all(self, session_id: str, calls: Sequence[Call], then: Call | None = None) -> list[Any]:
        """Run scripts that change a session in one write, in order, and `then` one that reads; return all their values.

        All are sent again when the connection breaks: each must tell its own repeat, and refuse what needs one before
        it that was refused. The index is brought up to date once.
        """
        try:
            answers = self.run_all([*calls, then] if then else calls)
        except (SessionNotFound, SessionExpired) as error:
            raise self.refused(session_id, error) from error
        values = [value for value, _ in answers[: len(calls)]]
        due = [summary for _, summary in answers[: len(calls)] if summary]
        self.note(session_id, due[-1] if due else None)
        return values + answers[len(calls) :]

    def run_all(self, calls: Sequence[Call]) -> list[Any]:
        """Run scripts in one write (on a cluster one by one), all again when the connection breaks."""
        commands = [("EVALSHA", call.script.sha, len(call.keys), *call.keys, *call.args) for call in calls]
        try:
            replies = self.connection.calls(commands)
        except ReplyError as error:
            if error.kind != "NOSCRIPT" and not self._mended(error, [key for call in calls for key in call.keys]):
                raise damage(error, calls[0].keys[0]) from error
            return [self.run(call) for call in calls]
        return [call.read(reply) for call, reply in zip(calls, replies, strict=True)]

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()
