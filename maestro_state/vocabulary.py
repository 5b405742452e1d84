"""The states of a session and every step between them: the one table that scripts, docs and tests read.

Portuguese words are data (stored, shown, archived, never translated); the names here are how code speaks of them.
`scripts.py` hands each Lua script its row of TRANSITIONS, so no state is spelled anywhere else.
"""

from __future__ import annotations

from enum import StrEnum


class SessionState(StrEnum):
    """Where a session's work stands."""

    STARTED = "iniciada"  #: exists, no context
    WITH_CONTEXT = "com_contexto"  #: has context, nothing running
    RUNNING = "executando"  #: at least one run is open
    WITH_OUTPUT = "com_saida"  #: nothing running, output kept
    FINALIZED = "finalizada"  #: closed for good
    ABORTED = "abortada"  #: stopped before it was finished; what there is stays


class DiscussionStatus(StrEnum):
    """Whether a discussion goes on."""

    OPEN = "open"  #: takes messages
    CLOSED = "closed"  #: has its final JSON


class Liveness(StrEnum):
    """Whether anybody is working in a session; derived from its clocks, never stored."""

    ACTIVE = "active"  #: something happened within the quiet time
    IDLE = "idle"  #: quiet for longer than that
    EXPIRED = "expired"  #: quiet for longer than its time to live, or frozen


class WorkStatus(StrEnum):
    """Where a work session stands."""

    RUNNING = "running"  #: work goes on
    PAUSED = "paused"  #: nobody works on it just now; late breadcrumbs are still taken
    COMPLETED = "completed"  #: done
    FAILED = "failed"  #: ended without what it was for
    INTERRUPTED = "interrupted"  #: stopped from outside


_S = SessionState
_W = WorkStatus

#: Statuses of a work session that takes breadcrumbs and children.
WORK_OPEN = (_W.RUNNING, _W.PAUSED)

#: Statuses that are for good.
WORK_ENDED = (_W.COMPLETED, _W.FAILED, _W.INTERRUPTED)

#: What a session's state means to people; stored words stay as they are.
STATE_MEANINGS: dict[str, str] = {
    _S.STARTED: "started",
    _S.WITH_CONTEXT: "has context",
    _S.RUNNING: "running",
    _S.WITH_OUTPUT: "has output",
    _S.FINALIZED: "ended",
    _S.ABORTED: "given up",
}


def with_meaning(state: str) -> str:
    """Return a session's state as people are told it: `com_saida · has output`."""
    return f"{state} · {STATE_MEANINGS[state]}" if state in STATE_MEANINGS else state


#: States that accept changes.
LIVE = (_S.STARTED, _S.WITH_CONTEXT, _S.RUNNING, _S.WITH_OUTPUT)

#: States that accept nothing more.
FROZEN = (_S.FINALIZED, _S.ABORTED)

#: Where a session stands when its last open run has ended: it has output, else context, else neither.
RESTING = (_S.WITH_OUTPUT, _S.WITH_CONTEXT, _S.STARTED)

_D = DiscussionStatus
_Row = dict[SessionState, tuple[SessionState, ...]]
_UNMOVED: _Row = {state: (state,) for state in LIVE}
_EXECUTING: _Row = {_S.RUNNING: (_S.RUNNING,)}

#: Script → state it may be called in → states it may leave behind.
TRANSITIONS: dict[str, _Row] = {
    "add_message": _UNMOVED,
    "add_entries": _UNMOVED,
    "retract_last": _UNMOVED,
    "set_field": _UNMOVED,
    "attach_terminal": _UNMOVED,
    "finalize_session": {state: (_S.FINALIZED,) for state in LIVE if state is not _S.RUNNING},
    "abort_session": dict.fromkeys(LIVE, (_S.ABORTED,)),
    "expire_session": dict.fromkeys(LIVE, (_S.FINALIZED,)),
    "fill_session": {_S.STARTED: (_S.STARTED, _S.WITH_CONTEXT)},
    "start_run": {state: (_S.RUNNING, state) for state in LIVE},
    "claim_run": _EXECUTING,
    "add_output": _EXECUTING,
    "add_activity": _EXECUTING,
    "renew_claim": _EXECUTING,
    "finish_run": {_S.RUNNING: (_S.RUNNING, *RESTING)},
    "cancel_run": _UNMOVED | {_S.RUNNING: (_S.RUNNING, *RESTING)},
    "recover_run": _UNMOVED | {_S.RUNNING: (_S.RUNNING, *RESTING)},
    "put_blobs": _UNMOVED,
    "add_context": {**_UNMOVED, _S.STARTED: (_S.WITH_CONTEXT,)},
    "remove_context": {**_UNMOVED, _S.WITH_CONTEXT: (_S.WITH_CONTEXT, _S.STARTED)},
    "set_tool": _UNMOVED,
}

#: The same for discussions.
DISCUSSION_TRANSITIONS: dict[str, dict[DiscussionStatus, tuple[DiscussionStatus, ...]]] = {
    "add_discussion_event": {_D.OPEN: (_D.OPEN,)},
    "finish_discussion": {_D.OPEN: (_D.CLOSED,)},
}

#: The same for work sessions.
WORK_TRANSITIONS: dict[str, dict[WorkStatus, tuple[WorkStatus, ...]]] = {
    "add_child": {status: (status,) for status in WORK_OPEN},
    # One that was left in the mailbox in time is taken even after the end; the script refuses all others then.
    "add_breadcrumb": {status: (status,) for status in WorkStatus},
    # What was accepted is applied whatever became of the work session since.
    "apply_breadcrumbs": {status: (status,) for status in WorkStatus},
    "mark_work": {_W.RUNNING: (_W.PAUSED,), _W.PAUSED: (_W.RUNNING,)},
    "end_work": dict.fromkeys(WORK_OPEN, WORK_ENDED),
}


def liveness(state: str, last_activity_ms: int, ttl_ms: int, idle_after_ms: int, now_ms: int) -> Liveness:
    """Tell how alive a session is; a frozen one is expired whatever its clocks say."""
    quiet_ms = now_ms - last_activity_ms
    if state in FROZEN or quiet_ms >= ttl_ms:
        return Liveness.EXPIRED
    return Liveness.IDLE if quiet_ms >= idle_after_ms else Liveness.ACTIVE


#: Variables that are Maestro's own: addresses with their passwords. No tool sees them, whoever passes them.
OWN_SECRETS = frozenset({"MAESTRO_REDIS_URL", "MAESTRO_QUEUE_URL"})

#: Functions that a job in the queue may name: a wire format, never renamed while old jobs may wait.
EXECUTE_RUN = "maestro_workers.jobs.execute_run"
FINALIZE_SESSION = "maestro_workers.jobs.finalize_session"
SEND_ARCHIVE = "maestro_workers.jobs.send_archive"
