"""Work sessions and breadcrumbs as values, with the field names of the files they are kept in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from maestro_state.clock import from_iso
from maestro_state.errors import InvalidValue
from maestro_state.models.work_names import derived_id, is_printable_id, stamp_ms, stamp_of

if TYPE_CHECKING:
    from maestro_state.models.run import Activity, Run

#: Largest token count of one breadcrumb: far above any model, and sums of it stay exact.
TOKENS_MAX = 10**9
#: Largest cost of one breadcrumb in USD.
COST_MAX = 10_000.0
#: Deepest level of a breadcrumb and of a work session.
DEPTH_MAX = 100
#: Longest name of a model or a tool.
NAME_MAX = 200
#: Most tool calls or file changes of one breadcrumb.
ROWS_MAX = 10_000

#: Longest prompt in the one line that says a breadcrumb.
_GIST = 120

#: What a file was subjected to.
OPERATIONS = ("create", "modify", "delete")

_Tokens = Annotated[int, msgspec.Meta(ge=0, le=TOKENS_MAX)]
_Depth = Annotated[int, msgspec.Meta(ge=0, le=DEPTH_MAX)]
_Rows = Annotated[list[dict[str, Any]], msgspec.Meta(max_length=ROWS_MAX)]


class WorkSession(msgspec.Struct, frozen=True, kw_only=True):
    """The record of a work session: `session.json`. Every field is always written."""

    session_id: str  #: the cookie
    session_type: str
    parent_session_id: str | None = None
    status: str
    created: str
    modified: str
    related_entity: dict[str, Any] = {}
    breadcrumbs_dir: str = ""
    metadata: dict[str, Any] = {}


class WorkView(msgspec.Struct, frozen=True, kw_only=True):
    """A work session and how far it is."""

    record: WorkSession
    path: tuple[str, ...]  #: ids from the top-level work session down to this one
    accepted: int = 0
    applied: int = 0
    cursor: str = "0-0"  #: the entry last applied
    last_id: str = ""  #: the entry written last, of whichever kind
    is_live: bool = True  #: the server has it; else only the disk

    @property
    def id(self) -> str:
        """The cookie."""
        return self.record.session_id

    @property
    def depth(self) -> int:
        """How many are above it."""
        return len(self.path) - 1


class TokenCount(msgspec.Struct, frozen=True):
    """Tokens read and written by a model."""

    input: _Tokens = 0
    output: _Tokens = 0


class Breadcrumb(msgspec.Struct, frozen=True, kw_only=True):
    """One interaction with a model: `breadcrumbs/<depth>/<timestamp>.json`."""

    timestamp: str  #: YYYYMMDD_HHMMSS_ffffff
    breadcrumb_id: str
    prompt: str = ""
    response: str = ""
    tools_called: _Rows = []
    files_modified: _Rows = []
    parent_session_id: str | None = None
    depth_level: _Depth = 0
    model_used: str = ""
    token_count: TokenCount = TokenCount()
    cost: float | None = None  #: USD; None: unknown
    error: str | None = None
    cost_estimated: bool = False  #: the cost is somebody's estimate, not the tool's word

    def document(self) -> dict[str, Any]:
        """Return the breadcrumb as it is printed and filed; an estimate is said only where there is one."""
        values = {name: getattr(self, name) for name in self.__struct_fields__}
        if not self.cost_estimated:
            del values["cost_estimated"]
        return values

    @property
    def at_ms(self) -> int:
        """When it was left."""
        return stamp_ms(self.timestamp)

    @property
    def cost_kind(self) -> str:
        """How well its cost is known."""
        if self.cost is None:
            return "unknown"
        return "estimated" if self.cost_estimated else "known"

    def gist(self) -> str:
        """Say a breadcrumb in one line: who, what was asked, what it took."""
        parts = []
        tokens = self.token_count
        if tokens.input or tokens.output:
            parts.append(f"{tokens.input}→{tokens.output} tokens")
        if self.cost is not None:
            parts.append(f"{'~' if self.cost_estimated else ''}${self.cost:.4f}")
        if self.files_modified:
            parts.append(f"{len(self.files_modified)} files")
        if self.error:
            parts.append(f"error: {' '.join(self.error.split())[:60]}")
        words = " ".join(self.prompt.split())
        asked = words if len(words) <= _GIST else f"{words[: _GIST - 1]}…"
        head = f"{self.model_used}: {asked}" if self.model_used else asked
        return f"{head} ({', '.join(parts)})" if parts else head


class Accepted(msgspec.Struct, frozen=True):
    """A breadcrumb of a work session."""

    session_id: str
    entry_id: str  #: its place in the order of acceptance; empty when only the disk has it
    breadcrumb: Breadcrumb
    applied: bool
    source: str | None = None  #: the mailbox file it came from

    def document(self) -> dict[str, Any]:
        """Return it as `wsession breadcrumbs` prints it."""
        return self.breadcrumb.document() | {"session_id": self.session_id, "applied": self.applied}


def check_breadcrumb(crumb: Breadcrumb) -> Breadcrumb:
    """Return a breadcrumb that can be kept; InvalidValue says what is wrong with one that cannot."""
    if not is_printable_id(crumb.breadcrumb_id):
        raise InvalidValue("breadcrumb_id must be 1 to 128 printable characters without spaces")
    stamp_ms(crumb.timestamp)
    if crumb.cost is not None and not (math.isfinite(crumb.cost) and 0 <= crumb.cost <= COST_MAX):
        raise InvalidValue(f"cost must be between 0 and {COST_MAX:.0f}")
    if len(crumb.model_used) > NAME_MAX:
        raise InvalidValue(f"model_used is longer than {NAME_MAX} characters")
    for call in crumb.tools_called:
        name = call.get("tool")
        if not isinstance(name, str) or not 0 < len(name) <= NAME_MAX:
            raise InvalidValue(f"each of tools_called needs a text 'tool' of at most {NAME_MAX} characters")
    for change in crumb.files_modified:
        if not isinstance(change.get("path"), str):
            raise InvalidValue("each of files_modified needs a text 'path'")
        if change.get("operation", "modify") not in OPERATIONS:
            raise InvalidValue(f"the operation of a file is one of {', '.join(OPERATIONS)}")
    return crumb


def breadcrumb_of(document: Any, **missing: Any) -> Breadcrumb:
    """Make a breadcrumb from a JSON object; `missing` fills what it does not say."""
    if not isinstance(document, dict):
        raise InvalidValue("a breadcrumb is a JSON object")
    if absent := [name for name in ("prompt", "response") if document.get(name) is None]:
        raise InvalidValue(f"a breadcrumb needs a prompt and a response; {' and '.join(absent)} missing")
    known = {name: value for name, value in document.items() if name in Breadcrumb.__struct_fields__}
    # Programs that have nothing to say write null as often as they leave the field out.
    known = {name: value for name, value in known.items() if value is not None}
    try:
        return check_breadcrumb(msgspec.convert(missing | known, Breadcrumb))
    except (msgspec.ValidationError, OverflowError) as error:
        raise InvalidValue(f"not a breadcrumb: {error}") from error


def breadcrumb_of_run(
    run: Run, prompt: str, response: str, *, session_id: str = "", depth: int = 0, activity: Sequence[Activity] = ()
) -> Breadcrumb:
    """Return what a finished run leaves in its work session: the same run of a session always leaves the same one."""
    usage = run.usage
    at_ms = from_iso(run.finished_at or run.started_at or run.created_at)
    return Breadcrumb(
        timestamp=stamp_of(at_ms),
        breadcrumb_id=derived_id(session_id.encode(), run.id.encode(), run.created_at.encode(), prompt.encode()),
        prompt=prompt,
        response=response,
        depth_level=depth,
        model_used=(usage.model if usage and usage.model else run.tool)[:NAME_MAX],
        token_count=TokenCount(
            input=min(usage.tokens_input or 0, TOKENS_MAX) if usage else 0,
            output=min(usage.tokens_output or 0, TOKENS_MAX) if usage else 0,
        ),
        cost=usage.cost if usage else None,
        error=run.error or (None if run.status == "success" else run.status),
        tools_called=[{"tool": one.name, "summary": one.summary} for one in activity if one.kind == "tool_call"],
        files_modified=[
            {"path": path, "operation": "modify"}
            for path in dict.fromkeys(one.summary for one in activity if one.kind == "file_change")
        ],
    )
