"""Every exception Maestro raises on purpose, and nothing else.

MaestroError                    code · hint · exit_code
├─ UsageError            2      bad input: refused before anything changed
│  ├─ InvalidName · InvalidValue · AmbiguousReference · ConfigError
├─ NotFound              3
│  ├─ SessionNotFound · NoActiveSession
├─ Refused               4      not in this state, or somebody else was first
│  ├─ InvalidTransition · SessionExpired · SessionExists · Conflict
├─ ServerUnavailable     5      no server, or one that cannot take the write
│  ├─ ServerStorageError · NotReplicated
├─ WorkFailed            1      the work itself failed
│  ├─ FileCorrupt · CursorLost
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


class NoActiveSession(NotFound):
    """This checkout has no active session."""

    code = "no_active_session"

    def __init__(self) -> None:
        """Point to both ways of getting one."""
        super().__init__(hint="maestro session start NAME, or maestro session switch REF")


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


class FileCorrupt(WorkFailed):
    """A file of Maestro's cannot be read."""

    code = "file_corrupt"


class CursorLost(WorkFailed):
    """The place to continue from is no longer in the stream."""

    code = "cursor_lost"


class ScriptError(MaestroError):
    """A script gave an answer that nothing here understands."""

    code = "script_error"
