"""Freezing a session that only the disk has: its time was over before anybody came to freeze it on the server.

Only an archive that this program wrote, from a server, is ever changed. Those of other programs are not ours to end.
"""

from __future__ import annotations

from typing import Any

import msgspec

from maestro_state.clock import from_iso, iso
from maestro_state.mirror.home import Home
from maestro_state.mirror.layouts import session as layout
from maestro_state.mirror.reader import ArchivedSession
from maestro_state.mirror.writer import Generation, replacing
from maestro_state.models.message import Event, id_order
from maestro_state.models.run import OPEN, OutputRef, Run
from maestro_state.models.session import Session
from maestro_state.vocabulary import FROZEN, SessionState

#: Why a run ended that was open in the last checkpoint before the server let go of its session.
LOST = "the session's time was over before the end of the run was recorded"


def is_over(record: Session, now_ms: int) -> bool:
    """Tell whether a session should have been frozen by now."""
    return record.state not in FROZEN and record.ttl_seconds > 0 and over_ms(record) <= now_ms


def over_ms(record: Session) -> int:
    """Return when a session's time is over."""
    return from_iso(record.last_activity) + record.ttl_seconds * 1000


def project_of(home: Home, session_id: str) -> str | None:
    """Return the checkout that a session was started in; None for one that this program did not write."""
    project = ArchivedSession(home, session_id).fields().get("project")
    return project if isinstance(project, str) else None


def freeze(home: Home, session_id: str, now_ms: int) -> Session | None:
    """Freeze an archived session whose time is over, in one more generation; None when that is not its case.

    Nobody may have it on a server any more: there it would be frozen.
    """
    with replacing(home, session_id) as generation:
        archived = ArchivedSession(home, session_id)
        session, old, known = archived.record(), generation.old, generation.known()
        if old is None or known is None or not old.last_id or not is_over(session, now_ms):
            return None
        frozen_at = over_ms(session)
        lost = [_ended(generation, run, frozen_at) for run in known.runs if run.status in OPEN]
        events = _events(old.last_id, frozen_at, lost)
        ended = {run.id: run for run in lost}
        runs = [ended.get(run.id, run) for run in known.runs]
        stats = msgspec.structs.replace(session.stats, runs_error=session.stats.runs_error + len(lost))
        changed: dict[str, Any] = {
            "state": str(SessionState.FINALIZED), "finalized_at": iso(frozen_at), "stats": msgspec.to_builtins(stats)
        }  # fmt: skip
        last_id = events[-1].id
        generation.keep_all()
        generation.put(layout.SESSION, layout.pretty(archived.document(layout.SESSION) | changed))
        record = msgspec.structs.replace(known, runs=runs, fields=known.fields | {"last_id": last_id})
        generation.put(layout.RECORD, layout.encode_record(record))
        for run in lost:
            generation.put(layout.run_path(run.id, "meta.json"), layout.pretty(run))
        generation.append(layout.EVENTS, layout.json_lines([event.document() for event in events]))
        generation.commit(last_id=last_id, written_at=iso(now_ms))
    return ArchivedSession(home, session_id).record()


def _ended(generation: Generation, run: Run, at_ms: int) -> Run:
    path = layout.run_path(run.id, "output.txt")
    printed = generation.old.files.get(path) if generation.old else None
    output = OutputRef(path="output.txt", size=printed.size, digest=printed.sha256) if printed else None
    return msgspec.structs.replace(run, status="error", error=LOST, finished_at=iso(at_ms), output_ref=output)


def _events(last_id: str, at_ms: int, lost: list[Run]) -> list[Event]:
    """Return what happened at the end, with ids behind all others."""
    ms, seq = id_order(last_id)
    if at_ms > ms:
        ms, seq = at_ms, -1
    ends: list[tuple[str, dict[str, Any]]] = [
        ("run.finished", {"run": run.id, "status": run.status, "finished_at": run.finished_at, "error": run.error})
        for run in lost
    ]
    ends.append(("session.finalized", {"reason": "expired"}))
    return [Event(f"{ms}-{seq + place}", kind, data) for place, (kind, data) in enumerate(ends, start=1)]
