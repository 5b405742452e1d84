"""What can go wrong with sessions as wholes, and with their archive."""

from __future__ import annotations

from collections.abc import Sequence

from maestro_state.errors.kinds import NotFound, Refused, ServerUnavailable, UsageError, WorkFailed
from maestro_state.vocabulary import with_meaning


class InvalidName(UsageError):
    """The name cannot be used for a session."""

    code = "invalid_name"


class AmbiguousReference(UsageError):
    """The reference fits more than one session."""

    code = "ambiguous_reference"

    def __init__(self, ref: str, candidates: list[str]) -> None:
        """Name every candidate, so that the next attempt can be exact."""
        shown = ", ".join(candidates[:8]) + (" …" if len(candidates) > 8 else "")
        super().__init__(f"'{ref}' fits {len(candidates)} sessions: {shown}", hint="give the full id")
        self.candidates = candidates


class SessionNotFound(NotFound):
    """There is no such session."""

    code = "session_not_found"

    def __init__(self, ref: str, *, hint: str | None = None, near: Sequence[str] = ()) -> None:
        meant = f"; did you mean {' or '.join(near)}?" if near else ""
        super().__init__(f"no session '{ref}'{meant}", hint=hint or "maestro session list --all")
        self.ref = ref


class NoProject(NotFound):
    """There is no project here."""

    code = "no_project"

    def __init__(self, folder: str) -> None:
        super().__init__(f"there is no project in {folder}", hint="maestro session start NAME begins one")


class NoActiveSession(NotFound):
    """This checkout has no active session."""

    code = "no_active_session"

    def __init__(self) -> None:
        super().__init__(
            "this checkout has no active session", hint="maestro session start NAME, or maestro session switch REF"
        )


class InvalidTransition(Refused):
    """The session's state does not allow this."""

    code = "invalid_transition"

    def __init__(self, session_id: str, state: str, action: str) -> None:
        super().__init__(
            f"session {session_id} is {with_meaning(state)}; {action} is not possible any more",
            hint=f"maestro session start NAME, or maestro session fork {session_id} NEW",
        )
        self.session_id, self.state, self.action = session_id, state, action


class SessionExpired(Refused):
    """The session's time to live has passed."""

    code = "session_expired"

    def __init__(self, session_id: str, finalized_at: str | None = None) -> None:
        """Say when that was, if the session is frozen for it. It can still be read, and continued as a fork."""
        what = f"is frozen: its time was over at {finalized_at}; it" if finalized_at else "has expired and"
        super().__init__(
            f"session {session_id} {what} takes no more changes",
            hint=f"maestro session fork {session_id} NEW continues it",
        )
        self.session_id, self.finalized_at = session_id, finalized_at


class SessionExists(Refused):
    """A session with this id exists already."""

    code = "session_exists"


class ArchiveFailed(WorkFailed):
    """The archive could not be written; the session is still where it was."""

    code = "archive_failed"


class ArchiveElsewhere(ArchiveFailed):
    """The folder of the session's archive cannot be reached from here."""

    code = "archive_elsewhere"


class NoWorker(ServerUnavailable):
    """No worker answered."""

    code = "no_worker"


class ArchiveBusy(ArchiveFailed):
    """Somebody else is writing this archive."""

    code = "archive_busy"
