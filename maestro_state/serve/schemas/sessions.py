"""Shapes of sessions as wholes: lists, starting, ending, fields, archives."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from maestro_state.serve.schemas.common import Limit, Line, PageQuery, Said, Seconds

State = Literal["iniciada", "com_contexto", "executando", "com_saida", "finalizada", "abortada"]


class ListQuery(PageQuery, frozen=True, kw_only=True):
    """Which sessions."""

    state: State | None = None
    user: Line | None = None
    all: bool = False


class OverviewQuery(Said, frozen=True, kw_only=True):
    """How many sessions: the live ones that were last active."""

    limit: Limit = 50


class DeleteQuery(Said, frozen=True, kw_only=True):
    """How to delete."""

    trash: bool = False


class ExportQuery(Said, frozen=True, kw_only=True):
    """In which form; with `redact` what looks like a secret is left out."""

    format: Literal["md", "json"] = "md"
    redact: bool = False


class NewSession(Said, frozen=True, kw_only=True):
    """A session to start."""

    name: Line
    note: str | None = None
    ttl_seconds: Seconds | None = None
    tool: Line | None = None
    task_id: Line | None = None
    working_directory: Line | None = None


class EndRequest(Said, frozen=True, kw_only=True):
    """How to end a session: open runs are waited for, or canceled; without `archive` it is written to disk later."""

    cancel: bool = False
    wait: bool = False
    archive: bool = True


class AbortRequest(Said, frozen=True, kw_only=True):
    """Why a session is given up."""

    reason: Line
    archive: bool = True


class ForkRequest(Said, frozen=True, kw_only=True):
    """The name of the new session."""

    name: Line


class VerifyRequest(Said, frozen=True, kw_only=True):
    """Whether places that look like a secret are listed too."""

    secrets: bool = False


class ToolChoice(Said, frozen=True, kw_only=True):
    """The tool that runs of a session use, and how it is called."""

    tool: Line
    model: Line | None = None
    mode: Literal["read", "edit", "full"] | None = None
    arguments: list[Line] = msgspec.field(default_factory=list)


class NewValue(Said, frozen=True, kw_only=True):
    """A value for a field."""

    value: Any


class SessionRow(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One session of a list."""

    id: str
    slug: str
    state: str
    status: str
    created_at: str
    updated_at: str
    finalized_at: str | None = None
    user_id: str | None = None
    active: bool
    archived: bool
    orphan: bool
    bound: dict[str, str] | None = None


class SessionRows(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Sessions, last active first; `cursor` is that of those after them, null if there are no more; `next` is the same,
    and not there then.
    """

    sessions: list[SessionRow]
    cursor: str | None
    older: int | None = None
    next: str | None = None


class OverviewRow(SessionRow, frozen=True, omit_defaults=True, kw_only=True):
    """One session of the overview: its row of the list, and what is to be seen at a glance."""

    tool_active: str | None
    asked: str | None = None  #: how the prompt of the newest run begins
    asked_tool: str | None = None  #: and the tool, or the agent, that it went to
    runs: int
    runs_open: int
    cost_today: float
    tokens_today: int
    activity: list[int]  #: seconds with changes in each interval, the present one last


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """The live sessions that were last active; `cursor` is where `/v1/events` goes on from."""

    sessions: list[OverviewRow]
    gone: list[str]  #: ids that the list still has, of sessions that the server has no more
    interval_s: int
    total: int  #: how many live ones there are
    cost_today: float
    cursor: str


class Deleted(msgspec.Struct, frozen=True):
    """The session that is gone."""

    deleted: str
