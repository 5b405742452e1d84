"""Shapes of what spans sessions: search, usage, tools, set-up, upkeep, tokens, signing in."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from maestro_state.models.token import Token
from maestro_state.models.worker import ToolOnWorkers, Worker
from maestro_state.serve.schemas.common import Line, Said
from maestro_state.state.calls.health import Check
from maestro_state.tools.tools_file import ToolRow

Role = Literal["read", "write", "admin"]


class SearchQuery(Said, frozen=True, kw_only=True):
    """What to look for; `kind` is one or more of message, prompt, output, context and note, with commas between."""

    q: Line
    limit: Annotated[int, Meta(ge=1, le=200)] = 20
    live: bool | None = None
    kind: Line | None = None
    session: Line | None = None
    since: Line | None = None
    rank: bool = False


class UsageQuery(Said, frozen=True, kw_only=True):
    """How to add up."""

    by: Literal["day", "tool", "model", "session", "user"] = "day"
    since: Line | None = None


class CheckTools(Said, frozen=True, kw_only=True):
    """Which tool; without one, all of the catalogue."""

    name: Line | None = None


class FindTool(Said, frozen=True, kw_only=True):
    """Which tool; without one, each that a worker has."""

    name: Line | None = None


class CleanupRequest(Said, frozen=True, kw_only=True):
    """What may go."""

    days: Annotated[int, Meta(ge=0, le=36_500)] | None = None
    dry_run: bool = False
    foreign: bool = False


class SweepRequest(Said, frozen=True, kw_only=True):
    """Whether changes that the index has lost are looked for, too."""

    thorough: bool = False


class NewTokenRequest(Said, frozen=True, kw_only=True):
    """A token to make."""

    user: Annotated[str, Meta(pattern=r"^[\w.@+-]{1,64}$")]
    role: Role = "write"
    days: Annotated[int, Meta(ge=1, le=3650)] | None = None


class McpQuery(Said, frozen=True, kw_only=True):
    """Which session; without one, the active one of the project that is served."""

    session: Line | None = None


class SignIn(Said, frozen=True, kw_only=True):
    """A token, or the one-time code of `maestro serve --open`."""

    token: Annotated[str, Meta(min_length=1, max_length=200)]


class SignedIn(msgspec.Struct, frozen=True, kw_only=True):
    """Who is signed in."""

    user: str | None
    role: str | None


class Health(msgspec.Struct, frozen=True):
    """That it serves, and whether its server answers."""

    status: Literal["ok", "unavailable"]
    version: str


class ToolRows(msgspec.Struct, frozen=True):
    """Tools, and what the last check found."""

    tools: list[ToolRow]


class ToolsOnWorkers(msgspec.Struct, frozen=True):
    """Tools, and which workers have them."""

    tools: list[ToolOnWorkers]


class Checks(msgspec.Struct, frozen=True, omit_defaults=True):
    """What doctor found."""

    checks: list[Check]
    repaired: list[str] | None = None


class Setting(msgspec.Struct, frozen=True):
    """One setting and where it came from; secrets are masked."""

    name: str
    value: Any
    source: str


class Config(msgspec.Struct, frozen=True):
    """Every setting."""

    settings: list[Setting]


class WorkerRow(Worker, frozen=True, kw_only=True):
    """One worker, as `maestro workers --json` shows it."""

    projects: list[str]


class Workers(msgspec.Struct, frozen=True):
    """Who carries runs out, and how many wait for them."""

    workers: list[WorkerRow]
    listening: int  #: processes that wait for runs; a worker has as many as it may carry out at once
    waiting: int


class Tokens(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tokens, oldest first; of none of them the secret."""

    tokens: list[Token]
    next: str | None = None


class Revoked(msgspec.Struct, frozen=True):
    """The token that lets nobody in any more."""

    revoked: str
