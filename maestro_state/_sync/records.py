# Generated from maestro_state/live by `make generate`. Do not edit.
"""Session records: what a reference means, what a session is and says, its fields, and why a change was refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

from maestro_state.clock import from_iso
from maestro_state.errors import (
    FileCorrupt,
    InvalidTransition,
    MaestroError,
    NoActiveSession,
    SessionExpired,
    SessionNotFound,
)
from maestro_state._sync.server import Server
from maestro_state.local.project import Project
from maestro_state.models.binding import Bound
from maestro_state.models.names import is_session_id, pick
from maestro_state.models.session import Field, Session, SessionList, SessionSummary
from maestro_state.state.calls import index as index_ops
from maestro_state.state.calls import sessions as ops
from maestro_state.vocabulary import FROZEN

if TYPE_CHECKING:
    from maestro_state._sync.archived import Archived
    from maestro_state._sync.source import Source
    from maestro_state.mirror.places import Places

#: Freezes a session whose time is over and has it on disk; tells whether it was over. Blocks.
Freeze = Callable[[str], bool]
#: Returns the ids of all sessions, archived ones too, last active first. Blocks.
AllIds = Callable[[], list[str]]


class Records:
    """The records of sessions, live or on disk."""

    def __init__(
        self,
        server: Server,
        project: Project,
        pinned: str | None,
        places: Callable[[], Places],
        freeze: Freeze,
        all_ids: AllIds,
    ) -> None:
        """Take the checkout for its active session, the reference this terminal is pinned to, and what opens the
        archives: few calls need them.
        """
        self._server = server
        self._project = project
        self._pinned = pinned
        self._open_places = places
        self._freeze = freeze
        self._all_ids = all_ids
        server.explain = self._explain

    @cached_property
    def _places(self) -> Places:
        return self._open_places()

    def resolve(self, ref: str | None = None) -> str:
        """Return the id a reference means: given, else pinned, else this checkout's active session."""
        wanted = ref or self._pinned
        if wanted is None:
            active = self._project.active()
            if active is None:
                raise NoActiveSession
            return active
        if is_session_id(wanted):
            return wanted
        if ":" in wanted and (bound := Bound.in_reference(wanted)):
            from maestro_state._sync.bindings import BoundKeys

            found = BoundKeys(self._server, self._places).find(bound.kind, bound.key)
            if found is None:
                raise SessionNotFound(wanted[:80])
            return found
        if wanted == "latest":
            newest = [row.id for row in self.newest(1)]
            return pick(wanted, newest or self._all_ids())
        entries = index_ops.all_sessions(self._server.fetch_all(index_ops.all_rows(self._server.terms)))
        known = {entry.id for entry in entries} | self._places.own.ids()
        return pick(wanted, sorted(known))

    def newest(self, count: int) -> SessionList:
        """List the live sessions last active, in one round trip, rarely two, however many there are."""
        terms, view = self._server.terms, self._seen_from()
        share = index_ops.share_of(terms, count)
        found = self._server.run_all(index_ops.newest_sessions(terms, share))
        rows = index_ops.newest_of(found, count, share, view)
        if rows is None:
            found = self._server.run_all(index_ops.newest_sessions(terms, count))
            rows = index_ops.newest_of(found, count, count, view)
        return SessionList(rows or [])

    def rows(self, ids: Sequence[str]) -> dict[str, SessionSummary]:
        """Return the rows of the list of some live sessions, by id; those that cannot be read are left out."""
        found = self._server.fetch_all(index_ops.read_rows(self._server.terms, ids))
        values = [row for shard in found for row in shard.values()]
        return {row.id: row for row in index_ops.rows_of(values, self._seen_from())}

    def _seen_from(self) -> index_ops.View:
        active = self._project.active()
        return index_ops.View(self._server.now_ms(), self._server.terms.idle_after_ms, active)

    def read(self, ref: str | None = None) -> Session:
        """Return a session's record."""
        session_id = self.resolve(ref)
        session = self._read(session_id)
        if self.is_over(session) and self._freeze(session_id):
            session = self._read(session_id)
        return session

    def _read(self, session_id: str) -> Session:
        query = ops.read_session(self._server.terms, session_id, self._server.now_ms())
        try:
            session: Session = self._server.fetch(query)
        except SessionNotFound:
            session = (self._archived(session_id)).record()
        return session

    def is_over(self, session: Session) -> bool:
        """Tell whether a session should have been frozen by now, as far as this terminal's clock knows."""
        if session.state in FROZEN or session.ttl_seconds <= 0:
            return False
        return from_iso(session.last_activity) + session.ttl_seconds * 1000 <= self._server.now_ms()

    def source(self, ref: str | None = None) -> Source:
        """Return what a session can be read by: from the server if it has it, else from the disk."""
        session_id = self.resolve(ref)
        query = ops.read_life(self._server.terms, session_id, self._server.now_ms())
        is_live, is_over = self._server.fetch(query)
        if is_live:
            from maestro_state._sync.source import Live

            if is_over:
                self._freeze(session_id)
            return Live(self._server, session_id)
        archived = self._archived(session_id)
        with suppress(FileCorrupt):  # whoever reads on is told
            if self.is_over(archived.record()):
                self._freeze(session_id)
        return archived

    def _archived(self, session_id: str) -> Archived:
        from maestro_state._sync.archived import Archived
        from maestro_state.mirror.reader import ArchivedSession

        return Archived(ArchivedSession(self._places.own, session_id))

    def _explain(self, session_id: str, error: MaestroError) -> MaestroError:
        """Say that a session is frozen by now, or only in the archive, where nothing can be changed any more."""
        if isinstance(error, SessionNotFound) and session_id not in self._places.own.ids():
            return error
        was_over = self._freeze(session_id)
        session = self.read(session_id)
        if session.state not in FROZEN:
            return SessionExpired(session_id)
        if was_over or isinstance(error, SessionExpired):
            return SessionExpired(session_id, session.finalized_at)
        return InvalidTransition(session_id, session.state, "changing it")

    def get(self, field: str, ref: str | None = None) -> Field:
        """Read a settable field with its revision."""
        session_id = self.resolve(ref)
        query = ops.get_field(self._server.terms, session_id, field)
        try:
            found: Field = self._server.fetch(query)
        except SessionNotFound:
            found = (self._archived(session_id)).field(field)
        return found

    def set(self, field: str, value: Any, ref: str | None = None, *, if_revision: int | None = None) -> Field:
        """Replace a settable field; with `if_revision`, only if nobody changed it meanwhile (else Conflict)."""
        session_id = self.resolve(ref)
        with self._server.sequence() as sequence:
            stamp = self._server.stamp(sequence.next_key())
            call = ops.set_field(self._server.terms, stamp, session_id, field, value, if_revision)
            revision = self._server.change(session_id, call)
        return Field(field=field, value=int(value) if field == "ttl_seconds" else value, revision=int(revision))
