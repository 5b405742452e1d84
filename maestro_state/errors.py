"""Every exception Maestro raises on purpose, and nothing else.

MaestroError                    code · hint · exit_code
├─ UsageError            2      bad input: refused before anything changed
│  ├─ InvalidName · InvalidValue · ContentTooLarge · PathRefused · AmbiguousReference · ConfigError
├─ NotFound              3
│  ├─ SessionNotFound · NoActiveSession · ToolNotFound · ItemNotFound · PathNotFound · RunNotFound · NoTool
├─ Refused               4      not in this state, or somebody else was first
│  ├─ InvalidTransition · SessionExpired · SessionExists · Conflict · RunIsOver · RunsOpen · LostClaim
│  ├─ SessionNotFound · NoActiveSession · WorkSessionNotFound
├─ Refused               4      not in this state, or somebody else was first
│  ├─ InvalidTransition · SessionExpired · SessionExists · Conflict
│  ├─ WorkSessionClosed · OpenChildren
├─ ServerUnavailable     5      no server, or one that cannot take the write
│  ├─ ServerStorageError · NotReplicated
├─ WorkFailed            1      the work itself failed
│  ├─ RunFailed · FileCorrupt · CursorLost
│  ├─ SessionNotFound · NoActiveSession · DiscussionNotFound · NoOpenDiscussion
├─ Refused               4      not in this state, or somebody else was first
│  ├─ InvalidTransition · SessionExpired · SessionExists · Conflict
│  ├─ DiscussionClosed · DiscussionOpen
├─ ServerUnavailable     5      no server, or one that cannot take the write
│  ├─ ServerStorageError
├─ WorkFailed            1      the work itself failed
│  ├─ FileCorrupt · CursorLost · ReplayFailed
│  ├─ FileCorrupt · CursorLost · ArchiveFailed
└─ ScriptError           1      a script answered what nobody expects: a bug

The CLI turns `exit_code` into its exit status and `code`/message/`hint` into one line or one JSON document.
A message says what happened and the present state; the hint says what to do next.
"""

from __future__ import annotations


class MaestroError(Exception):
    """Something went wrong in Maestro."""

    #: Stable snake_case name, part of the JSON contract.
    code = "error"
    #: Exit status of a command that ends with this error.
    exit_code = 1

    def __init__(self, message: str | None = None, *, hint: str | None = None) -> None:
        """Take the class docstring as the text when none is given, so that it exists once."""
        super().__init__(message or (self.__doc__ or "").strip().splitlines()[0])
        self.hint = hint


class UsageError(MaestroError):
    """The command was given something it cannot use."""

    code = "usage"
    exit_code = 2


class InvalidName(UsageError):
    """The name cannot be used for a session."""

    code = "invalid_name"


class InvalidValue(UsageError):
    """The value is not valid."""

    code = "invalid_value"


class ContentTooLarge(UsageError):
    """The content is larger than one item of context may be."""

    code = "content_too_large"


class PathRefused(UsageError):
    """The path leads out of the project, or to something that is no file."""

    code = "path_refused"


class AmbiguousReference(UsageError):
    """The reference fits more than one session."""

    code = "ambiguous_reference"

    def __init__(self, ref: str, candidates: list[str]) -> None:
        """Name every candidate, so that the next attempt can be exact."""
        shown = ", ".join(candidates[:8]) + (" …" if len(candidates) > 8 else "")
        super().__init__(f"'{ref}' fits {len(candidates)} sessions: {shown}", hint="give the full id")
        self.candidates = candidates


class ConfigError(UsageError):
    """A setting has a value Maestro cannot use."""

    code = "config"


class NotFound(MaestroError):
    """There is no such thing."""

    code = "not_found"
    exit_code = 3


class SessionNotFound(NotFound):
    """There is no such session."""

    code = "session_not_found"

    def __init__(self, ref: str, *, hint: str | None = None) -> None:
        """Name the reference as the user gave it."""
        super().__init__(f"no session '{ref}'", hint=hint or "maestro session list --all")
        self.ref = ref


