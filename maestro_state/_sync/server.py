# Generated from maestro_state/_async by `make generate`. Do not edit.
"""Runs calls: the one place where a value from ops/ meets the connection."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from maestro_state.clock import Lane, new_command_id
from maestro_state.ops.index import entry_of, index_session
from maestro_state.ops.terms import Stamp, Terms
from maestro_state.scripts import Call, Query

if TYPE_CHECKING:
    from maestro_state.connection import AnyConnection


class Server:
    """One server under one set of terms."""

    def __init__(self, connection: AnyConnection, terms: Terms, now_ms: Callable[[], int]) -> None:
        """Take what every call needs; the connection opens itself at the first call."""
        self.connection = connection
        self.terms = terms
        self.now_ms = now_ms
        self._lanes: list[Lane] = []

    def stamp(self, command_id: str | None = None) -> Stamp:
        """Mark a call with its time and identity; a caller that repeats a call passes the id it used before."""
        return Stamp(self.now_ms(), command_id or new_command_id())

    @contextmanager
    def lane(self) -> Iterator[Lane]:
        """Lend a lane for one call: what is done by the thousand leaves one entry per client, not one per call."""
        lane = self._lanes.pop() if self._lanes else Lane()
        try:
            yield lane
        finally:
            self._lanes.append(lane)

    def run(self, call: Call) -> Any:
        """Run one script: one round trip."""
        return call.read(self.connection.script(call.script, call.keys, call.args))

    def fetch(self, query: Query) -> Any:
        """Run one plain read: one round trip."""
        return query.read(self.connection.call(*query.command))

    def change(self, session_id: str, call: Call) -> Any:
        """Run a script that changes a session, and bring the index up to date when the script says it is due."""
        value, summary = self.run(call)
        if summary:
            self.run(index_session(self.terms, entry_of(session_id, summary)))
        return value

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()
