"""What can go wrong with work sessions and discussions."""

from __future__ import annotations

from maestro_state.errors.kinds import NotFound, Refused, WorkFailed


class WorkSessionNotFound(NotFound):
    """There is no such work session."""

    code = "work_session_not_found"

    def __init__(self, ref: str) -> None:
        super().__init__(f"no work session '{ref[:80]}'", hint="maestro wsession list")
        self.ref = ref


class WorkSessionClosed(Refused):
    """The work session's status does not allow this."""

    code = "work_session_closed"

    def __init__(self, work_id: str, status: str, action: str) -> None:
        super().__init__(
            f"work session {work_id} is {status}; {action} is not possible", hint="maestro wsession start TYPE"
        )
        self.work_id, self.status = work_id, status


class OpenChildren(Refused):
    """The work session has children that are not ended."""

    code = "open_children"

    def __init__(self, work_id: str, children: list[str]) -> None:
        shown = ", ".join(children[:4]) + (" …" if len(children) > 4 else "")
        super().__init__(
            f"work session {work_id} has {len(children)} open children: {shown}",
            hint="--children end ends them too, --children leave lets them go on",
        )
        self.children = children


class DiscussionNotFound(NotFound):
    """There is no such discussion."""

    code = "discussion_not_found"

    def __init__(self, ref: str) -> None:
        super().__init__(f"no discussion '{ref[:80]}'", hint="maestro discuss list")


class NoOpenDiscussion(NotFound):
    """This checkout has no open discussion."""

    code = "no_open_discussion"

    def __init__(self) -> None:
        super().__init__(hint="maestro discuss start, or --discussion REF")


class DiscussionClosed(Refused):
    """The discussion has its final JSON and is closed."""

    code = "discussion_closed"

    def __init__(self, discussion_id: str) -> None:
        super().__init__(
            f"discussion {discussion_id} is closed: it has its final JSON",
            hint=f"maestro discuss replay {discussion_id}, or maestro discuss start",
        )


class DiscussionOpen(Refused):
    """The discussion has no final JSON yet."""

    code = "no_final_json"

    def __init__(self, discussion_id: str) -> None:
        super().__init__(
            f"discussion {discussion_id} has no final_json yet, so there is nothing to replay",
            hint=f"maestro discuss done --discussion {discussion_id} FILE",
        )


class ReplayFailed(WorkFailed):
    """The discussion could not be replayed; nothing was changed."""

    code = "replay_failed"
