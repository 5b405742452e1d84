"""Reading the files of other programs: what is missing gets a sensible value, what makes no sense is named.

Only the folder's and the file's own names say which session, item or run it is; whatever a file claims about that is
not believed.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from maestro_state.clock import from_iso, iso
from maestro_state.errors import FileCorrupt
from maestro_state.mirror.layouts.session import is_dense
from maestro_state.models.binding import from_document
from maestro_state.models.context import ContextItem, Snapshot
from maestro_state.models.names import is_stream_id, slug_of
from maestro_state.models.run import Flags, OutputRef, RelevantOutput, Run, SentItem, Usage
from maestro_state.models.session import Counters, Session, Stats
from maestro_state.models.undecodable import UNDECODABLE
from maestro_state.vocabulary import Liveness, SessionState

_STATES = {str(state) for state in SessionState}
_STATUSES = ("pending", "running", "success", "error", "canceled", "dry")


def decode(content: bytes, path: str) -> Any:
    """Read JSON; raise FileCorrupt with the path for what is none, or holds or nests more than is reasonable."""
    if is_dense(content):
        raise FileCorrupt(
            f"{path} packs more values together than any session has", hint="maestro verify names what is damaged"
        )
    try:
        return msgspec.json.decode(content)
    except UNDECODABLE as error:
        raise FileCorrupt(f"{path} is not valid JSON ({error})", hint="maestro verify names what is damaged") from error


def table(content: bytes, path: str) -> dict[str, Any]:
    """Read a JSON object."""
    value = decode(content, path)
    if not isinstance(value, dict):
        raise FileCorrupt(f"{path} does not hold a JSON object")
    return value


def _text(row: dict[str, Any], name: str) -> str | None:
    value = row.get(name)
    return value if isinstance(value, str) else None


def _number(row: Any, name: str) -> int:
    value = row.get(name) if isinstance(row, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _time(row: dict[str, Any], name: str) -> str | None:
    """Return a time as this program writes it; one that cannot be read counts as missing."""
    value = _text(row, name)
    if value is None:
        return None
    try:
        return iso(from_iso(value))
    except (ValueError, OverflowError, OSError):
        return None


def _dict(row: dict[str, Any], name: str) -> dict[str, Any]:
    value = row.get(name)
    return value if isinstance(value, dict) else {}


def is_session(row: dict[str, Any]) -> bool:
    """Tell whether a record is a session's: every program that writes one says its state."""
    return _text(row, "state") in _STATES


def session(session_id: str, row: dict[str, Any], mtime_ms: int) -> Session:
    """Make the record of an archived session."""
    created = _time(row, "created_at") or _time(row, "updated_at") or iso(mtime_ms)
    updated = _time(row, "updated_at") or created
    state = _text(row, "state")
    return Session(
        id=session_id,
        slug=slug_of(session_id),
        state=state if state in _STATES else str(SessionState.STARTED),
        tool_active=_text(row, "tool_active"),
        created_at=created,
        updated_at=updated,
        finalized_at=_time(row, "finalized_at"),
        aborted_at=_time(row, "aborted_at"),
        abort_reason=_text(row, "abort_reason"),
        counters=Counters(_number(row.get("counters"), "run_seq"), _number(row.get("counters"), "ctx_seq")),
        stats=Stats(*(_number(row.get("stats"), name) for name in ("runs_total", "runs_success", "runs_error"))),
        notes=_text(row, "notes"),
        session_id=session_id,
        task_id=_text(row, "task_id"),
        user_id=_text(row, "user_id") or "",
        status=str(Liveness.EXPIRED),
        last_activity=_time(row, "last_activity") or updated,
        context_summary=_text(row, "context_summary"),
        project_context=_dict(row, "project_context"),
        working_directory=_text(row, "working_directory") or "",
        preferences=_dict(row, "preferences"),
        ttl_seconds=_number(row, "ttl_seconds"),
        forked_from=_text(row, "forked_from"),
        cleanup_at=_time(row, "cleanup_at"),
        bound=from_document(row.get("bound")),
    )


def retracted(stored: Any) -> dict[str, int]:
    """Return which messages were taken back and when, as far as it makes sense."""
    rows = stored.items() if isinstance(stored, dict) else ()
    return {name: at for name, at in rows if is_stream_id(name.removeprefix("..")) and type(at) is int and at >= 0}


