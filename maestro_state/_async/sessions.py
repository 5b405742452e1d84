"""Sessions: start, list, status, switch, end, abort, delete, get, set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from maestro_state._async.server import AsyncServer
from maestro_state.clock import from_iso, iso, new_suffix
from maestro_state.errors import InvalidValue, NoActiveSession, SessionExists, SessionNotFound
from maestro_state.models import Field, Session, SessionStatus, SessionSummary
from maestro_state.names import is_session_id, pick, slugify
from maestro_state.ops import index as index_ops
from maestro_state.ops import sessions as ops
from maestro_state.ops import terminals
from maestro_state.project import IndexRow, Project
from maestro_state.states import Liveness

if TYPE_CHECKING:
    from maestro_state.contents import ContextItem, ListedItem

#: What `list` returns; inside the class, `list` is the verb.
Summaries = list[SessionSummary]
Context = list["ContextItem"]
Listed = list["ListedItem"]
Ids = set[str]

#: How long archived sessions stay in a plain list, in milliseconds.
ARCHIVED_SHOWN_MS = 30 * 24 * 3600 * 1000

#: Longest time to live: ten years.
TTL_MAX_S = 10 * 366 * 24 * 3600


class AsyncSessions:
    """What can be done with sessions as wholes."""

    def __init__(self, server: AsyncServer, project: Project, pinned: str | None) -> None:
        """Take the checkout for its active session, and the reference this terminal is pinned to, if any."""
        self._server = server
        self._project = project
        self._pinned = pinned

    async def start(
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
        slug, ttl_ms = slugify(name), self._ttl_ms(ttl_seconds)
        if tool is not None:
            from maestro_state.catalog import resolve

            tool = resolve(tool).name
        self._project.check_index()
        fields = {
            "working_directory": working_directory or str(self._project.root),
            "notes": note,
            "tool_active": tool,
            "task_id": task_id,
        }
        session_id = await self._start(slug, ttl_ms, fields)
        session = await self.read(session_id)
        self._project.index_put(_row(session))
        self._activate(session_id)
        return session

    async def _start(self, slug: str, ttl_ms: int, fields: dict[str, str | None]) -> str:
        terms, archived = self._server.terms, self._on_disk()
        while True:
            session_id = f"{slug}--{new_suffix()}"
            if session_id in archived:
                continue
            try:
                call = ops.start_session(terms, self._server.stamp(), session_id, ttl_ms, fields)
                await self._server.change(session_id, call)
            except SessionExists:
                continue
            return session_id

    def _ttl_ms(self, ttl_seconds: int | None) -> int:
        if ttl_seconds is None:
            return self._server.terms.ttl_ms
        if not 1 <= ttl_seconds <= TTL_MAX_S:
            raise InvalidValue(f"the time to live must be between 1 and {TTL_MAX_S} seconds, not {ttl_seconds}")
        return ttl_seconds * 1000

    async def read(self, ref: str | None = None) -> Session:
        """Return a session's record."""
        session_id = await self.resolve(ref)
        session: Session = await self._server.fetch(
            ops.read_session(self._server.terms, session_id, self._server.now_ms())
        )
        return session

    async def status(self, ref: str | None = None) -> SessionStatus:
        """Return everything there is to say about a session's present."""
        from maestro_state.ops.contents import read_items, read_runs
        from maestro_state.ops.runs import read_last_output

        session_id = await self.resolve(ref)
        now, terms = self._server.now_ms(), self._server.terms
        queries = (
            ops.read_session(terms, session_id, now),
            terminals.attached_terminals(terms, session_id, now),
            read_items(terms, session_id),
            read_runs(terms, session_id),
            read_last_output(terms, session_id),
        )
        replies = await self._server.connection.calls([query.command for query in queries])
        values = (query.read(reply) for query, reply in zip(queries, replies, strict=True))
        session, attached, items, runs, last_output = values
        left_ms = from_iso(session.last_activity) + session.ttl_seconds * 1000 - now
        return SessionStatus(
            session=session,
            context=self._drift(items),
            runs=runs,
            last_output=last_output,
            attached=attached,
            ttl_left=max(0, left_ms // 1000),
        )

    def _drift(self, items: Context) -> Listed:
        active = [item for item in items if item.state == "active"]
        if not active:
            return []
        from maestro_state.files.drift import with_drift

        return with_drift(self._project.root, active)

    async def newest(self, count: int) -> Summaries:
        """List the live sessions last active, in one round trip however many there are."""
        terms, now, active = self._server.terms, self._server.now_ms(), self._project.active()
        entries = await self._server.run(index_ops.newest_sessions(terms, count))
        return [index_ops.summary_of(terms, entry, now, active=entry.id == active) for entry in entries]

    async def list(
        self, *, state: str | None = None, user: str | None = None, everything: bool = False
    ) -> Summaries:
        """List live sessions and this checkout's archived ones, last active first.

        Archived ones are those of the last 30 days, or `everything`.
        """
        terms, now = self._server.terms, self._server.now_ms()
        entries = await self._server.fetch(index_ops.all_sessions(terms))
        active = self._project.active()
        rows = [index_ops.summary_of(terms, entry, now, active=entry.id == active) for entry in entries]
        live = {row.id for row in rows}
        since = "" if everything else iso(now - ARCHIVED_SHOWN_MS)
        rows += [row for row in self._local_rows(active) if row.id not in live and row.updated_at >= since]
        rows.sort(key=lambda row: row.updated_at, reverse=True)
        return [row for row in rows if state in (None, row.state) and user in (None, row.user_id)]

    def _local_rows(self, active: str | None) -> Summaries:
        """Return what this checkout's index knows; a row with neither live nor archived data is an orphan."""
        on_disk = self._on_disk()
        return [
            SessionSummary(
                id=row.id,
                slug=row.slug,
                state=row.state,
                status=Liveness.EXPIRED,
                created_at=row.created_at,
                updated_at=row.updated_at,
                finalized_at=row.finalized_at,
                active=row.id == active,
                archived=row.id in on_disk,
                orphan=row.id not in on_disk,
            )
            for row in self._project.index()
        ]

    async def resolve(self, ref: str | None = None) -> str:
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
            newest = await self._server.run(index_ops.newest_sessions(self._server.terms, 1))
            return pick(wanted, [entry.id for entry in newest])
        entries = await self._server.fetch(index_ops.all_sessions(self._server.terms))
        known = {entry.id for entry in entries} | self._on_disk()
        return pick(wanted, sorted(known))

    async def switch(self, ref: str) -> Session:
        """Put this checkout on a session."""
        session = await self.read(ref)
        self._activate(session.id)
        return session

    async def end(self, ref: str | None = None) -> Session:
        """Freeze a session as finished."""
        session_id = await self.resolve(ref)
        call = ops.finalize_session(self._server.terms, self._server.stamp(), session_id)
        await self._server.change(session_id, call)
        return await self._frozen(session_id)

    async def abort(self, ref: str | None = None, *, reason: str) -> Session:
        """Freeze a session as given up; what it holds stays."""
        session_id = await self.resolve(ref)
        call = ops.abort_session(self._server.terms, self._server.stamp(), session_id, reason)
        await self._server.change(session_id, call)
        return await self._frozen(session_id)

    async def _frozen(self, session_id: str) -> Session:
        session = await self.read(session_id)
        self._project.index_put(_row(session))
        return session

    async def delete(self, ref: str) -> str:
        """Remove a session from the server and from this checkout's index, for good."""
        session_id = await self.resolve(ref)
        self._project.check_index()
        # Looked for beforehand: when the answer to the removal is lost, its repeat finds nothing, and all is well.
        found = await self._server.fetch(ops.has_session(self._server.terms, session_id))
        await self._server.run(ops.delete_session(self._server.terms, session_id))
        await self._server.run(index_ops.forget_session(self._server.terms, session_id))
        if not found and session_id not in self._on_disk():
            raise SessionNotFound(session_id)
        self._project.index_drop(session_id)
        if self._project.active() == session_id:
            self._project.set_active(None)
        return session_id

    async def get(self, field: str, ref: str | None = None) -> Field:
        """Read a settable field with its revision."""
        session_id = await self.resolve(ref)
        found: Field = await self._server.fetch(ops.get_field(self._server.terms, session_id, field))
        return found

    async def set(
        self, field: str, value: Any, ref: str | None = None, *, if_revision: int | None = None
    ) -> Field:
        """Replace a settable field; with `if_revision`, only if nobody changed it meanwhile (else Conflict)."""
        session_id = await self.resolve(ref)
        with self._server.lane() as lane:
            stamp = self._server.stamp(lane.next_command_id())
            call = ops.set_field(self._server.terms, stamp, session_id, field, value, if_revision)
            revision = await self._server.change(session_id, call)
        return Field(field=field, value=value, revision=int(revision))

    def _activate(self, session_id: str) -> None:
        self._project.set_active(session_id)
        self._project.index_mark_active(session_id)

    def _on_disk(self) -> Ids:
        """Return the ids this checkout has something of on disk."""
        try:
            with self._project.sessions() as folder:
                return {name for name in folder.names() if is_session_id(name)}
        except FileNotFoundError:
            return Ids()


def _row(session: Session) -> IndexRow:
    return IndexRow(
        id=session.id,
        slug=session.slug,
        state=session.state,
        created_at=session.created_at,
        updated_at=session.updated_at,
        finalized_at=session.finalized_at,
    )
