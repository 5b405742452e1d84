"""The archived sessions of a checkout as rows of a list: what each says in its own session.json.

Reading ten thousand records takes a second, so rows are kept, beside what the file system says of the session.json
each was read from, in a hidden file of this machine; one call for each file then tells whether the row still holds.
index.json, which other programs and the shell read, is held against that and never believed: it only knows of sessions
that have nothing on disk.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from operator import attrgetter
from typing import Any

import msgspec

from maestro_state.errors import FileCorrupt, MaestroError
from maestro_state.fs.handles import Folder
from maestro_state.local.project import INDEX, SET_ASIDE, IndexRow, Project
from maestro_state.mirror.home import Home
from maestro_state.mirror.layouts.session import SESSION
from maestro_state.mirror.reader import ArchivedSession
from maestro_state.models.binding import Bound
from maestro_state.models.names import is_session_id, slug_of
from maestro_state.models.session import SessionSummary
from maestro_state.models.undecodable import UNDECODABLE
from maestro_state.vocabulary import Liveness

_EXPIRED = str(Liveness.EXPIRED)

#: Where rows are kept: hidden, git-ignored, only in a folder of so many sessions.
CACHE = ".listing"
CACHED_FROM = 64
_CACHE_LIMIT = 64 * 1024 * 1024
_FORMAT = 2
#: A file changed less than this before it was read may change again without a new time.
_SETTLED_NS = 100_000_000

#: What the file system says of a file: when it was changed, its size, and which one it is.
Stamp = tuple[int, int, int]
_stamp = attrgetter("st_mtime_ns", "st_size", "st_ino")
#: No file; and one that changed too short a time ago to be told from its successor.
_NO_STAMP: Stamp = (0, -1, 0)
_UNSETTLED: Stamp = (0, -2, 0)


class ArchivedSummary(SessionSummary, msgspec.Struct, frozen=True, kw_only=True, gc=False, array_like=True):
    """An archived session as a row of a list."""

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
    bound_to: Bound | None = None

    def document(self) -> dict[str, Any]:
        """Return the row as it is printed: with all its fields, since its record has no more to say."""
        fields = msgspec.structs.asdict(self)
        bound = fields.pop("bound_to")
        return fields | ({"bound": bound.document()} if bound else {})


class _Cache(msgspec.Struct, array_like=True):
    """The rows of the sessions in a folder, what each was read from, and what index.json says of others."""

    format: int
    rows: list[ArchivedSummary]
    stamps: list[Stamp]
    index: Stamp
    orphans: list[ArchivedSummary]


class Listing(msgspec.Struct, frozen=True):
    """What a checkout knows and the server does not."""

    rows: list[SessionSummary]
    index: list[IndexRow] | None = None  #: what index.json should hold; None when it is as it should be
    trouble: str = ""  #: what was wrong with it
    is_lost: bool = False  #: nothing of it could be read, so that what it said of live sessions is gone too


_decode = msgspec.msgpack.Decoder(_Cache).decode
_id = attrgetter("id")


def archived_rows(project: Project, home: Home, active: str | None, live: set[str]) -> Listing:
    """List the archived sessions that the server does not have, by their own records.

    An orphan is a row of the index with nothing on disk, or an archive whose record cannot be read.
    """
    cache = _kept(project)
    rows, stamps, is_fresh = _records(home, cache)
    at = _index_stamp(project)
    if is_fresh and cache is not None and at == cache.index:
        return Listing(_shown([*rows, *cache.orphans], active, live))
    try:
        indexed = project.index()
    except FileCorrupt as error:
        _keep(project, _Cache(_FORMAT, rows, stamps, _NO_STAMP, []))
        wanted = [_index_row(row, active) for row in rows if not row.orphan]
        return Listing(_shown(rows, active, live), wanted, str(error), is_lost=True)
    on_disk = {row.id: row for row in rows}
    known = [row for row in indexed if is_session_id(row.id)]
    orphans = [_orphan(row) for row in known if row.id not in on_disk]
    _keep(project, _Cache(_FORMAT, rows, stamps, at, orphans))
    shown = _shown([*rows, *orphans], active, live)
    count = _stale(known, on_disk, live) if at != _NO_STAMP else 0
    if not count:
        return Listing(shown)
    right = {row.id: _index_row(row, active) for row in rows if row.id not in live and not row.orphan}
    trouble = f".maestro/sessions/index.json was out of date for {count} session{'s' if count > 1 else ''}"
    return Listing(shown, list(({row.id: row for row in known} | right).values()), trouble)


def put_index_right(project: Project, listing: Listing, live: Sequence[SessionSummary]) -> None:
    """Write index.json anew where it does not say what the archives do, and say so; in a folder that cannot be written
    it stays as it is.
    """
    if listing.index is None:
        return
    known = {row.id for row in listing.index}
    added = [IndexRow.of(row, active=row.active) for row in live if row.id not in known] if listing.is_lost else []
    try:
        project.index_rebuild([*listing.index, *added])
    except (OSError, MaestroError):
        project.warn(f"{listing.trouble}; it could not be rebuilt")
    else:
        project.warn(f"{listing.trouble}: set aside as {SET_ASIDE}, rebuilt from the archives")


def _stale(indexed: list[IndexRow], on_disk: dict[str, ArchivedSummary], live: set[str]) -> int:
    """Count the archived sessions that the index does not know, or knows in another state."""
    states = {row.id: row.state for row in indexed}
    return sum(
        1 for row in on_disk.values() if not row.orphan and row.id not in live and states.get(row.id) != row.state
    )


def _shown(rows: list[ArchivedSummary], active: str | None, live: set[str]) -> list[SessionSummary]:
    if live:
        rows = [row for row in rows if row.id not in live]
    if active is not None and active not in live:
        rows = [msgspec.structs.replace(row, active=True) if row.id == active else row for row in rows]
    return list(rows)


def _index_row(row: ArchivedSummary, active: str | None) -> IndexRow:
    return IndexRow.of(row, active=row.id == active)


def _orphan(row: IndexRow) -> ArchivedSummary:
    return ArchivedSummary(
        id=row.id,
        slug=slug_of(row.id),
        state=row.state,
        created_at=row.created_at,
        updated_at=row.updated_at,
        finalized_at=row.finalized_at,
        archived=False,
        orphan=True,
    )


def _records(home: Home, cache: _Cache | None) -> tuple[list[ArchivedSummary], list[Stamp], bool]:
    """Return a row of every archive, what it was read from, and whether all of them had been kept."""
    try:
        folder = home.sessions()
    except FileNotFoundError:
        return [], [], cache is not None and not cache.rows
    with folder:
        if cache is not None and _holds(folder, cache):
            return cache.rows, cache.stamps, True
        kept = {row.id: (row, at) for row, at in zip(cache.rows, cache.stamps, strict=True)} if cache else {}
        ids = sorted(filter(is_session_id, folder.name_set()))
        found = [_record(home, one, at, kept.get(one)) for one, at in zip(ids, _stamps(folder, ids), strict=True)]
    return [row for row, _ in found], [at for _, at in found], False


def _holds(folder: Folder, cache: _Cache) -> bool:
    """Tell whether no archive came, went or changed."""
    ids, names = list(map(_id, cache.rows)), folder.name_set()
    count = len(names)
    # In place, and counted: what is left is nearly always a few hidden names.
    names.difference_update(ids)
    if count - len(names) != len(ids) or any(map(is_session_id, names)):
        return False
    return _stamps(folder, ids) == cache.stamps


def _stamps(folder: Folder, ids: list[str]) -> list[Stamp]:
    stat_of = partial(os.stat, dir_fd=folder.descriptor, follow_symlinks=False)
    paths = [f"{one}/{SESSION}" for one in ids]
    with suppress(OSError):
        return list(map(_stamp, map(stat_of, paths)))
    return [_one_stamp(stat_of, path) for path in paths]


def _one_stamp(stat_of: partial[os.stat_result], path: str) -> Stamp:
    try:
        found: Stamp = _stamp(stat_of(path))
    except OSError:
        return _NO_STAMP
    return found


def _record(
    home: Home, session_id: str, stamp: Stamp, kept: tuple[ArchivedSummary, Stamp] | None
) -> tuple[ArchivedSummary, Stamp]:
    """Read a session's record, unless what was read of it holds; one that cannot be read is shown all the same."""
    if kept is not None and stamp == kept[1]:
        return kept
    if stamp[0] > time.time_ns() - _SETTLED_NS:
        stamp = _UNSETTLED
    try:
        session = ArchivedSession(home, session_id).record()
    except MaestroError:
        row = ArchivedSummary(
            id=session_id, slug=slug_of(session_id), state="?", created_at="", updated_at="9999", orphan=True
        )
        return row, stamp
    row = ArchivedSummary(
        id=session.id,
        slug=session.slug,
        state=session.state,
        created_at=session.created_at,
        updated_at=session.updated_at,
        finalized_at=session.finalized_at,
        user_id=session.user_id,
        bound_to=session.bound,
    )
    return row, stamp


def _index_stamp(project: Project) -> Stamp:
    try:
        with project.sessions() as folder:
            status = folder.status(INDEX)
    except FileNotFoundError:
        return _NO_STAMP
    found: Stamp = _stamp(status) if status else _NO_STAMP
    return found


def _kept(project: Project) -> _Cache | None:
    """Read the kept rows; whatever is wrong with them, they are only missing."""
    try:
        with project.sessions() as folder:
            content = folder.read(CACHE, limit=_CACHE_LIMIT)
        cache = _decode(content) if content else None
    except (OSError, MaestroError, *UNDECODABLE):
        return None
    if cache is None or cache.format != _FORMAT or len(cache.rows) != len(cache.stamps):
        return None
    return cache


def _keep(project: Project, cache: _Cache) -> None:
    """Keep the rows for the next list, where there are many; a folder that cannot be written does without."""
    if len(cache.rows) < CACHED_FROM:
        return
    with suppress(OSError, MaestroError), project.sessions() as folder:
        folder.replace(CACHE, msgspec.msgpack.encode(cache), durable=False)
