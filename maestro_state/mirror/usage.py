"""What the runs of an archived session consumed: of all its files one is read, and of that only what is counted."""

from __future__ import annotations

import msgspec

from maestro_state.clock import from_iso
from maestro_state.mirror.home import Home
from maestro_state.mirror.layouts import session as layout
from maestro_state.mirror.reader import ArchivedSession
from maestro_state.mirror.view import open_view
from maestro_state.models.run import Run, Usage
from maestro_state.models.undecodable import UNDECODABLE
from maestro_state.models.usage import Consumed


class _Fields(msgspec.Struct):
    user_id: str = ""


class _Run(msgspec.Struct):
    tool: str
    status: str
    created_at: str
    usage: Usage | None = None
    user: str | None = None
    model: str | None = None


class _Record(msgspec.Struct):
    fields: _Fields
    runs: list[_Run] = []


_decode = msgspec.json.Decoder(_Record).decode


def consumed_by(run: Run | _Run, session_id: str, user: str) -> Consumed:
    """Return what is counted of a run; one that does not say whose it is counts for its session's user."""
    usage = run.usage or Usage()
    return Consumed(
        session=session_id,
        user=run.user or user,
        tool=run.tool,
        model=usage.model or run.model or "",
        created_ms=_ms(run.created_at),
        tokens_input=usage.tokens_input or 0,
        tokens_output=usage.tokens_output or 0,
        cost=usage.cost,
    )


def _ms(timestamp: str) -> int:
    """Return when a run was asked for; what another program wrote may be no time at all."""
    try:
        return from_iso(timestamp)
    except (ValueError, OverflowError, OSError):
        return 0


def consumed_in(home: Home, session_id: str) -> list[Consumed]:
    """Return what each run of an archived session consumed; raises as reading the archive does."""
    found = _own_record(home, session_id)
    if found is None:
        session, _, runs, _ = ArchivedSession(home, session_id).contents()
        return [consumed_by(run, session_id, session.user_id) for run in runs if run.status != "dry"]
    return [consumed_by(run, session_id, found.fields.user_id) for run in found.runs if run.status != "dry"]


def _own_record(home: Home, session_id: str) -> _Record | None:
    """Return what this program wrote in one file; None where there is none, or not what it should be.

    Not held to its digest, which would cost another file and twice the time: nothing but sums is made of it.
    """
    with open_view(home, session_id) as tree:
        content = tree.read(layout.RECORD, limit=layout.RECORD_LIMIT)
    try:
        return None if content is None else _decode(content)
    except UNDECODABLE:
        return None
