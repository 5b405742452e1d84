"""Lists of sessions page by page: live and archived ones together, last active first, each that stays exactly once.

A page costs what it shows, and what has moved since the first one, however many sessions the server has; of archived
ones it costs what a list of them does.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from operator import itemgetter
from typing import TYPE_CHECKING

from maestro_state.errors import InvalidValue
from maestro_state.mirror.listing import archived_rows
from maestro_state.models.session import SessionList, SessionSummary
from maestro_state.state.calls import index as index_ops
from maestro_state.state.calls import index_pages as ops
from maestro_state.state.calls.checkpoints import read_time
from maestro_state.state.calls.index_pages import Place

if TYPE_CHECKING:
    from maestro_state._sync.server import Server
    from maestro_state.local.project import Project
    from maestro_state.mirror.home import Home

#: Rows of a page, at most.
LIMIT_MAX = 10_000
#: Rows read at once where the first ones were not enough: few of them may be wanted.
_MORE = 500

Wanted = Callable[[SessionSummary], bool]
Present = Callable[[index_ops.Listed], list[index_ops.LiveSummary]]


def check_limit(limit: int) -> None:
    """Raise InvalidValue for a page that is none."""
    if not 1 <= limit <= LIMIT_MAX:
        raise InvalidValue(f"a page has 1 to {LIMIT_MAX} sessions, not {limit}")


class Pages:
    """The pages of a list."""

    def __init__(self, server: Server, project: Project, home: Home, view: index_ops.View, present: Present) -> None:
        """Take what leaves out the rows of sessions that the server has let go of."""
        self._server = server
        self._project = project
        self._home = home
        self._view = view
        self._present = present

    def page(self, limit: int, cursor: str | None, is_wanted: Wanted, shown_since: str) -> SessionList:
        """Return so many rows after a cursor, with the cursor of those after them, if there are more.

        Archived ones that were last active before `shown_since` are only counted, at the end.
        """
        begun = ops.read_cursor(cursor) if cursor else None
        moment = begun.since if begun else self._now()
        self._read_disk()
        before, count = begun.place if begun else None, limit + 1
        found: list[tuple[Place, SessionSummary]] = []
        is_done = False
        while len(found) <= limit and not is_done:
            rows, before = self._read(moment, before, count)
            found += [(place, row) for place, row in rows if is_wanted(row) and not _is_old(row, shown_since)]
            is_done, count = before is None, max(count, _MORE)
        shown = SessionList([row for _, row in found[:limit]])
        if len(found) > limit:
            shown.cursor = ops.cursor_after(found[limit - 1][0], moment)
        else:
            old = [row.id for row in self._on_disk.values() if _is_old(row, shown_since) and is_wanted(row)]
            shown.older = len(old) - len(self._in_index(old))
        return shown

    def _now(self) -> int:
        """Return a moment that is over on the server: what moves from now on, moves after it."""
        now_ms: int = self._server.fetch(read_time())
        time.sleep(0.001)
        return now_ms + 1

    def _read_disk(self) -> None:
        rows = archived_rows(self._project, self._home, self._view.active, set()).rows
        self._on_disk = {row.id: row for row in rows}
        self._disk_places = sorted((ops.place_of(row.updated_at, row.id) for row in rows), reverse=True)

    def _read(
        self, moment: int, before: Place | None, count: int
    ) -> tuple[list[tuple[Place, SessionSummary]], Place | None]:
        """Return the rows that follow a place, in order, and how far that goes; None: to the end."""
        shards = self._server.terms.keys.shards
        # They are spread evenly; where this is not enough, there is another turn.
        share = index_ops.share_of(self._server.terms, count)
        parts = self._server.run_all([ops.read_places(index, moment, before, share) for index in shards])
        live = ops.places_in(parts, before)
        rows = self._rows([place.id for place in live.places])
        kept = [(place, rows[place.id]) for place in live.places if place.id in rows]
        below = [
            place
            for place in self._disk_places
            if (before is None or place < before) and (live.floor is None or place >= live.floor)
        ]
        asked = [place.id for place in below if place.id not in live.was_live]
        was_live = self._in_index(asked) | {one for one, was in live.was_live.items() if was}
        kept += [(place, self._on_disk[place.id]) for place in below if place.id not in was_live]
        return sorted(kept, key=itemgetter(0), reverse=True), live.floor

    def _rows(self, ids: list[str]) -> dict[str, SessionSummary]:
        """Return the rows of live sessions; of those that the server has let go of meanwhile, what the disk has."""
        rows: dict[str, SessionSummary] = {one: self._on_disk[one] for one in ids if one in self._on_disk}
        parts = self._server.fetch_all(index_ops.read_rows(self._server.terms, ids)) if ids else []
        values = [row for part in parts for row in part.values() if row is not None]
        return rows | {row.id: row for row in self._present(index_ops.list_sessions([values, []], self._view))}

    def _in_index(self, ids: list[str]) -> set[str]:
        parts = self._server.fetch_all(index_ops.read_rows(self._server.terms, ids)) if ids else []
        return {one for part in parts for one, row in part.items() if row is not None}


def page_of(rows: SessionList, limit: int, cursor: str | None) -> SessionList:
    """Cut a page out of a whole list: for a server on which an earlier version may still run."""
    begun = ops.read_cursor(cursor) if cursor else None
    placed = sorted(((ops.place_of(row.updated_at, row.id), row) for row in rows), key=itemgetter(0), reverse=True)
    found = [(place, row) for place, row in placed if begun is None or place < begun.place]
    page = SessionList([row for _, row in found[:limit]])
    if len(found) > limit:
        page.cursor = ops.cursor_after(found[limit - 1][0], begun.since if begun else 0)
    else:
        page.older = rows.older
    return page


def _is_old(row: SessionSummary, since: str) -> bool:
    return row.archived and row.updated_at < since
