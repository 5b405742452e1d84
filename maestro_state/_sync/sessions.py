# Generated from maestro_state/api by `make generate`. Do not edit.
"""Sessions: start, list, status, switch, end, abort, delete, get, set."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec

from maestro_state._sync.server import Server
from maestro_state.clock import from_iso, iso, new_suffix
from maestro_state.errors import (
    FileCorrupt,
    InvalidTransition,
    MaestroError,
    NoActiveSession,
    NoProject,
    SessionExists,
    SessionExpired,
    SessionNotFound,
)
from maestro_state.local.project import IndexRow, Project
from maestro_state.models.names import is_session_id, pick, session_slug
from maestro_state.models.session import Field, Session, SessionList, SessionStatus, SessionSummary
from maestro_state.state.calls import index as index_ops
from maestro_state.state.calls import sessions as ops
from maestro_state.state.calls import terminals
from maestro_state.vocabulary import FROZEN, LIVE

if TYPE_CHECKING:
    from maestro_state._sync.archived import Archived
    from maestro_state._sync.expiry import Expiry
    from maestro_state._sync.finalize import Finalizer, Told
    from maestro_state._sync.queue import Queue
    from maestro_state._sync.source import Source
    from maestro_state.mirror.places import Places
    from maestro_state.models.context import ContextItem, ListedItem

#: What `list` returns; inside the class, `list` is the verb.
Summaries = SessionList
Rows = list[SessionSummary]
Ids = list[str]
Context = list["ContextItem"]
Listed = list["ListedItem"]
Live = list[index_ops.LiveSummary]

#: How long archived sessions stay in a plain list, in milliseconds.
ARCHIVED_SHOWN_MS = 30 * 24 * 3600 * 1000


class Sessions:
    """What can be done with sessions as wholes."""

    def __init__(
        self,
        server: Server,
        project: Project,
        pinned: str | None,
        places: Places,
        queue: Callable[[], Queue],
    ) -> None:
        """Take the checkout for its active session, the reference this terminal is pinned to, the archives, and what
        opens the queue: few calls need it.
        """
        self._open_queue = queue
        self._server = server
        self._project = project
        self._pinned = pinned
        self._places = places
        server.look_into = self._look_into

    def start(
        self,
        name: str,
        *,
        note: str | None = None,
        ttl_seconds: int | None = None,
        tool: str | None = None,
        task_id: str | None = None,
        working_directory: str | None = None,
    ) -> Session:
        """Start a session and put this checkout on it."""
        slug, ttl_ms = session_slug(name), self._ttl_ms(ttl_seconds)
        self._project.begin()
        directory = working_directory or self._project.checkout
        ops.check_directory(directory)
        options: str | None = None
        if tool is not None:
            from maestro_state.tools import options_of, stored

            chosen = stored(tool, directory, self._project.checkout)
            tool, options = chosen.name, options_of(chosen)
        fields = {
            "working_directory": directory,
            "notes": note,
            "tool_active": tool,
            "tool_options": options,
            "task_id": task_id,
            "project": self._project.path,
        }
        session = self.read(self._start(slug, ttl_ms, fields))
        self._project.index_put(IndexRow.of(session))
        self._activate(session.id)
        return session

    def namesakes(self, session: Session) -> Ids:
        """Return other sessions of the same name that are still at work, last active first."""
        listed = self._server.fetch(index_ops.list_sessions(self._server.terms, self._look()))
        found = [row for row in listed.rows if row.slug == session.slug and row.state not in FROZEN]
        live = self._present(index_ops.Listed(found, found))
        return [row.id for row in index_ops.by_activity(live, []) if row.id != session.id]

    def _start(self, slug: str, ttl_ms: int, fields: dict[str, str | None], *, life_ms: int | None = None) -> str:
        """Make a session under a new id; with `life_ms` it is not announced and goes away unless it is finished."""
        terms, archived = self._server.terms, self._places.own.ids()
        while True:
            session_id = f"{slug}--{new_suffix()}"
            if session_id in archived:
                continue
            try:
                if life_ms is None:
                    call = ops.start_session(terms, self._server.stamp(), session_id, ttl_ms, fields)
                    self._server.change(session_id, call)
                else:
                    terms = msgspec.structs.replace(terms, grace_ms=life_ms - ttl_ms)
                    self._server.run(ops.start_session(terms, self._server.stamp(), session_id, ttl_ms, fields))
            except SessionExists:
                continue
            return session_id

    def _ttl_ms(self, ttl_seconds: int | None) -> int:
        if ttl_seconds is None:
            return self._server.terms.ttl_ms
        return ops.check_ttl(ttl_seconds)

    def read(self, ref: str | None = None) -> Session:
        """Return a session's record."""
        session_id = self.resolve(ref)
        session = self._read(session_id)
        if self._is_over(session) and self._expiry().freeze(session_id):
            session = self._read(session_id)
        return session

    def _read(self, session_id: str) -> Session:
        query = ops.read_session(self._server.terms, session_id, self._server.now_ms())
        try:
            session: Session = self._server.fetch(query)
        except SessionNotFound:
            session = self._archived(session_id).record()
        return session

    def _is_over(self, session: Session) -> bool:
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
                self._expiry().freeze(session_id)
            return Live(self._server, session_id)
        archived = self._archived(session_id)
        with suppress(FileCorrupt):  # whoever reads on is told
            if self._is_over(archived.record()):
                self._expiry().freeze(session_id)
        return archived

    def _archived(self, session_id: str) -> Archived:
        from maestro_state._sync.archived import Archived
        from maestro_state.mirror.reader import ArchivedSession

        return Archived(ArchivedSession(self._places.own, session_id))

    def _look_into(self, session_id: str, error: MaestroError) -> MaestroError:
        """Say that a session is frozen by now, or only in the archive, where nothing can be changed any more."""
        if isinstance(error, SessionNotFound) and session_id not in self._places.own.ids():
            return error
        was_over = self._expiry().freeze(session_id)
        session = self.read(session_id)
        if session.state not in FROZEN:
            return SessionExpired(session_id)
        if was_over or isinstance(error, SessionExpired):
            return SessionExpired(session_id, session.finalized_at)
        return InvalidTransition(session_id, session.state, "changing it")

    def _expiry(self) -> Expiry:
        from maestro_state._sync.expiry import Expiry

        return Expiry(self._server, self._places)

    def status(self, ref: str | None = None) -> SessionStatus:
        """Return everything there is to say about a session's present."""
        from maestro_state.models.run import last_output

        source = self.source(ref)
        session, items, runs, _ = source.contents()
        context = self._drift(items)
        newest = source.last_output() if source.archived else last_output(runs)
        if source.archived:
            return SessionStatus(session, context, runs, newest, [], None)
        now, terms = self._server.now_ms(), self._server.terms
        attached = self._server.fetch(terminals.attached_terminals(terms, source.id, now))
        left_ms = from_iso(session.last_activity) + session.ttl_seconds * 1000 - now
        waits = self._waits(source.id) if session.state in FROZEN else None
        return SessionStatus(session, context, runs, newest, attached, max(0, left_ms // 1000), waits)

    def _waits(self, session_id: str) -> str | None:
        """Say why an ended session is not archived yet; None when it is."""
        from maestro_state.state.calls.checkpoints import read_progress

        progress = self._server.fetch(read_progress(self._server.terms, session_id))
        return None if progress.is_done else progress.waits or "nobody has written it yet"

    def _drift(self, items: Context) -> Listed:
        active = [item for item in items if item.state == "active"]
        if not active:
            return []
        from maestro_state.context.drift import with_drift

        return with_drift(self._project.checkout, active)

    def newest(self, count: int) -> Summaries:
        """List the live sessions last active, in one round trip however many there are."""
        rows = self._server.run(index_ops.newest_sessions(self._server.terms, count, self._look()))
        return SessionList(rows)

    def list(
        self, *, state: str | None = None, user: str | None = None, everything: bool = False, notice: bool = True
    ) -> Summaries:
        """List live sessions and this checkout's archived ones, last active first.

        Archived ones are those of the last 30 days, or `everything`; `older` counts those left out. Whose time turns
        out to be over is frozen, unless that is not to be taken `notice` of.
        """
        from maestro_state.mirror.listing import archived_rows, put_index_right

        look = self._look()
        try:
            listed = self._server.fetch(index_ops.list_sessions(self._server.terms, look))
        except NoProject:
            return SessionList([], older=0)
        live = self._present(listed)
        listing = archived_rows(self._project, self._places.own, look.active, set(map(attrgetter("id"), live)))
        archived = listing.rows
        if notice and self._freeze_listed(listed.doubtful, archived):
            return self.list(state=state, user=user, everything=everything, notice=False)
        put_index_right(self._project, listing, live)
        if state is not None or user is not None:
            live = [row for row in live if state in (None, row.state) and user in (None, row.user_id)]
            archived = [row for row in archived if state in (None, row.state) and user in (None, row.user_id)]
        since = iso(look.now_ms - ARCHIVED_SHOWN_MS)
        shown = archived if everything else [row for row in archived if row.updated_at >= since]
        return SessionList(index_ops.by_activity(live, shown), older=len(archived) - len(shown))

    def _freeze_listed(self, doubtful: Live, archived: Rows) -> bool:
        """Freeze those of a list whose time is over; tell whether there was one."""
        now_ms = self._server.now_ms()
        over = [row.id for row in doubtful if row.state in LIVE and row.last_activity_ms + row.ttl_ms <= now_ms]
        kept = [row.id for row in archived if row.state in LIVE and row.archived]
        return bool(over or kept) and self._expiry().freeze_listed(over, kept)

    def _look(self) -> index_ops.Look:
        return index_ops.Look(self._server.now_ms(), self._server.terms.idle_after_ms, self._project.active())

    def _present(self, listed: index_ops.Listed) -> Live:
        """Leave out what the index still has but the server has let go; only what may be gone is asked for."""
        rows, doubtful = listed
        keys, connection = self._server.terms.keys.records(row.id for row in doubtful), self._server.connection
        if connection.is_one_server and (not keys or connection.call("EXISTS", *keys) == len(keys)):
            return rows
        found = connection.calls([("EXISTS", key) for key in keys])
        gone = {row.id for row, exists in zip(doubtful, found, strict=True) if not exists}
        return [row for row in rows if row.id not in gone] if gone else rows

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
        if wanted == "latest":
            newest = self.newest(1) or self.list(everything=True)
            return pick(wanted, [row.id for row in newest])
        entries = self._server.fetch(index_ops.all_sessions(self._server.terms))
        known = {entry.id for entry in entries} | self._places.own.ids()
        return pick(wanted, sorted(known))

    def switch(self, ref: str) -> Session:
        """Put this checkout on a session."""
        session = self.read(ref)
        self._activate(session.id)
        return session

    def end(self, ref: str | None = None, *, archive: bool = True, told: Told | None = None) -> Session:
        """Freeze a session as finished, and return when its archive is verified; `told` hears what is being done.

        Without `archive` it is left to a worker, or the sweeper. Raises ArchiveFailed when it cannot be written: the
        session is frozen and the server keeps it.
        """
        session_id = self.resolve(ref)
        call = ops.finalize_session(self._server.terms, self._server.stamp(), session_id)
        self._server.change(session_id, call)
        return self._frozen(session_id, archive=archive, told=told)

    def abort(
        self, ref: str | None = None, *, reason: str, archive: bool = True, told: Told | None = None
    ) -> Session:
        """Freeze a session as given up; what it holds stays, and is archived as by `end`."""
        session_id = self.resolve(ref)
        call = ops.abort_session(self._server.terms, self._server.stamp(), session_id, reason)
        self._server.change(session_id, call)
        return self._frozen(session_id, archive=archive, told=told)

    def _frozen(self, session_id: str, *, archive: bool, told: Told | None) -> Session:
        session = self.read(session_id)
        self._project.index_refresh(IndexRow.of(session))
        if archive:
            self._finalizer().archive(session_id, told)
        else:
            self._finalizer().hand_over(session_id)
        return session

    def _finalizer(self) -> Finalizer:
        from maestro_state._sync.finalize import Finalizer

        return Finalizer(self._server, self._places, self._open_queue())

    def fork(self, ref: str, name: str) -> Session:
        """Start a new session from a live or an archived one, with its active items, notes, tool and messages.

        Runs stay with the old one, which the new one names. Not to be seen before it is complete.
        """
        from maestro_state._sync.fork import UNFINISHED_MS, fill_from, taken_over

        source = self.source(ref)
        origin, fields = taken_over(source, self._project.path)
        slug, ttl_ms = session_slug(name), self._ttl_ms(origin.ttl_seconds or None)
        session_id = self._start(slug, ttl_ms, fields, life_ms=UNFINISHED_MS)
        fill_from(self._server, session_id, source)
        session = self.read(session_id)
        self._project.index_put(IndexRow.of(session))
        self._activate(session_id)
        return session

    def delete(self, ref: str, *, trash: bool = False) -> str:
        """Remove a session from the server, the disk and the index, for good; or with its archive in the trash.

        For the trash it is written to disk first, so that nothing is lost that the server had.
        """
        from maestro_state._sync.deletion import delete

        session_id = self.resolve(ref)
        source = self.source(session_id)
        delete(self._server, self._places, session_id, is_live=not source.archived, trash=trash)
        if self._project.active() == session_id:
            self._project.set_active(None)
        return session_id

    def get(self, field: str, ref: str | None = None) -> Field:
        """Read a settable field with its revision."""
        session_id = self.resolve(ref)
        query = ops.get_field(self._server.terms, session_id, field)
        try:
            found: Field = self._server.fetch(query)
        except SessionNotFound:
            found = self._archived(session_id).field(field)
        return found

    def set(self, field: str, value: Any, ref: str | None = None, *, if_revision: int | None = None) -> Field:
        """Replace a settable field; with `if_revision`, only if nobody changed it meanwhile (else Conflict)."""
        session_id = self.resolve(ref)
        with self._server.sequence() as sequence:
            stamp = self._server.stamp(sequence.next_key())
            call = ops.set_field(self._server.terms, stamp, session_id, field, value, if_revision)
            revision = self._server.change(session_id, call)
        return Field(field=field, value=int(value) if field == "ttl_seconds" else value, revision=int(revision))

    def _activate(self, session_id: str) -> None:
        self._project.set_active(session_id)
        self._project.index_mark_active(session_id)
