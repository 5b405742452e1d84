# Generated from maestro_state/live by `make generate`. Do not edit.
"""Which session a framework's key is bound to, and what a framework writes there: server only, one round trip each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from maestro_state.errors import NoProject, SessionExpired
from maestro_state._sync.server import Server
from maestro_state.models.binding import Bound
from maestro_state.models.message import Message, with_retractions
from maestro_state.models.names import is_session_id
from maestro_state.state.calls import bindings as ops
from maestro_state.state.calls import messages as message_ops
from maestro_state.state.calls import sessions as session_ops
from maestro_state.state.calls.checkpoints import read_time
from maestro_state.state.calls.terms import Stamp
from maestro_state.state.scripts import Call
from maestro_state.vocabulary import LIVE

if TYPE_CHECKING:
    from maestro_state.mirror.places import Places

T = TypeVar("T")

#: Frameworks that have one key only: one that is the full id of a session means that session.
ONE_KEY = ("langgraph", "openai", "record")


class BoundKeys:
    """Keys of frameworks, and what is written under them."""

    def __init__(self, server: Server, places: Places) -> None:
        """Take the archives: they know what a key was bound to when the server has let go of it."""
        self._server = server
        self._places = places

    def find(self, kind: str, key: str) -> str | None:
        """Return the session that a key is bound to, live or archived; None when there is none."""
        bound = Bound.of(kind, key)
        try:
            found = self._bound_to(bound)
        except NoProject:
            return None  # nothing was begun here, and reading begins nothing
        return found.session_id if found else self._unbound(bound)

    def _bound_to(self, bound: Bound) -> ops.BoundTo | None:
        """Return what the server knows a key to be bound to."""
        found: ops.BoundTo | None = self._server.fetch(ops.read_binding(self._server.terms, bound))
        return found

    def _unbound(self, bound: Bound) -> str | None:
        """Return the session of a key that the server does not know: in the archive, or the one it is the id of."""
        known = _archived(self._places, bound)
        if known or bound.kind not in ONE_KEY or not is_session_id(bound.key):
            return known
        query = session_ops.has_session(self._server.terms, bound.key)
        is_there = self._server.fetch(query) or bound.key in self._places.own.ids()
        return bound.key if is_there else None

    def messages(self, session_id: str, last: int | None = None) -> list[Message] | None:
        """Read the messages of a session in one round trip, those marked that were taken back; None when the server
        does not have it as a live one: then its key may mean another by now.
        """
        terms = self._server.terms
        query = message_ops.messages_since(terms, session_id, None)
        if last is not None:
            query = message_ops.last_messages(terms, session_id, last)
        state = session_ops.read_state(terms, session_id)
        retracted = message_ops.read_retracted(terms, session_id)
        word, found, taken_back = self._server.fetch_of(session_id, state, query, retracted)
        return with_retractions(found, taken_back) if word in LIVE else None

    def items(
        self, session_id: str, read: Callable[[list[Any]], T], of_message: Callable[[Message], T]
    ) -> list[T] | None:
        """Read what all messages hold that were not taken back, in one round trip: by `read` from what is stored, which
        costs half of what a message does, or by `of_message` where some were taken back. None as in `messages`.
        """
        terms = self._server.terms
        state = session_ops.read_state(terms, session_id)
        entries = message_ops.all_entries(terms, session_id)
        retracted = message_ops.read_retracted(terms, session_id)
        word, found, taken_back = self._server.fetch_of(session_id, state, entries, retracted)
        return _handed_out(found, taken_back, read, of_message) if word in LIVE else None

    def kept_of(self, ids: Sequence[str], names: list[str]) -> list[dict[str, bytes]]:
        """Read what is kept under some names in several sessions, in one round trip; nothing of those that the server
        does not have.
        """
        found: list[dict[str, bytes]] = self._server.fetch_all(ops.read_kept_of(self._server.terms, ids, names))
        return found

    def record(
        self, session_id: str, prefix: str, read: Callable[[list[Any]], T], of_message: Callable[[Message], T]
    ) -> tuple[list[T], dict[str, bytes]] | None:
        """Read what all messages hold that were not taken back, as `items` does, and what is kept under names with a
        prefix, in one round trip unless that is a great many names; None as in `messages`.
        """
        terms = self._server.terms
        queries = (
            session_ops.read_state(terms, session_id),
            message_ops.all_entries(terms, session_id),
            message_ops.read_retracted(terms, session_id),
            ops.scan_kept(terms, session_id, prefix),
        )
        word, found, taken_back, (cursor, kept) = self._server.fetch_of(session_id, *queries)
        while cursor:
            cursor, page = self._server.fetch(ops.scan_kept(terms, session_id, prefix, cursor))
            kept |= page
        return (_handed_out(found, taken_back, read, of_message), kept) if word in LIVE else None

    def kept(self, session_id: str, names: list[str]) -> dict[str, bytes] | None:
        """Read what is kept under some names in one round trip; None when the server does not have the session as a
        live one: then its key may mean another by now.
        """
        terms = self._server.terms
        state = session_ops.read_state(terms, session_id)
        word, values = self._server.fetch_of(session_id, state, ops.read_kept(terms, session_id, names))
        pairs = zip(names, values, strict=True)
        return {name: value for name, value in pairs if value is not None} if word in LIVE else None

    def write(self, session_id: str, entries: ops.Entries, *, idempotency_key: str | None = None) -> str:
        """Write what a framework did, all of it in one step; returns the id of the last entry."""
        last_id = self._change(
            session_id, lambda stamp: ops.add_entries(self._server.terms, stamp, session_id, entries), idempotency_key
        )
        return last_id.decode()

    def retract_last(self, session_id: str) -> str | None:
        """Take the newest message back that is handed out; returns its id, None when there is none."""
        found = self._change(session_id, lambda stamp: ops.retract_last(self._server.terms, stamp, session_id))
        return found.decode() or None

    def _change(
        self, session_id: str, call: Callable[[Stamp], Call], idempotency_key: str | None = None
    ) -> bytes:
        """Change a session. One that is over only by our clock, which is ahead then, is written to by the server's."""
        with self._server.sequence() as sequence:
            stamp = self._server.stamp(idempotency_key or sequence.next_key())
            try:
                changed: bytes = self._server.change(session_id, call(stamp))
            except SessionExpired:
                server_ms = self._server.fetch(read_time())
                if server_ms >= stamp.now_ms:
                    raise
                changed = self._server.change(session_id, call(Stamp(server_ms, stamp.idempotency_key)))
        return changed


def _handed_out(
    entries: list[Any], taken_back: Any, read: Callable[[list[Any]], T], of_message: Callable[[Message], T]
) -> list[T]:
    if not taken_back:
        return [read(entry) for entry in entries]
    messages = with_retractions([message_ops.message_of(entry) for entry in entries], taken_back)
    return [of_message(message) for message in messages if not message.retracted_at]


def _archived(places: Places, bound: Bound) -> str | None:
    from maestro_state.mirror.bindings import bound_archives

    return next(iter(bound_archives(places.own, bound)), None)
