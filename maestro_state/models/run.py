"""Runs as values: what was sent, how the tool was called, what came of it."""

from __future__ import annotations

from typing import Any

import msgspec


class SentItem(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One row of `sent_context.json`: exactly what a run was given."""

    id: str
    kind: str
    snapshot_blob: str
    digest: str
    path_rel: str | None = None
    role: str | None = None  #: history, project or stdin: a part of this run alone, no item
    tool: str | None = None  #: of an output: who said it,
    question: str | None = None  #: in answer to what,
    note: str | None = None  #: and why it matters


class Flags(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a run was asked for. The first two have no default: they are always written."""

    dry_run: bool
    confirm: bool
    confirmed_at: str | None = None


class OutputRef(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a run's output is, and what it must hash to."""

    path: str
    size: int | None = None
    digest: str | None = None
    removed_at: str | None = None  #: when cleanup removed it; never stored here, the archive's manifest knows it


class Usage(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What a run consumed, as its tool told; deltas where the tool counts over its whole session."""

    model: str | None = None
    tokens_input: int | None = None
    tokens_output: int | None = None
    tokens_cache_read: int | None = None  #: of the input: read from the provider's cache,
    tokens_cache_write: int | None = None  #: and written to it
    tokens_reasoning: int | None = None  #: of the output: thought, and not said
    cost: float | None = None
    tool_session: str | None = None  #: the tool's own session id
    counters: dict[str, int | float] | None = None  #: where the tool's running counters stood afterwards


class ToolOptions(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """How a tool is to be called, in Maestro's words; the catalogue turns them into the tool's own."""

    model: str | None = None
    mode: str | None = None  #: read, edit or full; none: what the tool does by itself
    arguments: list[str] = []  #: handed on as they are


class Run(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One run: `runs/0001/meta.json`."""

    id: str
    tool: str
    prompt_source: str  #: cli, stdin or file
    prompt_file: str | None = None
    flags: Flags
    status: str  #: pending, running, success, error, canceled or dry
    created_at: str
    started_at: str | None = None
    finished_at: str | None = None
    context_refs: list[str]
    context_version: list[dict[str, str]]
    output_ref: OutputRef | None = None
    error: str | None = None
    warning: str | None = None  #: what to know of a success: permissions that were refused
    exit_code: int | None = None
    usage: Usage | None = None
    cookie: str | None = None  #: the work session this run leaves a breadcrumb in
    prompt_digest: str | None = None
    timeout_s: int | None = None
    retries: int = 0  #: how often it may be tried again when its worker is lost
    env: list[str] = []  #: names of variables passed to the tool on purpose; never their values
    holders: list[str] = []  #: who was handed the asking terminal's environment; none: it sees its worker's own
    removed_at: str | None = None  #: when cleanup removed this dry run; never stored here
    model: str | None = None  #: as it was asked for; the one that answered is in `usage`
    mode: str | None = None  #: read, edit or full
    arguments: list[str] = []  #: handed to the tool as they are
    continues: str | None = None  #: the run whose conversation this one goes on with
    seen: list[str] = []  #: digests of what that conversation was sent before: not sent again
    user: str | None = None  #: who asked for it,
    terminal: str | None = None  #: and where
    working_directory: str | None = None  #: the worktree it was asked for in, if that is not the session's folder
    parts: list[dict[str, str]] = []  #: id and digest of what it was sent besides items: history, project, stdin
    traceparent: str | None = None  #: the span of the program that asked for it, where that traces
    prompt_preview: str | None = None  #: the first line of the prompt, by which people know a run in a list
    priority: str | None = None  #: low, normal or high; none: normal
    labels: list[str] = []  #: what its worker must have been given as labels

    @property
    def options(self) -> ToolOptions:
        """Return how its tool is called."""
        return ToolOptions(model=self.model, mode=self.mode, arguments=self.arguments)


class Activity(msgspec.Struct, frozen=True):
    """One thing an agent did while it ran: a line of `runs/0001/activity.jsonl`."""

    kind: str  #: tool_call, file_change, retry or denied
    name: str  #: the tool's own word for it
    summary: str  #: one line: the command, the file, the reason


class RelevantOutput(msgspec.Struct, frozen=True, omit_defaults=True):
    """One row of `outputs/relevant.json`."""

    run_id: str
    added_at: str
    note: str | None = None


#: Statuses of a run that is not over.
OPEN = ("pending", "running")

#: How soon a run is to be taken, compared with others that wait for the same workers.
PRIORITIES = ("low", "normal", "high")

#: How much later, or earlier, than it was a run counts as asked for, in milliseconds. So runs of high priority overtake
#: those of an hour, and nothing waits for ever: what is asked for later than that comes after it.
_HEAD_START_MS = 3_600_000


def turn_ms(created_ms: int, priority: str | None) -> int:
    """Return when it is a run's turn: of those that wait, the one with the smallest number is taken first."""
    ahead = 0 if priority is None else PRIORITIES.index(priority) - PRIORITIES.index("normal")
    return created_ms - ahead * _HEAD_START_MS


#: Longest beginning of a text that lists show, in characters, and of how many bytes it is made.
PREVIEW_MAX, PREVIEW_BYTES = 80, 640


def preview(content: bytes) -> str | None:
    """Return the first line that says something, by which people know a text in a list."""
    # Of a text whose beginning is empty or no text, nothing: reading on would take as long as it is.
    lines = content[:PREVIEW_BYTES].decode(errors="replace").splitlines()
    return next((line.strip()[:PREVIEW_MAX] for line in lines if line.strip()), None)


def last_output(runs: list[Run]) -> dict[str, Any] | None:
    """Return `outputs/last_output.json` for these runs: the newest successful one with output."""
    done = [run for run in runs if run.status == "success" and run.output_ref and run.output_ref.size != 0]
    if not done:
        return None
    newest = max(done, key=lambda run: (run.finished_at or run.created_at, run.id))
    timestamp = newest.finished_at or newest.created_at
    return {"run_id": newest.id, "path": f"../runs/{newest.id}/output.txt", "timestamp": timestamp}
