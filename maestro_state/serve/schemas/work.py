"""Shapes of work sessions and discussions."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from maestro_state.models.discussion import Context, TranscriptEvent
from maestro_state.models.discussion import Meta as DiscussionMeta
from maestro_state.models.plan import Effect, Missing
from maestro_state.models.work import Breadcrumb, WorkSession
from maestro_state.serve.schemas.common import Limit, Line, PageQuery, Said, Seconds, Text

Status = Literal["running", "paused", "completed", "failed", "interrupted"]
Depth = Annotated[int, Meta(ge=0, le=100)]
Kind = Literal["task", "phase", "track", "repo", "issues", "runbook", "workflow", "solutions", "global"]
Contract = Literal["global", "track", "phase", "task"]


class WorkQuery(Said, frozen=True, kw_only=True):
    """Which work sessions, and of when: a time, or how long ago (`2h`)."""

    type: Line | None = None
    status: Status | None = None
    depth: Depth | None = None
    since: Line | None = None
    until: Line | None = None


class WorkPageQuery(WorkQuery, frozen=True, kw_only=True):
    """Which work sessions, a page at a time."""

    limit: Limit | None = None
    cursor: Line | None = None


class BreadcrumbsQuery(WorkPageQuery, frozen=True, kw_only=True):
    """Which breadcrumbs."""

    children: bool = False


class NewWork(Said, frozen=True, kw_only=True):
    """A work session to start."""

    type: Line
    parent: Line | None = None
    entity: dict[str, Any] = msgspec.field(default_factory=dict)
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    ttl_seconds: Seconds | None = None


class EndWork(Said, frozen=True, kw_only=True):
    """How a work session ended, and what becomes of children that are open."""

    status: Literal["completed", "failed", "interrupted"] = "completed"
    children: Literal["refuse", "end", "leave"] = "refuse"


class NewBreadcrumb(Said, frozen=True, kw_only=True):
    """A breadcrumb; the same `breadcrumb_id` twice is once."""

    prompt: str
    response: str
    breadcrumb_id: Line | None = None
    timestamp: Line | None = None
    model_used: Line | None = None
    token_count: dict[str, int] = msgspec.field(default_factory=dict)
    cost: float | None = None
    cost_estimated: bool = False
    depth_level: Depth | None = None
    error: str | None = None
    tools_called: list[dict[str, Any]] = msgspec.field(default_factory=list)
    files_modified: list[dict[str, Any]] = msgspec.field(default_factory=list)


class BreadcrumbDocument(Breadcrumb, frozen=True, kw_only=True):
    """A breadcrumb of a work session."""

    session_id: str
    applied: bool


class WorkRows(msgspec.Struct, frozen=True, omit_defaults=True):
    """Work sessions, last modified first."""

    sessions: list[WorkSession]
    next: str | None = None


class WorkShown(WorkSession, frozen=True, kw_only=True):
    """A work session, the ids of those right under it, and how many breadcrumbs it has."""

    children: list[str]
    breadcrumbs: int


class WorkNode(WorkSession, frozen=True, kw_only=True):
    """A work session with those under it."""

    children: list[WorkNode]


class WorkTree(msgspec.Struct, frozen=True):
    """Trees of work sessions."""

    tree: list[WorkNode]


class BreadcrumbRows(msgspec.Struct, frozen=True, omit_defaults=True):
    """Breadcrumbs in the order they were accepted."""

    breadcrumbs: list[BreadcrumbDocument]
    next: str | None = None


class TimelineRow(msgspec.Struct, frozen=True):
    """One thing that happened."""

    ts: str
    type: str
    session_id: str
    summary: str
    depth: int


class Timeline(msgspec.Struct, frozen=True, omit_defaults=True):
    """What happened, by time."""

    events: list[TimelineRow]
    next: str | None = None


class DiscussionsQuery(PageQuery, frozen=True, kw_only=True):
    """Which discussions."""

    status: Literal["open", "closed"] | None = None


class NewDiscussion(Said, frozen=True, kw_only=True):
    """A discussion to start."""

    kind: Kind = "global"
    ref: Line | None = None
    contract: Contract | None = None
    reason: Line | None = None
    engine: Line = "none"
    model: Line = "default"


class NewSaying(Said, frozen=True, kw_only=True):
    """Something to say in a discussion."""

    content: Text
    role: Literal["user", "assistant"] = "user"
    model: Line | None = None
    engine: Line | None = None


class DoneRequest(Said, frozen=True, kw_only=True):
    """The final JSON; without one, what the assistant said last."""

    final_json: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b"null"))


class ReplayRequest(Said, frozen=True, kw_only=True):
    """Whether the plan files are changed, or only what would change is told."""

    dry_run: bool = False


class DiscussionRow(DiscussionMeta, frozen=True, kw_only=True):
    """One discussion of a list."""

    live: bool


class DamagedDiscussion(msgspec.Struct, frozen=True):
    """A folder that cannot be read."""

    path: str
    reason: str


class DiscussionRows(msgspec.Struct, frozen=True, omit_defaults=True):
    """Discussions, last changed first."""

    discussions: list[DiscussionRow]
    damaged: list[DamagedDiscussion] = []
    next: str | None = None


class DiscussionShown(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A discussion with its events."""

    session_id: str
    context: Context
    contract_type: str
    created_at: str
    updated_at: str
    status: str
    final_json_present: bool
    engine: str
    model: str
    initial_prompt: str
    events: list[TranscriptEvent]
    warnings: list[str] = []


class SaidEvent(TranscriptEvent, frozen=True):
    """What was said, and in which discussion."""

    session_id: str


class DiscussionPrompt(msgspec.Struct, frozen=True):
    """What a tool is handed to take part."""

    prompt: str


class ReplayDocument(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What a replay did, or would do."""

    result: Literal["REPLAY_OK", "REPLAY_FAIL"]
    dry_run: bool
    ops_count: int
    operations: list[Effect]
    changed_files: list[str]
    error: str | None = None
    missing: list[Missing] = []
    warnings: list[str] = []
