"""Taking back what `maestro export` wrote: a JSON document whole, a Markdown page as far as it tells a conversation.

A document may come from anybody: ids are checked before they become paths, digests are those of what is inside, and a
session that was not over when it was exported is over here.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from typing import Any

import msgspec

from maestro_state.clock import from_iso, iso
from maestro_state.errors import FileCorrupt, NewerFormat
from maestro_state.mirror.export import FORMAT
from maestro_state.mirror.foreign import is_session, session, table
from maestro_state.mirror.home import Home
from maestro_state.mirror.layouts import session as layout
from maestro_state.mirror.writer import Generation, replacing
from maestro_state.models.context import ContextItem, Snapshot
from maestro_state.models.message import Event, Message, id_order
from maestro_state.models.names import is_session_id, is_stream_id
from maestro_state.models.run import OPEN, OutputRef, RelevantOutput, Run, last_output
from maestro_state.models.session import Counters, Session, Stats
from maestro_state.vocabulary import FROZEN, SessionState

#: Largest document that is read.
DOCUMENT_MAX = 512 << 20

_HEAD = re.compile(r"^\| session \| `([^`]+)` \|$", re.MULTILINE)
_STARTED = re.compile(r"^\| started \| (\S+) by (.*) \|$", re.MULTILINE)
_SAID = re.compile(r"\*\*(user|assistant|system|tool)\*\* · (\S+)(?: by (.*))?")
_FENCE = re.compile(r"(`{3,})[\w+-]*")


class Document(msgspec.Struct, kw_only=True):
    """A session out of a document."""

    session: Session
    items: list[tuple[ContextItem, bytes]] = []
    runs: list[tuple[Run, bytes, bytes | None, list[Any]]] = []  #: with prompt, output, and what each was sent
    messages: list[Message] = []
    events: list[Event] = []
    relevant: list[RelevantOutput] = []


def read_json(content: bytes, path: str) -> Document:
    """Read an exported JSON document; FileCorrupt where it is none."""
    row = table(content, path)
    told = row.get("session")
    if not isinstance(told, dict) or not is_session(told) or not is_session_id(str(told.get("id"))):
        raise FileCorrupt(f"{path} is not what maestro export wrote", hint="maestro export --format json")
    if isinstance(row.get("format"), int) and row["format"] > FORMAT:
        raise NewerFormat(path, row["format"], FORMAT)
    try:
        messages = [_message(one, told.get("user_id")) for one in row.get("messages") or []]
        events = msgspec.convert(row.get("events") or [], list[Event])
        items = [_item(one) for one in row.get("context") or []]
        runs = [_run(one) for one in row.get("runs") or []]
        relevant = msgspec.convert(row.get("relevant") or [], list[RelevantOutput])
    except (ValueError, AttributeError, TypeError) as error:  # msgspec's and base64's are among them
        raise FileCorrupt(f"{path} is damaged ({error})") from error
    if not all(map(is_stream_id, [*(one.id for one in messages), *(one.id for one in events)])):
        raise FileCorrupt(f"{path} is damaged (an id is none)")
    rows = [
        [one.id for one in messages],
        [one.id for one in events],
        [one.id for one, _ in items],
        [one[0].id for one in runs],
    ]
    if any(len(set(ids)) < len(ids) for ids in rows):
        raise FileCorrupt(f"{path} is damaged (an id is there twice)")
    return Document(
        session=session(str(told["id"]), told, 0),
        items=items,
        runs=runs,
        messages=sorted(messages, key=lambda one: id_order(one.id)),
        events=sorted(events, key=lambda one: id_order(one.id)),
        relevant=relevant,
    )


def _message(row: Any, owner: Any) -> Message:
    """Return a message; an export names everybody, a session those who are not its owner."""
    message = msgspec.convert(row, Message)
    return msgspec.structs.replace(message, user=None) if message.user == owner else message


def _content(row: dict[str, Any], name: str) -> bytes | None:
    if isinstance(row.get(f"{name}_base64"), str):
        return base64.b64decode(row[f"{name}_base64"], validate=True)
    return row[name].encode("utf-8", "replace") if isinstance(row.get(name), str) else None


def _item(row: dict[str, Any]) -> tuple[ContextItem, bytes]:
    item = msgspec.convert(row, ContextItem)
    layout.item_path(item.id)
    content = _content(row, "content") or b""
    # Of a redacted export the content is another: its digest is the content's that is here.
    return msgspec.structs.replace(item, snapshot=Snapshot(f"../blobs/{item.id}.txt", layout.sha256(content))), content


def _run(row: dict[str, Any]) -> tuple[Run, bytes, bytes | None, list[Any]]:
    run = msgspec.convert(row, Run)
    layout.run_path(run.id, "meta.json")
    prompt, output = _content(row, "prompt") or b"", _content(row, "output")
    ref = OutputRef("output.txt", len(output), layout.sha256(output)) if output else None
    is_open = run.status in OPEN
    run = msgspec.structs.replace(
        run,
        output_ref=ref,
        prompt_digest=layout.sha256(prompt),
        status="error" if is_open else run.status,
        error="it was not over when its session was exported" if is_open else run.error,
        parts=[],
    )
    sent = row.get("sent_context")
    return run, prompt, output, sent if isinstance(sent, list) else []


def read_page(content: bytes, path: str) -> Document:
    """Read the conversation out of an exported Markdown page; what else it shows is written for readers only."""
    text = content.decode("utf-8", "replace")
    head, started = _HEAD.search(text), _STARTED.search(text)
    if not head or not started or not is_session_id(head[1]):
        raise FileCorrupt(f"{path} is not what maestro export wrote", hint="maestro export --format json keeps it all")
    try:
        created = iso(from_iso(started[1]))
    except ValueError as error:
        raise FileCorrupt(f"{path} is damaged (no time of its start)") from error
    messages = _conversation(text.splitlines())
    ended = messages[-1].timestamp if messages else created
    one = Session(
        id=head[1],
        slug=head[1].rsplit("--", 1)[0],
        state=str(SessionState.FINALIZED),
        tool_active=None,
        created_at=created,
        updated_at=ended,
        finalized_at=ended,
        counters=Counters(),
        stats=Stats(),
        session_id=head[1],
        user_id=started[2].replace("\\", ""),
        status="",
        last_activity=ended,
        project_context={},
        working_directory="",
        preferences={},
        ttl_seconds=0,
    )
    return Document(session=one, messages=messages)


def _conversation(lines: list[str]) -> list[Message]:
    """Return what was said: contents stand in fences that nothing inside can close."""
    found: list[Message] = []
    spoken: tuple[str, int, str | None] | None = None
    fence, inside, is_there = "", [], False
    last = (0, -1)

    def say(content: str) -> None:
        nonlocal last, spoken
        if spoken is None:
            return
        role, at_ms, user = spoken
        last = (at_ms, 0) if at_ms > last[0] else (last[0], last[1] + 1)
        found.append(Message(f"{last[0]}-{last[1]}", role, content, user=user))
        spoken = None

    for line in lines:
        if fence:
            if line != fence:
                inside.append(line)
                continue
            fence = ""
            say("\n".join(inside))
        elif opened := _FENCE.fullmatch(line):
            fence, inside = opened[1], []
        elif line.startswith("## "):
            say("")
            is_there = line == "## Conversation"
        elif is_there and (head := _SAID.fullmatch(line)):
            say("")
            try:
                spoken = head[1], from_iso(head[2]), head[3].replace("\\", "") if head[3] else None
            except ValueError:
                spoken = None
    say("")
    return found


def write_document(home: Home, document: Document, origin: dict[str, Any], *, project: str, now: str) -> Session:
    """Write a session that is not here yet; return it as it is here."""
    record = _over(document.session, origin, document)
    with replacing(home, record.id) as generation:
        last_id = _write_streams(generation, document, record)
        for item, content in document.items:
            generation.put(layout.item_path(item.id), layout.pretty(item))
            generation.put_lasting(layout.blob_path(item.id), content, layout.sha256(content))
        for run, prompt, output, sent in document.runs:
            generation.put(layout.run_path(run.id, "meta.json"), layout.pretty(run))
            generation.put(layout.run_path(run.id, "sent_context.json"), layout.pretty(sent))
            generation.put_lasting(layout.run_path(run.id, "prompt.txt"), prompt, layout.sha256(prompt))
            if output:
                generation.put(layout.run_path(run.id, "output.txt"), output)
        items, runs = [item for item, _ in document.items], [run for run, _, _, _ in document.runs]
        newest = last_output(runs)
        active = {"items": [item.id for item in items if item.state == "active"]}
        last = {"last_output_ref": newest["run_id"]} if newest else {}
        generation.put(layout.ACTIVE, layout.pretty(active | last))
        if newest:
            generation.put(layout.LAST_OUTPUT, layout.pretty(newest))
        generation.put(layout.RELEVANT, layout.pretty({"items": document.relevant}))
        created_ms = from_iso(record.created_at)
        fields = {"last_id": last_id, "created_ms": created_ms, "revisions": {}, "set_at": {}, "project": project}
        kept = layout.Record(fields=fields, items=items, runs=runs, relevant=document.relevant)
        generation.put(layout.RECORD, layout.encode_record(kept))
        told = msgspec.to_builtins(record)
        del told["status"]
        generation.put(layout.SESSION, layout.pretty(told))
        generation.commit(last_id=last_id, written_at=now, keep_replaced=True)
    return record


def _over(record: Session, origin: dict[str, Any], document: Document) -> Session:
    """Return a session as it is here: over, and with where it is from."""
    context = (
        record.project_context if "import" in record.project_context else {**record.project_context, "import": origin}
    )
    runs = [run for run, _, _, _ in document.runs]
    numbers = (sum(run.status == "success" for run in runs), sum(run.status == "error" for run in runs))
    record = msgspec.structs.replace(record, project_context=context, stats=Stats(len(runs), *numbers))
    if record.state in FROZEN:
        return record
    return msgspec.structs.replace(record, state=str(SessionState.FINALIZED), finalized_at=record.last_activity)


def _write_streams(generation: Generation, document: Document, record: Session) -> str:
    events = [one.document() for one in document.events]
    ids = [*(one.id for one in document.messages), *(one.id for one in document.events)]
    last = max(map(id_order, ids), default=(from_iso(record.created_at), 0))
    if document.session.state not in FROZEN or not events:
        last = (max(last[0], from_iso(record.last_activity)), last[1] + 1)
        entry_id = f"{last[0]}-{last[1]}"
        events.append(Event(entry_id, "session.finalized", {}).document())
    _append(generation, layout.MESSAGES, (one.document() for one in document.messages))
    _append(generation, layout.EVENTS, events)
    for event in events:
        data = event["data"]
        if event["type"] == "run.activity" and layout.RUN_ID.fullmatch(str(data.get("run"))):
            row = {"id": event["id"], "ts": event["ts"]} | {name: data[name] for name in data if name != "run"}
            generation.append(layout.run_path(str(data["run"]), "activity.jsonl"), layout.json_line(row))
    sizes = {run.id: len(output) for run, _, output, _ in document.runs if output}
    done = [(one["id"], str(one["data"].get("run"))) for one in events if one["type"] == "run.finished"]
    chunks = ({"id": key, "run": run, "size": sizes[run], "anew": True} for key, run in done if run in sizes)
    _append(generation, layout.CHUNKS, chunks)
    return f"{last[0]}-{last[1]}"


def _append(generation: Generation, path: str, rows: Iterable[dict[str, Any]]) -> None:
    if content := layout.json_lines(list(rows)):
        generation.append(path, content, anew=True)
