"""The record of a session, its row in lists and its status, with the field names of the documents that are printed and
the files that are written. A field that may be absent has a default and is left out of documents when it has it.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec

from maestro_state.models.binding import Bound
from maestro_state.models.run import ToolOptions

#: Fields of the record that `session get` and `session set` work on, and whether they hold a JSON object.
SETTABLE = {"project_context": True, "preferences": True, "working_directory": False, "context_summary": False,
            "task_id": False, "ttl_seconds": False}  # fmt: skip


class Counters(msgspec.Struct, frozen=True):
    """Numbers last given out, for `0001` and `ctx-0001`."""

    run_seq: int = 0
    ctx_seq: int = 0


class Stats(msgspec.Struct, frozen=True):
    """How the session's runs ended."""

    runs_total: int = 0
    runs_success: int = 0
    runs_error: int = 0


class Session(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The session record."""

    id: str
    slug: str
    state: str
    tool_active: str | None
    tool_options: ToolOptions | None = None  #: model, mode and arguments its runs are given unless they say otherwise
    edits_told: str | None = None  #: what tools may change, as far as somebody was told: `claude:edit codex:full`
    created_at: str
    updated_at: str
    finalized_at: str | None = None
    aborted_at: str | None = None
    abort_reason: str | None = None
    counters: Counters
    stats: Stats
    notes: str | None = None
    session_id: str
    task_id: str | None = None
    user_id: str
    status: str
    last_activity: str
    context_summary: str | None = None
    project_context: dict[str, Any]
    working_directory: str
    preferences: dict[str, Any]
    ttl_seconds: int
    forked_from: str | None = None
    cleanup_at: str | None = None  #: when cleanup last removed something from its archive
    bound: Bound | None = None  #: the key of a framework that it is the session of


#: The fields of a row of `session list`, as they are printed.
SUMMARY_FIELDS = ("id", "slug", "state", "status", "created_at", "updated_at", "finalized_at", "user_id", "active",
                  "archived", "orphan")  # fmt: skip
_summary_values = attrgetter(*SUMMARY_FIELDS)


class SessionSummary:
    """One row of `session list`: of a live session or of an archived one, each in the form it is stored in.

    Listing thousands must not cost what only looking at them needs: dates and liveness of a live session are made when
    they are asked for.
    """

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def id(self) -> str: ...
        @property
        def slug(self) -> str: ...
        @property
        def state(self) -> str: ...
        @property
        def status(self) -> str: ...
        @property
        def created_at(self) -> str: ...
        @property
        def updated_at(self) -> str: ...
        @property
        def finalized_at(self) -> str | None: ...
        @property
        def user_id(self) -> str: ...
        @property
        def active(self) -> bool: ...
        @property
        def archived(self) -> bool: ...
        @property
        def orphan(self) -> bool: ...
        @property
        def bound_to(self) -> Bound | None: ...

    def document(self) -> dict[str, Any]:
        """Return the row as it is printed; what may be absent is left out where it is."""
        fields = dict(zip(SUMMARY_FIELDS, _summary_values(self), strict=True))
        if fields["finalized_at"] is None:
            del fields["finalized_at"]
        if not fields["user_id"]:
            del fields["user_id"]
        if self.bound_to is not None:
            fields["bound"] = self.bound_to.document()
        return fields

    def __eq__(self, other: object) -> bool:
        """Compare what is shown, however it is stored."""
        if not isinstance(other, SessionSummary):
            return NotImplemented
        return bool(_summary_values(self) == _summary_values(other))

    def __hash__(self) -> int:
        """Hash what is compared."""
        return hash(_summary_values(self))

    def __repr__(self) -> str:
        """Show the fields, not how they are stored."""
        shown = ", ".join(f"{name}={value!r}" for name, value in self.document().items())
        return f"SessionSummary({shown})"


class SessionList(list[SessionSummary]):
    """Rows of `session list`, how many archived ones were left out because they are older, and, of a page, the cursor
    of those after it: None at the end.
    """

    def __init__(self, rows: Iterable[SessionSummary] = (), *, older: int = 0, cursor: str | None = None) -> None:
        super().__init__(rows)
        self.older = older
        self.cursor = cursor


class Terminal(msgspec.Struct, frozen=True):
    """Somebody looking at a session."""

    user: str
    host: str
    terminal: str
    since: str


class Field(msgspec.Struct, frozen=True):
    """A settable field of the record with the revision that `--if-revision` compares."""

    field: str
    value: Any
    revision: int


class SessionStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything `session status` tells."""

    session: Session
    context: list[Any]
    runs: list[Any]
    last_output: dict[str, Any] | None
    attached: list[Terminal]
    ttl_left: int | None
    archive_waits: str | None = None  #: why a session that has ended is not archived yet
