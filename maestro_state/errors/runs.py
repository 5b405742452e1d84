"""What can go wrong with context, tools and runs."""

from __future__ import annotations

from maestro_state.errors.kinds import Conflict, NotFound, Refused, UsageError, WorkFailed


class ContentTooLarge(UsageError):
    """The content is larger than one item of context may be."""

    code = "content_too_large"


class PathRefused(UsageError):
    """The path leads out of the project, or to something that is no file."""

    code = "path_refused"


class SecretFound(UsageError):
    """The file looks as if it held a secret."""

    code = "secret_found"


class PathNotFound(NotFound):
    """There is no such file."""

    code = "path_not_found"


class ItemNotFound(NotFound):
    """There is no such context item."""

    code = "item_not_found"

    def __init__(self, session_id: str, item_id: str) -> None:
        super().__init__(
            f"session {session_id} has no context item '{item_id[:40]}'", hint="maestro context list --all"
        )
        self.item_id = item_id


class ToolNotFound(NotFound):
    """There is no such tool."""

    code = "unknown_tool"

    def __init__(self, tool: str, *, is_file: bool = False) -> None:
        """Name it as the user did; `is_file` where a path leads to one that may not be started."""
        named = f"'{tool[:80]}'"
        if "/" not in tool:
            text, hint = f"{named} is neither a tool Maestro knows nor a program found on PATH", "maestro tool list"
        elif is_file:
            from shlex import quote

            text, hint = f"{named} is no program that can be started: it is not executable", f"chmod +x {quote(tool)}"
        else:
            text, hint = f"{named} is no program that can be started: there is no such file", "maestro tool list"
        super().__init__(text, hint=hint)
        self.tool = tool


class NoFittingWorker(NotFound):
    """No worker that is there has what the run needs."""

    code = "no_fitting_worker"


class NoTool(NotFound):
    """No tool is chosen."""

    code = "no_tool"

    def __init__(self, session_id: str) -> None:
        super().__init__(
            f"session {session_id} has no tool chosen", hint="maestro use TOOL, or maestro run --tool TOOL"
        )


class RunNotFound(NotFound):
    """There is no such run."""

    code = "run_not_found"

    def __init__(self, session_id: str, run_id: str) -> None:
        if run_id == "last":
            super().__init__(f"session {session_id} has no run yet that 'last' could mean", hint='maestro run "PROMPT"')
        else:
            super().__init__(f"session {session_id} has no run '{run_id[:40]}'", hint="maestro runs")
        self.run_id = run_id


class RemovedByCleanup(NotFound):
    """Cleanup removed it, when its time was over."""

    code = "removed_by_cleanup"

    def __init__(self, what: str, removed_at: str) -> None:
        super().__init__(f"{what} was removed by cleanup on {removed_at}", hint="maestro runs shows what is left")
        self.removed_at = removed_at


class NoConversation(Refused):
    """There is no conversation to go on with."""

    code = "no_conversation"


class RunIsOver(Refused):
    """The run has ended already."""

    code = "run_is_over"

    def __init__(self, session_id: str, run_id: str, status: str) -> None:
        super().__init__(f"run {run_id} of {session_id} is not open; its status is {status}", hint="maestro runs")
        self.run_id, self.status = run_id, status


class RunsOpen(Refused):
    """A run is still open."""

    code = "runs_open"

    def __init__(self, session_id: str) -> None:
        super().__init__(
            f"session {session_id} is executando: a run is still open", hint="maestro session end --wait, or --cancel"
        )


class TooManyRuns(Refused):
    """As many runs are open as may be at once."""

    code = "too_many_runs"


class OverBudget(Refused):
    """A budget is used up."""

    code = "over_budget"


class LostClaim(Refused):
    """The run belongs to another attempt by now, or is over; nothing was written."""

    code = "lost_claim"


class OutputLost(WorkFailed):
    """The server no longer has all of a run's output that it took."""

    code = "output_lost"

    def __init__(self, session_id: str, run_id: str, size: int) -> None:
        super().__init__(f"run {run_id} of {session_id}: the server lost its output after the first {size} bytes")
        self.run_id, self.size = run_id, size


class ContextChanged(Conflict):
    """The context changed while the run was being started."""

    code = "context_changed"


class RunFailed(WorkFailed):
    """A run did not end in success."""

    code = "run_failed"

    def __init__(self, run_id: str, status: str, reason: str | None) -> None:
        told = f"ended as {status}" + (f": {reason}" if reason and reason != status else "")
        if reason and reason.startswith(f"{status} "):  # canceled while it ran
            told = f"was {reason}"
        super().__init__(f"run {run_id} {told}", hint=f"maestro show {run_id} --meta")
        self.run_id, self.status = run_id, status
