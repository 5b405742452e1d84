"""The two formats discussions had before: a work session with breadcrumbs, and one `…_results.json` file.

Read only. Each becomes the one model; the same file always becomes the same discussion, to the byte.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec

from maestro_state.errors import FileCorrupt
from maestro_state.fs.handles import Folder
from maestro_state.mirror.layouts.discussion import is_discussion_id
from maestro_state.models import strict_json
from maestro_state.models.contracts import CONTRACTS
from maestro_state.models.discussion import (
    ASSISTANT,
    ERROR,
    FINAL,
    KINDS,
    USER,
    Context,
    Discussion,
    Meta,
    Transcript,
    TranscriptEvent,
    check_event,
    micros_of,
    text_of,
)

RESULTS = "_results.json"
SESSION = "session.json"

#: Largest legacy file that is read.
LIMIT = 64 * 1024 * 1024

#: Names the fields of a message had.
_ROLES = {"user": USER, "human": USER, "assistant": ASSISTANT, "ai": ASSISTANT, "model": ASSISTANT}

_STAMP = re.compile(r"([0-9]{8})_([0-9]{6})(?:_([0-9]{1,6}))?", re.ASCII)
_FENCE = re.compile(r"```(?:json)?[ \t]*\n(.*?)\n[ \t]*```", re.DOTALL)


def load_artifact(folder: Folder, name: str) -> Discussion:
    """Read a `…_results.json` file."""
    document = _read_object(folder, name)
    try:
        return _artifact(document, name, f"{folder.path}/{name}")
    except ValueError as error:
        raise FileCorrupt(f"{folder.path}/{name} is not a discussion: {error}", hint="see what it holds") from error


def load_work_session(folder: Folder) -> Discussion:
    """Read a work session's `session.json` and its breadcrumbs, wherever below `breadcrumbs/` they lie."""
    document = _read_object(folder, SESSION)
    try:
        return _work_session(document, list(_breadcrumbs(folder)), folder.path)
    except ValueError as error:
        raise FileCorrupt(f"{folder.path} is not a discussion: {error}", hint="see what it holds") from error


def final_of(text: str) -> dict[str, Any] | None:
    """Return the final JSON a message consists of or ends in (a fenced block), None when there is none."""
    blocks = _FENCE.findall(text)
    for candidate in (text, *reversed(blocks[-1:])):
        with suppress(ValueError):
            found = strict_json.read(candidate)
            if isinstance(found, dict) and isinstance(found.get("patch_operations"), list):
                return found
    return None


def _read_object(folder: Folder, name: str) -> dict[str, Any]:
    content = folder.read(name, limit=LIMIT)
    if content is None:
        raise FileNotFoundError(os.path.join(folder.path, name))
    try:
        document = strict_json.read(content)
    except ValueError as error:
        raise FileCorrupt(f"{folder.path}/{name} is not JSON: {error}", hint="restore it from git") from error
    if not isinstance(document, dict):
        raise FileCorrupt(f"{folder.path}/{name} is not a JSON object", hint="restore it from git")
    return document


def _artifact(document: dict[str, Any], name: str, path: str) -> Discussion:
    session_id = _id(document.get("session_id", name.removesuffix(RESULTS)))
    began = _time(document.get("timestamp")) or _time(session_id) or text_of(0)
    events = list(_artifact_events(document.get("transcript"), began))
    prompt = _text(document.get("initial_prompt"))
    if prompt and not any(event.type == USER for event in events):
        events.insert(0, TranscriptEvent(began, USER, {"content": prompt}))
    operations = document.get("patch_operations")
    finals = [event for event in events if event.type == FINAL]
    if len(finals) > 1:
        raise ValueError("it has more than one final_json")
    if not finals and operations is not None:
        if not isinstance(operations, list):
            raise ValueError("patch_operations is not a list")
        ended = max((event.ts for event in events), default=began)
        events.append(TranscriptEvent(ended, FINAL, {"patch_operations": operations}))
    return _discussion(
        session_id,
        events,
        source="artifact",
        path=path,
        created_at=began,
        context=_context(document.get("context")),
        contract_type=document.get("contract_type"),
        engine=_text(document.get("engine")),
        model=_text(document.get("model")),
        initial_prompt=prompt,
    )


def _artifact_events(transcript: Any, began: str) -> Iterator[TranscriptEvent]:
    """Read a transcript that is a list of events or messages, or an object that holds such a list."""
    if isinstance(transcript, dict):
        held = [transcript[name] for name in ("events", "messages", "transcript") if name in transcript]
        if isinstance(transcript.get(FINAL), dict):
            held.append([{"type": FINAL, "payload": transcript[FINAL]}])
        rows = [row for rows in held if isinstance(rows, list) for row in rows]
    elif isinstance(transcript, list):
        rows = transcript
    elif transcript is None:
        rows = []
    else:
        raise ValueError("its transcript is neither a list nor an object")
    ts = began
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, dict):
            raise ValueError(f"entry {number} of its transcript is not an object")
        ts = _time(row.get("ts") or row.get("timestamp")) or ts
        try:
            yield _artifact_event(row, ts)
        except ValueError as error:
            raise ValueError(f"entry {number} of its transcript: {error}") from error


def _artifact_event(row: dict[str, Any], ts: str) -> TranscriptEvent:
    if "type" in row and "payload" in row:
        return check_event(ts, row["type"], row["payload"])
    kind = _ROLES.get(str(row.get("role", "")).lower(), row.get("type"))
    return check_event(ts, kind, {"content": row.get("content", row.get("text"))})


