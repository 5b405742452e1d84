"""Which archived sessions a framework's key was bound to: found by their names, believed by their records."""

from __future__ import annotations

from maestro_state.errors import MaestroError
from maestro_state.mirror.home import Home
from maestro_state.mirror.reader import ArchivedSession
from maestro_state.models.bound import Bound
from maestro_state.models.names import slug_of


def bound_archives(home: Home, bound: Bound) -> list[str]:
    """Return the sessions of a key, the one to go on from first; costs reading the folder and those records."""
    slug = bound.slug
    found = []
    for session_id in home.ids():
        if slug_of(session_id) != slug:
            continue
        try:
            record = ArchivedSession(home, session_id).record()
        except MaestroError:
            continue
        if record.bound == bound:
            found.append(record)
    # Each goes on from the one before: the last one made is the one that was written to last.
    return [record.id for record in sorted(found, key=lambda record: record.created_at, reverse=True)]