class WorkSessionNotFound(NotFound):
    """There is no such work session."""

    code = "work_session_not_found"

    def __init__(self, ref: str) -> None:
        """Name the reference as the user gave it."""
        super().__init__(f"no work session '{ref[:80]}'", hint="maestro wsession list")
        self.ref = ref


class NoActiveSession(NotFound):
    """This checkout has no active session."""

    code = "no_active_session"

    def __init__(self) -> None:
        """Point to both ways of getting one."""
        super().__init__(hint="maestro session start NAME, or maestro session switch REF")


class ToolNotFound(NotFound):
    """There is no such tool."""

    code = "unknown_tool"

    def __init__(self, tool: str) -> None:
        """Name it as the user did."""
        super().__init__(
            f"'{tool[:80]}' is neither a tool Maestro knows nor a program found on PATH", hint="maestro tool list"
        )
        self.tool = tool


class ItemNotFound(NotFound):
    """There is no such context item."""

    code = "item_not_found"

    def __init__(self, session_id: str, item_id: str) -> None:
        """Say where it was looked for."""
        super().__init__(
            f"session {session_id} has no context item '{item_id[:40]}'", hint="maestro context list --all"
        )
        self.item_id = item_id


class RunNotFound(NotFound):
    """There is no such run."""

    code = "run_not_found"

    def __init__(self, session_id: str, run_id: str) -> None:
        """Say where it was looked for."""
        super().__init__(f"session {session_id} has no run '{run_id[:40]}'", hint="maestro runs")
        self.run_id = run_id


class NoTool(NotFound):
    """No tool is chosen."""

    code = "no_tool"

    def __init__(self, session_id: str) -> None:
        """Point to both ways of choosing one."""
        super().__init__(
            f"session {session_id} has no tool chosen", hint="maestro use TOOL, or maestro run --tool TOOL"
        )


class PathNotFound(NotFound):
    """There is no such file."""

    code = "path_not_found"
class DiscussionNotFound(NotFound):
    """There is no such discussion."""

    code = "discussion_not_found"

    def __init__(self, ref: str) -> None:
        """Name the reference as the user gave it."""
        super().__init__(f"no discussion '{ref[:80]}'", hint="maestro discuss list")


class NoOpenDiscussion(NotFound):
    """This checkout has no open discussion."""

    code = "no_open_discussion"

    def __init__(self) -> None:
        """Point to both ways of getting one."""
        super().__init__(hint="maestro discuss start, or --discussion REF")


class Refused(MaestroError):
    """Not possible in this state."""

    code = "refused"
    exit_code = 4


class InvalidTransition(Refused):
    """The session's state does not allow this."""

    code = "invalid_transition"

    def __init__(self, session_id: str, state: str, action: str) -> None:
        """Say the present state and the way on."""
        super().__init__(
            f"session {session_id} is {state}; {action} is not possible any more",
            hint=f"maestro session start NAME, or maestro session fork {session_id} NEW",
        )
        self.session_id, self.state, self.action = session_id, state, action


class WorkSessionClosed(Refused):
    """The work session's status does not allow this."""

    code = "work_session_closed"

    def __init__(self, work_id: str, status: str, action: str) -> None:
        """Say the present status and the way on."""
        super().__init__(
            f"work session {work_id} is {status}; {action} is not possible", hint="maestro wsession start TYPE"
        )
        self.work_id, self.status = work_id, status


class OpenChildren(Refused):
    """The work session has children that are not ended."""

    code = "open_children"

    def __init__(self, work_id: str, children: list[str]) -> None:
        """Name the children and both ways on."""
        shown = ", ".join(children[:4]) + (" …" if len(children) > 4 else "")
        super().__init__(
            f"work session {work_id} has {len(children)} open children: {shown}",
            hint="--children end ends them too, --children leave lets them go on",
        )
        self.children = children


class SessionExpired(Refused):
    """The session's time to live has passed."""

    code = "session_expired"

    def __init__(self, session_id: str) -> None:
        """It can still be read, and continued as a fork."""
        super().__init__(
            f"session {session_id} has expired and takes no more changes",
            hint=f"maestro session fork {session_id} NEW",
        )
        self.session_id = session_id


