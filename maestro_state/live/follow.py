"""Following a session live: every event once, in one order, from any place on; blocked while nothing happens."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from maestro_state.clock import from_iso
from maestro_state.errors import Refused, SessionNotFound
from maestro_state.live.records import AsyncRecords
from maestro_state.live.server import AsyncServer
from maestro_state.live.source import AsyncSource
from maestro_state.models.message import Changed, Event, id_order
from maestro_state.models.session import Session, Terminal
from maestro_state.state.calls import changes as change_ops
from maestro_state.state.calls import events as ops
from maestro_state.state.calls import terminals
from maestro_state.vocabulary import FROZEN

_ENDS = ("session.finalized", "session.aborted")


class AsyncFollow:
    """The reading side of a session's streams. A follower owns its cursor; the server keeps nothing for it."""

    def __init__(self, server: AsyncServer, sessions: AsyncRecords) -> None:
        self._server = server
        self._sessions = sessions

    async def events(
        self,
        ref: str | None = None,
        *,
        cursor: str | None = None,
        until_idle_ms: int | None = None,
        terminal: Terminal | None = None,
    ) -> AsyncIterator[Event]:
        """Yield events after `cursor` (`start`, an id, or None for from now on) until the session is frozen or gone.

        With a terminal, it is shown as attached while this runs. `until_idle_ms` ends it after so long without event.
        """
        source = await self._sessions.source(ref)
        session = await source.record()
        found: Any = (
            self._archived(source, session, cursor)
            if source.archived
            else self._live(session, cursor, until_idle_ms, terminal)
        )
        # Closed at once when our caller stops: the terminal is not shown as attached any longer.
        async with aclosing(found) as events:
            async for event in events:
                yield event

    async def changes(self, cursor: str, *, wait_ms: int | None = None) -> list[Changed]:
        """Return which sessions changed after a cursor, in that order, each with its row of the list: as it is now, and
        None for one that the server has no longer. Waits for the first one if told; some thousands are kept.
        """
        while page := await self._changes(cursor, wait_ms):
            # Of one that changed more than once, the last time: what is shown of it is how it is now.
            found = {change.session_id: change for change in change_ops.changes_of(page)}
            rows = await self._sessions.rows([*found]) if found else {}
            # One that changed and has gone since is told with its going, which comes behind: else that came twice.
            told = [one for one in found.values() if one.is_gone or one.session_id in rows]
            if told:
                changed = [Changed(one.id, one.session_id, rows.get(one.session_id)) for one in told]
                return sorted(changed, key=lambda one: id_order(one.id))
            cursor = change_ops.end_of(page)
        return []

    async def _changes(self, cursor: str, wait_ms: int | None) -> Any:
        command = change_ops.read_changes(self._server.terms, cursor, wait_ms)
        if wait_ms is None:
            return await self._server.connection.call(*command)
        return await self._server.connection.block(*command, block_ms=wait_ms)

    async def newest_change(self) -> str:
        """Return the cursor of who wants to know what changes from now on."""
        found: str = await self._server.fetch(change_ops.last_change(self._server.terms))
        return found

    async def has_changes_since(self, cursor: str) -> bool:
        """Tell whether everything that changed after a cursor is still kept."""
        first = await self._server.fetch(change_ops.first_change(self._server.terms))
        return first is not None and id_order(first) <= id_order(cursor)

    async def newest(self, ref: str | None = None) -> str | None:
        """Return the id of a session's newest event, the cursor of whoever begins now; None for one only on disk."""
        source = await self._sessions.source(ref)
        record = await source.record()
        return None if source.archived else await self._first_cursor(record.id, None)

    async def attach(self, terminal: Terminal, ref: str | None = None) -> None:
        """Show a terminal as attached for a quarter of a minute; it is activity, and refused by a frozen session."""
        session_id = await self._sessions.resolve(ref)
        call = terminals.attach_terminal(self._server.terms, self._server.stamp(), session_id, terminal)
        await self._server.change(session_id, call)

    async def keep(self, terminal: Terminal, ref: str | None = None) -> None:
        """Show an attached terminal for as long again; it is no activity."""
        session_id = await self._sessions.resolve(ref)
        call = terminals.keep_terminal(self._server.terms, session_id, terminal, self._server.now_ms())
        await self._server.run(call)

    async def detach(self, terminal: Terminal, ref: str | None = None) -> None:
        """Show a terminal no longer."""
        session_id = await self._sessions.resolve(ref)
        await self._server.run(terminals.detach_terminal(self._server.terms, session_id, terminal))

    async def _live(
        self, session: Session, cursor: str | None, until_idle_ms: int | None, terminal: Terminal | None
    ) -> AsyncIterator[Event]:
        after = await self._first_cursor(session.id, cursor)
        if after == ops.START:
            yield ops.started_event(session, from_iso(session.created_at))
        quiet_ms = 0
        try:
            if terminal and session.state not in FROZEN:
                await self._attach(session.id, terminal)
            while True:
                wait_ms = terminals.BEAT_MS
                if until_idle_ms is not None:
                    wait_ms = min(wait_ms, until_idle_ms - quiet_ms)
                page = await self._read(session.id, after, None if session.state in FROZEN else max(1, wait_ms))
                for event in page:
                    yield event
                    after, quiet_ms = event.id, 0
                    if event.type in _ENDS:
                        return
                if not page:
                    quiet_ms += wait_ms
                    if session.state in FROZEN or (until_idle_ms is not None and quiet_ms >= until_idle_ms):
                        return
                    session = await self._sessions.read(session.id)
                    if terminal and session.state not in FROZEN:
                        await self._server.run(
                            terminals.keep_terminal(self._server.terms, session.id, terminal, self._server.now_ms())
                        )
        except SessionNotFound:
            return  # deleted meanwhile: there is nothing more to follow
        finally:
            if terminal:
                await self._server.run(terminals.detach_terminal(self._server.terms, session.id, terminal))

    async def _archived(self, source: AsyncSource, session: Session, cursor: str | None) -> AsyncIterator[Event]:
        """Yield what an archived session has; nothing more will come."""
        if cursor is None:
            return
        after = ops.check_cursor(cursor)
        if after == ops.START:
            yield ops.started_event(session, from_iso(session.created_at))
        async for event in source.events(after):
            yield event

    async def _rest(self, session_id: str, after: str) -> list[Event]:
        """Return what happened after an id, if the server has let go of it meanwhile: then the disk has it."""
        source = await self._sessions.source(session_id)
        return [event async for event in source.events(after)] if source.archived else []

    async def _first_cursor(self, session_id: str, cursor: str | None) -> str:
        if cursor is not None:
            return ops.check_cursor(cursor)
        found: str = await self._server.fetch(ops.last_id(self._server.terms, session_id))
        return found

    async def _read(self, session_id: str, after: str, wait_ms: int | None) -> list[Event]:
        command = ops.read_after(self._server.terms, session_id, after, wait_ms)
        if wait_ms is None:
            reply = await self._server.connection.call(*command)
            if not reply:
                return await self._rest(session_id, after)
        else:
            reply = await self._server.connection.block(*command, block_ms=wait_ms)
        return ops.merge(self._server.terms, session_id, reply)

    async def _attach(self, session_id: str, terminal: Terminal) -> None:
        try:
            call = terminals.attach_terminal(self._server.terms, self._server.stamp(), session_id, terminal)
            await self._server.change(session_id, call)
        except Refused:
            return  # frozen or expired meanwhile: the next read shows it
