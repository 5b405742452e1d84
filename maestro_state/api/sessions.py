"""Sessions: start, list, status, switch, end, abort, fork, delete; reading them is in `live.records`."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING

import msgspec

from maestro_state._sync.records import Records
from maestro_state._sync.server import Server
from maestro_state.clock import from_iso, iso, new_suffix
from maestro_state.errors import NoProject, SessionExists
from maestro_state.local.project import IndexRow, Project
from maestro_state.models.names import session_slug
from maestro_state.models.session import Session, SessionList, SessionStatus, SessionSummary
from maestro_state.state.calls import index as index_ops
from maestro_state.state.calls import sessions as ops
from maestro_state.state.calls import terminals
from maestro_state.vocabulary import FROZEN, LIVE

if TYPE_CHECKING:
    from maestro_state._sync.queue import Queue
    from maestro_state.mirror.places import Places
    from maestro_state.models.context import ContextItem, ListedItem
    from maestro_state.upkeep.finalize import Finalizer, Told

#: Inside the class, `list` is the verb.
Rows = list[SessionSummary]
Ids = list[str]
Context = list["ContextItem"]
Listed = list["ListedItem"]
Live = list[index_ops.LiveSummary]

#: How long archived sessions stay in a plain list, in milliseconds.
ARCHIVED_SHOWN_MS = 30 * 24 * 3600 * 1000


class Sessions(Records):
    """What can be done with sessions as wholes."""

    def __init__(
        self,
        server: Server,
        project: Project,
        pinned: str | None,
        places: Callable[[], Places],
        queue: Callable[[], Queue],
    ) -> None:
        """Take what records need, and what opens the queue: few calls need it."""
        super().__init__(server, project, pinned, places, self._freeze_over, self._all)
        self._open_queue = queue

    def _freeze_over(self, session_id: str) -> bool:
        from maestro_state.upkeep.expiry import Expiry

        return Expiry(self._server, self._places).freeze(session_id)

    def _all(self) -> Ids:
        return [row.id for row in self.list(everything=True)]

    def start(
        self,
        name: str,
        *,
        note: str | None = None,
        ttl_seconds: int | None = None,
        tool: str | None = None,
        task_id: str | None = None,
        working_directory: str | None = None,
        activate: bool = True,
    ) -> Session:
        """Start a session and put this checkout on it, unless that is not to `activate` it."""
        slug, ttl_ms = session_slug(name), self._ttl_ms(ttl_seconds)
        self._project.begin()
        directory = working_directory or self._project.checkout
        ops.check_directory(directory)
        options: str | None = None
        if tool is not None:
            from maestro_state.api.run_choices import offered_by_workers
            from maestro_state.tools import options_of, stored

            chosen = stored(tool, directory, self._project.checkout, elsewhere=offered_by_workers(self._server))
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
        if activate:
            self._activate(session.id)
        return session

    def namesakes(self, session: Session) -> Ids:
        """Return other sessions of the same name that are still at work, last active first."""
        listed = self._listed(self._view())
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

    def list(
        self, *, state: str | None = None, user: str | None = None, everything: bool = False, notice: bool = True
    ) -> SessionList:
        """List live sessions and this checkout's archived ones, last active first.

        Archived ones are those of the last 30 days, or `everything`; `older` counts those left out. Whose time turns
        out to be over is frozen, unless that is not to be taken `notice` of.
        """
        from maestro_state.mirror.listing import archived_rows, put_index_right

        view = self._view()
        try:
            listed = self._listed(view)
        except NoProject:
            return SessionList([], older=0)
        live = self._present(listed)
        listing = archived_rows(self._project, self._places.own, view.active, set(map(attrgetter("id"), live)))
        archived = listing.rows
        if notice and self._freeze_listed(listed.doubtful, archived):
            return self.list(state=state, user=user, everything=everything, notice=False)
        put_index_right(self._project, listing, live)
        if state is not None or user is not None:
            live = [row for row in live if state in (None, row.state) and user in (None, row.user_id)]
            archived = [row for row in archived if state in (None, row.state) and user in (None, row.user_id)]
        since = iso(view.now_ms - ARCHIVED_SHOWN_MS)
        shown = archived if everything else [row for row in archived if row.updated_at >= since]
        return SessionList(index_ops.by_activity(live, shown), older=len(archived) - len(shown))

    def page(
        self,
        limit: int,
        cursor: str | None = None,
        *,
        state: str | None = None,
        user: str | None = None,
        everything: bool = False,
        notice: bool = True,
    ) -> SessionList:
        """List so many sessions as `list` does, from the `cursor` on that the page before has; None at the end.

        All pages are of the moment of the first one: a session that stays is on one of them, however often it, or any
        other, changes meanwhile. Costs what it shows, however many the server has.
        """
        from maestro_state.api.session_pages import Pages, check_limit, page_of

        check_limit(limit)
        view = self._view()
        try:
            is_one = self._server.connection.call("EXISTS", *self._server.terms.keys.all_of("summaries")[-1:])
        except NoProject:
            return SessionList()
        if is_one:
            rows = self.list(state=state, user=user, everything=everything, notice=notice)
            return page_of(rows, limit, cursor)

        def is_wanted(row: SessionSummary) -> bool:
            return state in (None, row.state) and user in (None, row.user_id)

        pages = Pages(self._server, self._project, self._places.own, view, self._present)
        shown_since = "" if everything else iso(view.now_ms - ARCHIVED_SHOWN_MS)
        page = pages.page(limit, cursor, is_wanted, shown_since)
        live = [row for row in page if isinstance(row, index_ops.LiveSummary)]
        if notice and self._freeze_listed(live, [row for row in page if row.archived]):
            return self.page(limit, cursor, state=state, user=user, everything=everything, notice=False)
        return page

    def _freeze_listed(self, doubtful: Live, archived: Rows) -> bool:
        """Freeze those of a list whose time is over; tell whether there was one."""
        now_ms = self._server.now_ms()
        over = [row.id for row in doubtful if row.state in LIVE and row.last_activity_ms + row.ttl_ms <= now_ms]
        kept = [row.id for row in archived if row.state in LIVE and row.archived]
        if not over and not kept:
            return False
        from maestro_state.upkeep.expiry import Expiry

        return Expiry(self._server, self._places).freeze_listed(over, kept)

    def _listed(self, view: index_ops.View) -> index_ops.Listed:
        return index_ops.list_sessions(self._server.fetch_all(index_ops.all_rows(self._server.terms)), view)

    def _view(self) -> index_ops.View:
        return index_ops.View(self._server.now_ms(), self._server.terms.idle_after_ms, self._project.active())

    def _present(self, listed: index_ops.Listed) -> Live:
        """Leave out what the index still has but the server has let go; only what may be gone is asked for."""
        rows, doubtful = listed
        keys, connection = self._server.terms.keys.records(row.id for row in doubtful), self._server.connection
        if connection.is_one_server and (not keys or connection.call("EXISTS", *keys) == len(keys)):
            return rows
        found = connection.calls([("EXISTS", key) for key in keys])
        gone = {row.id for row, exists in zip(doubtful, found, strict=True) if not exists}
        return [row for row in rows if row.id not in gone] if gone else rows

    def switch(self, ref: str) -> Session:
        """Put this checkout on a session."""
        session = self.read(ref)
        self._activate(session.id)
        return session

    def end(self, ref: str | None = None, *, archive: bool = True, told: Told | None = None) -> Session:
        """Freeze a session as finished, and return when its archive is verified; `told` hears what is being done.

        Without `archive` it is left to a worker, or the sweep. Raises ArchiveFailed when it cannot be written: the
        session is frozen and the server keeps it.
        """
        session_id = self.resolve(ref)
        call = ops.finalize_session(self._server.terms, self._server.stamp(), session_id)
        self._server.change(session_id, call)
        return self._frozen(session_id, archive=archive, told=told)

    def abort(self, ref: str | None = None, *, reason: str, archive: bool = True, told: Told | None = None) -> Session:
        """Freeze a session as given up; what it holds stays, and is archived as by `end`."""
        session_id = self.resolve(ref)
        call = ops.abort_session(self._server.terms, self._server.stamp(), session_id, reason)
        self._server.change(session_id, call)
        return self._frozen(session_id, archive=archive, told=told)

    def _frozen(self, session_id: str, *, archive: bool, told: Told | None) -> Session:
        session = self._read(session_id)
        self._project.index_refresh(IndexRow.of(session))
        if archive:
            self._finalizer().finalize(session_id, told)
        else:
            self._finalizer().hand_over(session_id)
        return session

    def _finalizer(self) -> Finalizer:
        from maestro_state.upkeep.finalize import Finalizer

        return Finalizer(self._server, self._places, self._open_queue())

    def fork(self, ref: str, name: str, *, activate: bool = True) -> Session:
        """Start a new session from a live or an archived one, with its active items, notes, tool and messages.

        Runs stay with the old one, which the new one names. Not to be seen before it is complete.
        """
        from maestro_state.api.fork import UNFINISHED_MS, fill_from, taken_over

        source = self.source(ref)
        origin, fields = taken_over(source, self._project.path)
        slug, ttl_ms = session_slug(name), self._ttl_ms(origin.ttl_seconds or None)
        session_id = self._start(slug, ttl_ms, fields, life_ms=UNFINISHED_MS)
        fill_from(self._server, session_id, source)
        session = self.read(session_id)
        self._project.index_put(IndexRow.of(session))
        if activate:
            self._activate(session_id)
        return session

    def delete(self, ref: str, *, trash: bool = False) -> str:
        """Remove a session from the server, the disk and the index, for good; or with its archive in the trash.

        For the trash it is written to disk first, so that nothing is lost that the server had.
        """
        from maestro_state.upkeep.deletion import delete

        session_id = self.resolve(ref)
        source = self.source(session_id)
        delete(self._server, self._places, session_id, is_live=not source.archived, trash=trash)
        if self._project.active() == session_id:
            self._project.set_active(None)
        return session_id

    def _activate(self, session_id: str) -> None:
        self._project.set_active(session_id)
        self._project.index_mark_active(session_id)