class SessionExists(Refused):
    """A session with this id exists already."""

    code = "session_exists"


class Conflict(Refused):
    """Somebody else changed it first."""

    code = "conflict"


class RunIsOver(Refused):
    """The run has ended already."""

    code = "run_is_over"

    def __init__(self, session_id: str, run_id: str, status: str) -> None:
        """Say how it ended."""
        super().__init__(f"run {run_id} of {session_id} is not open; its status is {status}", hint="maestro runs")
        self.run_id, self.status = run_id, status


class RunsOpen(Refused):
    """A run is still open."""

    code = "runs_open"

    def __init__(self, session_id: str) -> None:
        """Offer to wait or to cancel."""
        super().__init__(
            f"session {session_id} is executando: a run is still open",
            hint="maestro session end --wait, or --cancel",
        )


class LostClaim(Refused):
    """The run belongs to another attempt by now, or is over; nothing was written."""

    code = "lost_claim"


class ContextChanged(Conflict):
    """The context changed while the run was being started."""

    code = "context_changed"
class DiscussionClosed(Refused):
    """The discussion has its final JSON and is closed."""

    code = "discussion_closed"

    def __init__(self, discussion_id: str) -> None:
        """Say what can still be done with it."""
        super().__init__(
            f"discussion {discussion_id} is closed: it has its final JSON",
            hint=f"maestro discuss replay {discussion_id}, or maestro discuss start",
        )


class DiscussionOpen(Refused):
    """The discussion has no final JSON yet."""

    code = "no_final_json"

    def __init__(self, discussion_id: str) -> None:
        """Say how it gets one."""
        super().__init__(
            f"discussion {discussion_id} has no final_json yet, so there is nothing to replay",
            hint=f"maestro discuss done --discussion {discussion_id} FILE",
        )


class ServerUnavailable(MaestroError):
    """The state server cannot be reached."""

    code = "server_unavailable"
    exit_code = 5


class ServerStorageError(ServerUnavailable):
    """The state server cannot store the write (disk or memory is full, or read-only)."""

    code = "server_storage"


class NotReplicated(ServerUnavailable):
    """The change was made, but not enough replicas have it yet."""

    code = "not_replicated"

    def __init__(self, confirmed: int, wanted: int, waited_ms: int) -> None:
        """Say that the change stands: repeating the command would be refused or do it twice."""
        super().__init__(
            f"the change was made, but only {confirmed} of {wanted} replicas confirmed it within {waited_ms // 1000} s",
            hint="do not repeat it; a failover now may lose it: check the replicas (maestro doctor)",
        )
        self.confirmed, self.wanted = confirmed, wanted


class WorkFailed(MaestroError):
    """The work was started and failed."""

    code = "work_failed"


class RunFailed(WorkFailed):
    """A run did not end in success."""

    code = "run_failed"

    def __init__(self, run_id: str, status: str, reason: str | None) -> None:
        """Say how it ended, and why."""
        super().__init__(
            f"run {run_id} ended as {status}" + (f": {reason}" if reason and reason != status else ""),
            hint=f"maestro show {run_id} --meta",
        )
        self.run_id, self.status = run_id, status


class FileCorrupt(WorkFailed):
    """A file of Maestro's cannot be read."""

    code = "file_corrupt"


class ReplayFailed(WorkFailed):
    """The discussion could not be replayed; nothing was changed."""

    code = "replay_failed"


class CursorLost(WorkFailed):
    """The place to continue from is no longer in the stream."""

    code = "cursor_lost"


class ArchiveFailed(WorkFailed):
    """The archive could not be written; the session is still where it was."""

    code = "archive_failed"


class ArchiveBusy(ArchiveFailed):
    """Somebody else is writing this archive."""

    code = "archive_busy"


class ScriptError(MaestroError):
    """A script gave an answer that nothing here understands."""

    code = "script_error"