def _work_session(document: dict[str, Any], breadcrumbs: list[dict[str, Any]], path: str) -> Discussion:
    session_id = _id(document.get("session_id", path.rsplit("/", 1)[-1]))
    began = _time(document.get("created")) or text_of(0)
    metadata, entity = _dict(document.get("metadata")), _dict(document.get("related_entity"))
    events: list[TranscriptEvent] = []
    for crumb in breadcrumbs:
        events += _crumb_events(crumb, began)
    final = _last_final(events, metadata)
    ended = _time(document.get("modified")) or max((event.ts for event in events), default=began)
    if final is not None:
        events.append(TranscriptEvent(max([ended, *(event.ts for event in events)]), FINAL, final))
    said = [event.payload["content"] for event in events if event.type == USER]
    models = [event.payload["model"] for event in events if "model" in event.payload]
    kind = next((name for name in ("task", "phase", "track") if f"{name}_id" in entity or name in entity), "global")
    ref = _text(entity.get(f"{kind}_id") or entity.get(kind)) or None
    reason = f"work session of type {_text(document.get('session_type')) or 'unknown'}"
    context = _context(metadata.get("context")) if metadata.get("context") else Context(kind, ref, reason)
    return _discussion(
        session_id,
        events,
        source="work_session",
        path=path,
        created_at=began,
        updated_at=ended,
        context=context,
        contract_type=metadata.get("contract_type"),
        engine=_text(metadata.get("engine")),
        model=models[-1] if models else "",
        initial_prompt=_text(metadata.get("initial_prompt")) or (said[0] if said else ""),
    )


def _breadcrumbs(folder: Folder) -> Iterator[dict[str, Any]]:
    """Yield every breadcrumb in the order of their times: those of `breadcrumbs/` and of each depth below."""
    found: list[tuple[str, str, dict[str, Any]]] = []
    try:
        with folder.child("breadcrumbs") as crumbs:
            depths = [name for name in crumbs.names() if name.isdigit()]
            found += _crumbs_in(crumbs, "")
            for depth in depths:
                with crumbs.child(depth) as deeper:
                    found += _crumbs_in(deeper, depth)
    except FileNotFoundError:
        return
    # By time, then depth, then file: two made in the same microsecond have a fixed order too.
    for _, _, crumb in sorted(found, key=lambda one: one[:2]):
        yield crumb


def _crumbs_in(folder: Folder, depth: str) -> list[tuple[str, str, dict[str, Any]]]:
    names = [name for name in folder.names() if name.endswith(".json") and not name.startswith(".")]
    crumbs = [(name, _read_object(folder, name)) for name in names]
    return [(_text(crumb.get("timestamp")) or name, f"{depth:>8}/{name}", crumb) for name, crumb in crumbs]


def _crumb_events(crumb: dict[str, Any], began: str) -> Iterator[TranscriptEvent]:
    ts = _time(crumb.get("timestamp")) or began
    if prompt := _text(crumb.get("prompt")):
        yield TranscriptEvent(ts, USER, {"content": prompt})
    if response := _text(crumb.get("response")):
        model = _text(crumb.get("model_used"))
        yield TranscriptEvent(ts, ASSISTANT, {"content": response} | ({"model": model} if model else {}))
    if error := _text(crumb.get("error")):
        yield TranscriptEvent(ts, ERROR, {"message": error})


def _last_final(events: list[TranscriptEvent], metadata: dict[str, Any]) -> dict[str, Any] | None:
    """Return what the work session decided: its metadata says so, or its last answer is that JSON."""
    if isinstance(metadata.get(FINAL), dict):
        return dict(metadata[FINAL])
    if isinstance(metadata.get("patch_operations"), list):
        return {"patch_operations": metadata["patch_operations"]}
    answers = [event.payload["content"] for event in events if event.type == ASSISTANT]
    return final_of(answers[-1]) if answers else None


def _discussion(
    session_id: str,
    events: list[TranscriptEvent],
    *,
    source: str,
    path: str,
    created_at: str,
    updated_at: str | None = None,
    context: Context,
    contract_type: Any,
    engine: str,
    model: str,
    initial_prompt: str,
) -> Discussion:
    is_final = any(event.type == FINAL for event in events)
    if contract_type not in CONTRACTS:
        contract_type = context.kind if context.kind in CONTRACTS else "global"
    meta = Meta(
        session_id=session_id,
        context=context,
        contract_type=contract_type,
        created_at=created_at,
        updated_at=max([updated_at or created_at, *(event.ts for event in events)]),
        status="closed" if is_final else "open",
        final_json_present=is_final,
        engine=engine or "unknown",
        model=model or "default",
        initial_prompt=initial_prompt,
    )
    return Discussion(meta=meta, transcript=Transcript(tuple(events)), source=source, path=path)


def _id(value: Any) -> str:
    if not isinstance(value, str) or not is_discussion_id(value):
        raise ValueError(f"its session_id {value!r:.60} cannot name a folder")
    return value


def _time(value: Any) -> str | None:
    """Read a time in any form the legacy formats have; None for what is none."""
    if not isinstance(value, str):
        return None
    if stamp := _STAMP.search(value):
        value = f"{stamp[1]}T{stamp[2]}.{(stamp[3] or '0').ljust(6, '0')}"
    try:
        return text_of(micros_of(value))
    except (ValueError, OverflowError):
        return None


def _context(value: Any) -> Context:
    try:
        found = msgspec.convert(value, Context)
    except msgspec.ValidationError:
        return Context(router_reason="not told by the legacy file")
    return found if found.kind in KINDS else msgspec.structs.replace(found, kind="global")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