def item(item_id: str, row: dict[str, Any]) -> ContextItem:
    """Make a context item."""
    snapshot = _dict(row, "snapshot")
    source = _dict(row, "source")
    kind = _text(row, "kind")
    digest = _text(snapshot, "digest") or _text(source, "digest") or ""
    return ContextItem(
        id=item_id,
        kind=kind if kind in ("file", "text", "output") else "text",
        source=source,
        labels=[label for label in row.get("labels") or [] if isinstance(label, str)]
        if isinstance(row.get("labels"), list)
        else [],
        snapshot=Snapshot(_text(snapshot, "blob") or f"../blobs/{item_id}.txt", digest),
        state="removed" if row.get("state") == "removed" else "active",
        removed_at=_time(row, "removed_at"),
        notes=_text(row, "notes"),
    )


def _output_ref(row: dict[str, Any]) -> OutputRef | None:
    found = row.get("output_ref")
    if not isinstance(found, dict):
        return None
    size = found.get("size")
    return OutputRef("output.txt", size if isinstance(size, int) else None, _text(found, "digest"))


def run(run_id: str, row: dict[str, Any], *, has_output: bool, mtime_ms: int) -> Run:
    """Make a run; one that does not say how it ended did well if it left an output."""
    flags = _dict(row, "flags")
    status = _text(row, "status")
    refs = row.get("context_refs")
    versions = row.get("context_version")
    exit_code = row.get("exit_code")
    return Run(
        id=run_id,
        tool=_text(row, "tool") or "",
        prompt_source=_text(row, "prompt_source") or "cli",
        prompt_file=_text(row, "prompt_file"),
        flags=Flags(bool(flags.get("dry_run")), bool(flags.get("confirm")), _time(flags, "confirmed_at")),
        status=status if status in _STATUSES else "success" if has_output else "error",
        created_at=_time(row, "created_at") or _time(row, "started_at") or iso(mtime_ms),
        started_at=_time(row, "started_at"),
        finished_at=_time(row, "finished_at"),
        context_refs=[one for one in refs if isinstance(one, str)] if isinstance(refs, list) else [],
        context_version=[
            {"id": str(one.get("id", "")), "digest": str(one.get("digest", ""))}
            for one in (versions if isinstance(versions, list) else [])
            if isinstance(one, dict)
        ],
        output_ref=_output_ref(row) or (OutputRef("output.txt") if has_output else None),
        error=_text(row, "error"),
        exit_code=exit_code if isinstance(exit_code, int) else None,
        prompt_digest=_text(row, "prompt_digest"),
        usage=_usage(row),
        user=_text(row, "user"),
        continues=_text(row, "continues"),
        prompt_preview=_text(row, "prompt_preview"),
    )


def _usage(row: dict[str, Any]) -> Usage | None:
    """Read what a run consumed; what is no usage counts as none."""
    try:
        return msgspec.convert(row["usage"], Usage) if isinstance(row.get("usage"), dict) else None
    except msgspec.ValidationError:
        return None


def sent(content: bytes, path: str) -> list[SentItem]:
    """Read what a run was given."""
    rows = decode(content, path)
    if not isinstance(rows, list):
        raise FileCorrupt(f"{path} does not hold a JSON list")
    return [
        SentItem(
            id=_text(row, "id") or "",
            kind=_text(row, "kind") or "text",
            snapshot_blob=_text(row, "snapshot_blob") or "",
            digest=_text(row, "digest") or "",
            path_rel=_text(row, "path_rel"),
            role=_text(row, "role"),
        )
        for row in rows
        if isinstance(row, dict)
    ]


def relevant(row: dict[str, Any]) -> list[RelevantOutput]:
    """Read which outputs were promoted."""
    rows = row.get("items")
    return [
        RelevantOutput(str(one.get("run_id", "")), _time(one, "added_at") or "", _text(one, "note"))
        for one in (rows if isinstance(rows, list) else [])
        if isinstance(one, dict)
    ]


def mtime(seconds: float) -> int:
    """Return a file's time in milliseconds; one that no calendar has counts as the epoch."""
    try:
        datetime.fromtimestamp(seconds)  # noqa: DTZ006 - only asked whether it can be
    except (ValueError, OverflowError, OSError):
        return 0
    return int(seconds * 1000)
