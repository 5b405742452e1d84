"""Which archived sessions a framework's key was bound to: found by their names, believed by their records."""

from __future__ import annotations

from collections.abc import Iterable

from maestro_state.errors import MaestroError
from maestro_state.mirror.home import Home
from maestro_state.mirror.reader import ArchivedSession
from maestro_state.models.binding import Bound
from maestro_state.models.names import slug_of
from maestro_state.models.session import Session


def bound_archives(home: Home, bound: Bound) -> list[str]:
    """Return the sessions of a key, the one to go on from first; costs reading the folder and those records."""
    found = [record for record in _named(home, bound.slug) if record.bound == bound]
    return [record.id for record in sorted(found, key=_made_at, reverse=True)]


def latest_of(homes: Iterable[Home], slug: str) -> tuple[Home, str] | None:
    """Return the last of several sessions that have one name because they went on from each other under one key; None
    when that is not why.
    """
    found = [(home, record) for home in homes for record in _named(home, slug)]
    if len({record.bound for _, record in found}) != 1 or found[0][1].bound is None:
        return None
    home, latest = max(found, key=lambda pair: _made_at(pair[1]))
    return home, latest.id


def _made_at(record: Session) -> str:
    """Each goes on from the one before: the last one made is the one that was written to last."""
    return record.created_at


def _named(home: Home, slug: str) -> list[Session]:
    found = []
    for session_id in home.ids():
        if slug_of(session_id) == slug:
            try:
                found.append(ArchivedSession(home, session_id).record())
            except MaestroError:
                continue
    return found
