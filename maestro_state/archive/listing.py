"""The archived sessions of a checkout as rows of a list: read from its index, held against what is on disk.

Ten thousand of them are listed at about what reading their index costs: rows are decoded into the form they are
returned in, and only those that are out of the ordinary are looked at one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import Any

import msgspec

from maestro_state.archive.home import Home
from maestro_state.archive.places import Places
from maestro_state.archive.reader import ArchivedSession
from maestro_state.errors import MaestroError
from maestro_state.models import SessionSummary
from maestro_state.names import is_session_id, slug_of
from maestro_state.project import IndexRow, Project
from maestro_state.states import Liveness

_EXPIRED = str(Liveness.EXPIRED)


class ArchivedSummary(SessionSummary, msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A row of the index as a row of a list."""

    id: str
    slug: str
    state: str
    status: str = _EXPIRED
    created_at: str
    updated_at: str
    finalized_at: str | None = None
    user_id: str = ""
    active: bool = False
    archived: bool = True
    orphan: bool = False

    def document(self) -> dict[str, Any]:
        """Return the row as it is printed: with all its fields, since its index has no more to say."""
        return msgspec.structs.asdict(self)


class _Rows(msgspec.Struct, frozen=True):
    sessions: list[ArchivedSummary]


_decode = msgspec.json.Decoder(_Rows).decode
_id, _is_active = attrgetter("id"), attrgetter("active")


def archived_rows(project: Project, home: Home, active: str | None, live: set[str]) -> list[SessionSummary]:
    """Return what a checkout knows and the server does not.

    An orphan is a row of the index with nothing on disk, or something on disk that the index does not know.
    """
    indexed = project.read_index(_decode)
    rows = indexed.sessions if indexed else []
    unknown = home.names()
    count = len(unknown)
    # In place, and counted before anything is compared: nearly always every row is there, and a second set of all
    # names costs as much as the rest.
    unknown.difference_update(map(_id, rows))
    is_complete = count - len(unknown) == len(rows)
    if live:
        rows = [row for row in rows if row.id not in live]
    is_marked = any(map(_is_active, rows)) or (active is not None and active not in live)
    if is_marked or not is_complete:
        on_disk = home.names()
        rows = [_corrected(row, active, on_disk) for row in rows]
    strangers = sorted(filter(is_session_id, unknown - live))
    return [*rows, *(_stranger(home, session_id, active) for session_id in strangers)]


def _corrected(row: ArchivedSummary, active: str | None, on_disk: set[str]) -> ArchivedSummary:
    is_there, is_active = row.id in on_disk, row.id == active
    if is_there and is_active == row.active:
        return row
    return msgspec.structs.replace(row, active=is_active, archived=is_there, orphan=not is_there)


def _stranger(home: Home, session_id: str, active: str | None) -> ArchivedSummary:
    """Return the row of an archive that the index does not know; one that cannot be read is shown all the same."""
    try:
        session = ArchivedSession(home, session_id).record()
    except MaestroError:
        row = IndexRow(session_id, slug_of(session_id), "?", "", "9999")
    else:
        row = IndexRow.of(session)
    return ArchivedSummary(
        id=row.id,
        slug=row.slug,
        state=row.state,
        created_at=row.created_at,
        updated_at=row.updated_at,
        finalized_at=row.finalized_at,
        active=session_id == active,
        orphan=True,
    )


def with_users(places: Places, rows: list[SessionSummary]) -> Iterator[SessionSummary]:
    """Yield rows that say whose session it is; of one that is only on disk its own record knows it, not the index."""
    for row in rows:
        if row.user_id or not row.archived or not isinstance(row, ArchivedSummary):
            yield row
            continue
        try:
            yield msgspec.structs.replace(row, user_id=ArchivedSession(places.own, row.id).record().user_id)
        except MaestroError:
            yield row
