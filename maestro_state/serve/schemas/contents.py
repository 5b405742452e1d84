"""Shapes of what a session holds: messages, context, runs, events."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from maestro_state.models.context import ContextItem, ListedItem
from maestro_state.models.message import Event
from maestro_state.models.run import Run, SentItem
from maestro_state.serve.schemas.common import Line, PageQuery, Said, StreamId, Text, Wait


class MessagesQuery(Said, frozen=True, kw_only=True):
    """Which messages: the last ones, those after one, those before one."""

    last: Annotated[int, Meta(ge=1, le=100_000)] | None = None
    since: StreamId | None = None
    before: StreamId | None = None
    for_model: bool = False


class ContextQuery(PageQuery, frozen=True, kw_only=True):
    """Which items."""

    all: bool = False


class EventsQuery(Said, frozen=True, kw_only=True):
    """Where to begin."""

    from_: Line | None = msgspec.field(default=None, name="from")


class WaitQuery(Said, frozen=True, kw_only=True):
    """Which runs, by number and with commas between (without: those open now), and how long they are waited for."""

    runs: Line | None = None
    timeout_s: Wait = 30.0


class NewMessage(Said, frozen=True, kw_only=True):
    """A message to add."""

    role: Literal["user", "assistant", "system", "tool"]
    content: str
    metadata: dict[str, Any] | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_results: list[dict[str, Any]] | None = None
    parent_id: StreamId | None = None


class NewContext(Said, frozen=True, kw_only=True):
    """Files of the project, by path, or a text; one of the two."""

    path: Line | None = None
    paths: list[Line] | None = None
    text: Text | None = None
    labels: list[Line] = msgspec.field(default_factory=list)
    note: Line | None = None
    again: bool = False
    force: bool = False


class OutputChoice(Said, frozen=True, kw_only=True):
    """The run whose output becomes an item: all of it, or the lines `A-B`."""

    run: Line = "last"
    lines: Line | None = None
    note: Line | None = None


class RefreshRequest(Said, frozen=True, kw_only=True):
    """Which items; without any, every file that changed."""

    items: list[Line] = msgspec.field(default_factory=list)
    force: bool = False


class NewRun(Said, frozen=True, kw_only=True):
    """A run to start; `wait_s` has the answer wait for its end that long."""

    prompt: Text
    tool: Line | None = None
    model: Line | None = None
    mode: Literal["read", "edit", "full"] | None = None
    arguments: list[Line] = msgspec.field(default_factory=list)
    continues: Line | None = None
    history: Annotated[int, Meta(ge=0, le=100_000)] | None = None
    piped: str | None = None
    timeout_s: Annotated[int, Meta(ge=1, le=7 * 24 * 3600)] | None = None
    retries: Annotated[int, Meta(ge=0, le=10)] = 0
    priority: Literal["low", "normal", "high"] = "normal"
    labels: list[Line] = msgspec.field(default_factory=list)
    cookie: Line | None = None
    refresh: bool = False
    dry: bool = False
    wait_s: Wait = 0.0


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
    retracted_at: str | None = None


class Messages(msgspec.Struct, frozen=True):
    """Messages, oldest first."""

    messages: list[MessageDocument]


class Items(msgspec.Struct, frozen=True):
    """Items of context."""

    items: list[ContextItem]


class ListedItems(msgspec.Struct, frozen=True, omit_defaults=True):
    """Items of context as they are now."""

    items: list[ListedItem]
    next: str | None = None


class ShownItem(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """An item and its content; of one that is no text, base64."""

    item: ContextItem
    content: str | None = None
    content_base64: str | None = None


class Cleared(msgspec.Struct, frozen=True):
    """How many items are out of what runs are sent."""

    removed: int


class Runs(msgspec.Struct, frozen=True, omit_defaults=True):
    """Runs, oldest first."""

    runs: list[Run]
    next: str | None = None


class OneRun(msgspec.Struct, frozen=True):
    """A run."""

    run: Run


class RunOutput(msgspec.Struct, frozen=True):
    """A run and what it printed; null when cleanup removed it."""

    run: Run
    output: str | None


class RunPrompt(msgspec.Struct, frozen=True):
    """A run and what was asked."""

    run: Run
    prompt: str


class RunContext(msgspec.Struct, frozen=True):
    """A run and what it was sent of the context."""

    run: Run
    context: list[SentItem]


class EventDocument(msgspec.Struct, frozen=True):
    """One event, as a line of `watch --json`."""

    id: str
    ts: str
    type: str
    data: dict[str, Any]

    @classmethod
    def of(cls, event: Event) -> EventDocument:
        """Return an event as it is shown."""
        return cls(event.id, event.ts, event.type, event.data)


class RunActivity(msgspec.Struct, frozen=True):
    """A run and what its agent did so far."""

    run: Run
    activity: list[EventDocument]


class Preview(msgspec.Struct, frozen=True):
    """What a run would execute, and what it would be given on its standard input."""

    argv: list[str]
    stdin: str


class Ended(msgspec.Struct, frozen=True):
    """Runs that are over, and the numbers of those that are not."""

    runs: list[Run]
    open: list[str]
