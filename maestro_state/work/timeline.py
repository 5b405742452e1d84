"""What happened in a tree of work sessions, in the order of time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from maestro_state.clock import from_iso, iso
from maestro_state.models.work import Breadcrumb, WorkSession
from maestro_state.work.tree import Filters


class Happening(msgspec.Struct, frozen=True):
    """One line of a timeline."""

    at_ms: int
    type: str
    session_id: str
    summary: str
    depth: int = 0

    def document(self) -> dict[str, Any]:
        """Return the event as `wsession timeline` prints it."""
        return {
            "ts": iso(self.at_ms),
            "type": self.type,
            "session_id": self.session_id,
            "summary": self.summary,
            "depth": self.depth,
        }


class LogEntry(msgspec.Struct, frozen=True):
    """One entry of a work session's log."""

    id: str
    at_ms: int
    type: str
    data: dict[str, str]


def started(record: WorkSession, depth: int) -> Happening:
    """Return the first event of a work session."""
    entity = " ".join(f"{name}={value}" for name, value in record.related_entity.items())
    return Happening(from_iso(record.created), "session.started", record.session_id,
                     f"{record.session_type} {entity}".strip(), depth)  # fmt: skip


def ended(record: WorkSession, depth: int) -> Happening:
    """Return the end of a work session of which only the record is left."""
    return Happening(from_iso(record.modified), "session.ended", record.session_id, record.status, depth)


def left(session_id: str, crumb: Breadcrumb, depth: int) -> Happening:
    """Return a breadcrumb as one line."""
    return Happening(crumb.at_ms, "breadcrumb.applied", session_id, crumb.gist(), depth)


def marked(session_id: str, entry: LogEntry, depth: int) -> Happening | None:
    """Return a change of status from the log; what the timeline knows from elsewhere is None."""
    match entry.type, entry.data.get("status"):
        case "session.marked", "paused":
            return Happening(entry.at_ms, "session.paused", session_id, "", depth)
        case "session.marked", _:
            return Happening(entry.at_ms, "session.resumed", session_id, "", depth)
        case "session.ended", status:
            return Happening(entry.at_ms, "session.ended", session_id, status or "", depth)
    return None


def in_order(happenings: Iterable[Happening], filters: Filters) -> list[Happening]:
    """Sort by time; what happened at the same moment keeps the order it was given in."""
    return sorted((one for one in happenings if filters.has_time(one.at_ms)), key=lambda one: one.at_ms)
