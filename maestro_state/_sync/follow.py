# Generated from maestro_state/live by `make generate`. Do not edit.
"""Following a session live: every event once, in one order, from any place on; blocked while nothing happens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

from maestro_state.clock import from_iso
from maestro_state.errors import Refused, SessionNotFound
from maestro_state._sync.records import Records
from maestro_state._sync.server import Server
from maestro_state._sync.source import Source
from maestro_state.models.message import Changed, Event, id_order
from maestro_state.models.session import Session, Terminal
from maestro_state.state.calls import changes as change_ops
from maestro_state.state.calls import events as ops
from maestro_state.state.calls import terminals
from maestro_state.vocabulary import FROZEN

_ENDS = ("session.finalized", "session.aborted")


class Follow:
    """The reading side of a session's streams. A follower owns its cursor; the server keeps nothing for it."""

    def __init__(self, server: Server, sessions: Records) -> None:
        self._server = server
        self._sessions = sessions

    def events(
        self,
        ref: str | None = None,
        *,
        cursor: str | None = None,
        until_idle_ms: int | None = None,
        terminal: Terminal | None = None,
    ) -> Iterator[Event]:
        """Yield events after `cursor` (`start`, an id, or None for from now on) until the session is frozen or gone.

        With a terminal, it is shown as attached while this runs. `until_idle_ms` ends it after so long without event.
        """
        source = self._sessions.source(ref)
        session = source.record()
        found: Any = (
            self._archived(source, session, cursor)
            if source.archived
            else self._live(session, cursor, until_idle_ms, terminal)
        )
        # Closed at once when our caller stops: the terminal is not shown as attached any longer.
        with closing(found) as events:
            for event in events:
                yield event

    def changes(self, cursor: str, *, wait_ms: int | None = None) -> list[Changed]:
        """Return which sessions changed after a cursor, in that order, each with its row of the list: as it is now, and
        None for one that the server has no longer. Waits for the first one if told; some thousands are kept.
        """
        while page := self._changes(cursor, wait_ms):
            # Of one that changed more than once, the last time: what is shown of it is how it is now.
            found = {change.session_id: change for change in change_ops.changes_of(page)}
            rows = self._sessions.rows([*found]) if found else {}
            # One that changed and has gone since is told with its going, which comes behind: else that came twice.
            told = [one for one in found.values() if one.is_gone or one.session_id in rows]
            if told:
                changed = [Changed(one.id, one.session_id, rows.get(one.session_id)) for one in told]
                return sorted(changed, key=lambda one: id_order(one.id))
            cursor = change_ops.end_of(page)
        return []

    def _changes(self, cursor: str, wait_ms: int | None) -> Any:
        command = change_ops.read_changes(self._server.terms, cursor, wait_ms)
        if wait_ms is None:
            return self._server.connection.call(*command)
        return self._server.connection.block(*command, block_ms=wait_ms)

    def newest_change(self) -> str:
        """Return the cursor of who wants to know what changes from now on."""
        found: str = self._server.fetch(change_ops.last_change(self._server.terms))
        return found

    def has_changes_since(self, cursor: str) -> bool:
        """Tell whether everything that changed after a cursor is still kept."""
        first = self._server.fetch(change_ops.first_change(self._server.terms))
        return first is not None and id_order(first) <= id_order(cursor)

    def newest(self, ref: str | None = None) -> str | None:
        """Return the id of a session's newest event, the cursor of whoever begins now; None for one only on disk."""
        source = self._sessions.source(ref)
        record = source.record()
        return None if source.archived else self._first_cursor(record.id, None)

    def attach(self, terminal: Terminal, ref: str | None = None) -> None:
        """Show a terminal as attached for a quarter of a minute; it is activity, and refused by a frozen session."""
        session_id = self._sessions.resolve(ref)
        call = terminals.attach_terminal(self._server.terms, self._server.stamp(), session_id, terminal)
        self._server.change(session_id, call)

    def keep(self, terminal: Terminal, ref: str | None = None) -> None:
        """Show an attached terminal for as long again; it is no activity."""
        session_id = self._sessions.resolve(ref)
        call = terminals.keep_terminal(self._server.terms, session_id, terminal, self._server.now_ms())
        self._server.run(call)

    def detach(self, terminal: Terminal, ref: str | None = None) -> None:
        """Show a terminal no longer."""
        session_id = self._sessions.resolve(ref)
        self._server.run(terminals.detach_terminal(self._server.terms, session_id, terminal))

    def _live(
        self, session: Session, cursor: str | None, until_idle_ms: int | None, terminal: Terminal | None
    ) -> Iterator[Event]:
        after = self._first_cursor(session.id, cursor)
        if after == ops.START:
            yield ops.started_event(session, from_iso(session.created_at))
        quiet_ms = 0
        try:
            if terminal and session.state not in FROZEN:
                self._attach(session.id, terminal)
            while True:
                wait_ms = terminals.BEAT_MS
                if until_idle_ms is not None:
                    wait_ms = min(wait_ms, until_idle_ms - quiet_ms)
                page = self._read(session.id, after, None if session.state in FROZEN else max(1, wait_ms))
                for event in page:
                    yield event
                    after, quiet_ms = event.id, 0
                    if event.type in _ENDS:
                        return
                if not page:
                    quiet_ms += wait_ms
                    if session.state in FROZEN or (until_idle_ms is not None and quiet_ms >= until_idle_ms):
                        return
                    session = self._sessions.read(session.id)
                    if terminal and session.state not in FROZEN:
                        self._server.run(
                            terminals.keep_terminal(self._server.terms, session.id, terminal, self._server.now_ms())
                        )
        except SessionNotFound:
            return  # deleted meanwhile: there is nothing more to follow
        finally:
            if terminal:
                self._server.run(terminals.detach_terminal(self._server.terms, session.id, terminal))

    def _archived(self, source: Source, session: Session, cursor: str | None) -> Iterator[Event]:
        """Yield what an archived session has; nothing more will come."""
        if cursor is None:
            return
        after = ops.check_cursor(cursor)
        if after == ops.START:
            yield ops.started_event(session, from_iso(session.created_at))
        for event in source.events(after):
            yield event

    def _rest(self, session_id: str, after: str) -> list[Event]:
        """Return what happened after an id, if the server has let go of it meanwhile: then the disk has it."""
        source = self._sessions.source(session_id)
        return [event for event in source.events(after)] if source.archived else []

    def _first_cursor(self, session_id: str, cursor: str | None) -> str:
        if cursor is not None:
            return ops.check_cursor(cursor)
        found: str = self._server.fetch(ops.last_id(self._server.terms, session_id))
        return found

    def _read(self, session_id: str, after: str, wait_ms: int | None) -> list[Event]:
        command = ops.read_after(self._server.terms, session_id, after, wait_ms)
        if wait_ms is None:
            reply = self._server.connection.call(*command)
            if not reply:
                return self._rest(session_id, after)
        else:
            reply = self._server.connection.block(*command, block_ms=wait_ms)
        return ops.merge(self._server.terms, session_id, reply)

    def _attach(self, session_id: str, terminal: Terminal) -> None:
        try:
            call = terminals.attach_terminal(self._server.terms, self._server.stamp(), session_id, terminal)
            self._server.change(session_id, call)
        except Refused:
            return  # frozen or expired meanwhile: the next read shows it
