"""What happened in a tree of work sessions, in the order of time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from maestro_state.clock import from_iso, iso
from maestro_state.models.work import Breadcrumb, WorkSession
from maestro_state.work.tree import Filters

#: Longest summary of a breadcrumb.
_GIST = 120


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
    return Happening(crumb.at_ms, "breadcrumb.applied", session_id, gist(crumb), depth)


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


def gist(crumb: Breadcrumb) -> str:
    """Say a breadcrumb in one line: who, what was asked, what it took."""
    parts = []
    tokens = crumb.token_count
    if tokens.input or tokens.output:
        parts.append(f"{tokens.input}→{tokens.output} tokens")
    if crumb.cost is not None:
        parts.append(f"{'~' if crumb.cost_estimated else ''}${crumb.cost:.4f}")
    if crumb.files_modified:
        parts.append(f"{len(crumb.files_modified)} files")
    if crumb.error:
        parts.append(f"error: {' '.join(crumb.error.split())[:60]}")
    words = " ".join(crumb.prompt.split())
    asked = words if len(words) <= _GIST else f"{words[: _GIST - 1]}…"
    head = f"{crumb.model_used}: {asked}" if crumb.model_used else asked
    return f"{head} ({', '.join(parts)})" if parts else head


def in_order(happenings: Iterable[Happening], filters: Filters) -> list[Happening]:
    """Sort by time; what happened at the same moment keeps the order it was given in."""
    return sorted((one for one in happenings if filters.has_time(one.at_ms)), key=lambda one: one.at_ms)
