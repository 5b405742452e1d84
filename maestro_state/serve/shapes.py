"""What requests may say and what answers look like, as values: checked when a request comes, shown in OpenAPI.

Answers have the fields of the documents that commands print with `--json`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from maestro_state.models.context import ContextItem, ListedItem
from maestro_state.models.run import Run

Text = Annotated[str, Meta(min_length=1)]
Line = Annotated[str, Meta(min_length=1, max_length=1000)]
StreamId = Annotated[str, Meta(pattern=r"^[0-9]{1,20}-[0-9]{1,20}$")]
State = Literal["iniciada", "com_contexto", "executando", "com_saida", "finalizada", "abortada"]


class _Said(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a request says; a name that is not known is refused, not passed over."""


class Nothing(_Said, frozen=True, kw_only=True):
    """Nothing."""


class ListQuery(_Said, frozen=True, kw_only=True):
    """Which sessions."""

    state: State | None = None
    user: Line | None = None
    all: bool = False
    limit: Annotated[int, Meta(ge=1, le=1000)] | None = None
    cursor: Line | None = None


class DeleteQuery(_Said, frozen=True, kw_only=True):
    """How to delete."""

    trash: bool = False


class MessagesQuery(_Said, frozen=True, kw_only=True):
    """Which messages."""

    last: Annotated[int, Meta(ge=1, le=100_000)] | None = None
    since: StreamId | None = None
    for_model: bool = False


class ContextQuery(_Said, frozen=True, kw_only=True):
    """Which items."""

    all: bool = False


class EventsQuery(_Said, frozen=True, kw_only=True):
    """Where to begin."""

    from_: Line | None = msgspec.field(default=None, name="from")


class SearchQuery(_Said, frozen=True, kw_only=True):
    """What to look for."""

    q: Line
    limit: Annotated[int, Meta(ge=1, le=200)] = 20
    live: bool | None = None


class UsageQuery(_Said, frozen=True, kw_only=True):
    """How to add up."""

    by: Literal["day", "tool", "model", "session", "user"] = "day"
    since: Line | None = None


class NewSession(_Said, frozen=True, kw_only=True):
    """A session to start."""

    name: Line
    note: str | None = None
    ttl_seconds: Annotated[int, Meta(ge=1, le=10 * 365 * 24 * 3600)] | None = None
    tool: Line | None = None
    task_id: Line | None = None
    working_directory: Line | None = None


class EndRequest(_Said, frozen=True, kw_only=True):
    """How to end a session; without `archive` it is written to disk later."""

    cancel: bool = False
    archive: bool = True


class AbortRequest(_Said, frozen=True, kw_only=True):
    """Why a session is given up."""

    reason: Line
    archive: bool = True


class ForkRequest(_Said, frozen=True, kw_only=True):
    """The name of the new session."""

    name: Line


class NewMessage(_Said, frozen=True, kw_only=True):
    """A message to add."""

    role: Literal["user", "assistant", "system", "tool"]
    content: str
    metadata: dict[str, Any] | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_results: list[dict[str, Any]] | None = None
    parent_id: StreamId | None = None


class NewContext(_Said, frozen=True, kw_only=True):
    """Files of the project, by path, or a text; one of the two."""

    path: Line | None = None
    paths: list[Line] | None = None
    text: Text | None = None
    labels: list[Line] = []
    note: Line | None = None


class NewRun(_Said, frozen=True, kw_only=True):
    """A run to start."""

    prompt: Text
    tool: Line | None = None
    model: Line | None = None
    mode: Literal["read", "edit", "full"] | None = None
    continues: Line | None = None
    history: Annotated[int, Meta(ge=0, le=100_000)] | None = None
    timeout_s: Annotated[int, Meta(ge=1, le=7 * 24 * 3600)] | None = None
    dry: bool = False


class NewValue(_Said, frozen=True, kw_only=True):
    """A value for a field."""

    value: Any


class SignIn(_Said, frozen=True, kw_only=True):
    """A token, or the one-time code of `maestro serve --open`."""

    token: Annotated[str, Meta(min_length=1, max_length=200)]


class SignedIn(msgspec.Struct, frozen=True, kw_only=True):
    """Who is signed in."""

    user: str | None
    role: str | None


class ErrorText(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong: a stable name, one line, and what to do next."""

    code: str
    message: str
    hint: str | None


class ErrorDocument(msgspec.Struct, frozen=True):
    """Any failure."""

    error: ErrorText


class Health(msgspec.Struct, frozen=True):
    """That it serves, and whether its server answers."""

    status: Literal["ok", "unavailable"]
    version: str


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


class SessionRows(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Sessions, last active first; `next` is the cursor of those after them, if there are more."""

    sessions: list[SessionRow]
    older: int | None = None
    next: str | None = None


class Deleted(msgspec.Struct, frozen=True):
    """The session that is gone."""

    deleted: str


class MessageDocument(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One message."""

    id: str
    role: str
    content: str
    timestamp: str
    metadata: dict[str, Any] | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_results: list[dict[str, Any]] | None = None
    parent_id: str | None = None
    user: str | None = None
    content_ref: str | None = None


class Messages(msgspec.Struct, frozen=True):
    """Messages, oldest first."""

    messages: list[MessageDocument]


class Items(msgspec.Struct, frozen=True):
    """Items of context."""

    items: list[ContextItem]


class ListedItems(msgspec.Struct, frozen=True):
    """Items of context as they are now."""

    items: list[ListedItem]


class ShownItem(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """An item and its content; of one that is no text, base64."""

    item: ContextItem
    content: str | None = None
    content_base64: str | None = None


class Runs(msgspec.Struct, frozen=True):
    """Runs, oldest first."""

    runs: list[Run]


class OneRun(msgspec.Struct, frozen=True):
    """A run."""

    run: Run


class RunOutput(msgspec.Struct, frozen=True):
    """A run and what it printed; null when cleanup removed it."""

    run: Run
    output: str | None


class SearchResults(msgspec.Struct, frozen=True):
    """What was found."""

    results: list[dict[str, Any]]
    total: int
