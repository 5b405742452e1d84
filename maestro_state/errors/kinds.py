"""The kinds of errors: what a caller tells apart by exit code, and what belongs to no single room."""

from __future__ import annotations

from typing import Any


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

    def __reduce__(self) -> tuple[Any, ...]:
        """Go to another process as it is: made anew from its text, it would be told twice, or want more than a text."""
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[MaestroError], args: tuple[Any, ...], fields: dict[str, Any]) -> MaestroError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(fields)
    return error


class UsageError(MaestroError):
    """The command was given something it cannot use."""

    code = "usage"
    exit_code = 2


class InvalidValue(UsageError):
    """The value is not valid."""

    code = "invalid_value"


class ConfigError(UsageError):
    """A setting has a value Maestro cannot use."""

    code = "config"


class NotFound(MaestroError):
    """There is no such thing."""

    code = "not_found"
    exit_code = 3


class Refused(MaestroError):
    """Not possible in this state."""

    code = "refused"
    exit_code = 4


class NewerFormat(Refused):
    """It was written by a newer Maestro, in a form that this one does not know."""

    code = "newer_format"

    def __init__(self, what: str, found: int, known: int) -> None:
        """Say both numbers; nothing was read or changed."""
        super().__init__(
            f"{what[:120]} was written by a newer Maestro (format {found}, this one knows {known}): left as it is",
            hint="update Maestro here",
        )
        self.found, self.known = found, known


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


class DamagedRecord(WorkFailed):
    """What the server has cannot be read: it is damaged, or somebody else wrote it."""

    code = "damaged_record"

    def __init__(self, key: str, reason: str) -> None:
        """Name the key, and what is wrong with it; other sessions are not affected."""
        super().__init__(
            f"what the server has of {key[:120]} is damaged ({reason[:200]})",
            hint="maestro doctor --repair sets it aside; other sessions are not affected",
        )
        self.key, self.reason = key, reason


class CursorLost(WorkFailed):
    """The place to continue from is no longer in the stream."""

    code = "cursor_lost"


class ScriptError(MaestroError):
    """A script gave an answer that nothing here understands."""

    code = "script_error"
