"""Forking: a new live session from a live or an archived one."""

from __future__ import annotations

from typing import Any

import msgspec

from maestro_state._sync.full_messages import whole
from maestro_state._sync.server import Server
from maestro_state._sync.source import Source
from maestro_state.models.message import Message
from maestro_state.models.session import Session
from maestro_state.state.calls import checkpoints as archiving
from maestro_state.state.calls.messages import stored_fields
from maestro_state.tools import names as tool_names
from maestro_state.vocabulary import SessionState

#: How long a fork lives that was never finished, in milliseconds.
UNFINISHED_MS = 600_000
#: What is sent in one call, in bytes and in rows; the script must not keep others waiting.
_CALL_BYTES = 4 << 20
_CALL_ROWS = 500


def fill_from(server: Server, session_id: str, source: Source) -> None:
    """Give a new session the active items, their contents and the messages of another one."""
    session, items, _, _ = source.contents()
    active = [item for item in items if item.state == "active"]
    batch: list[Any] = []
    size = 0
    target = SessionState.WITH_CONTEXT if active else SessionState.STARTED

    def send(final: str = "") -> None:
        call = archiving.fill_session(
            server.terms, server.stamp(), session_id, batch, life_ms=UNFINISHED_MS,
            ctx_seq=session.counters.ctx_seq, target=final,
        )  # fmt: skip
        server.change(session_id, call)
        batch.clear()

    for item in active:
        content = source.snapshot(item)
        batch += ["blob", item.snapshot.digest, content, "item", item.id, msgspec.json.encode(item)]
        size += len(content)
        if size > _CALL_BYTES or len(batch) > 3 * _CALL_ROWS:
            send()
            size = 0
    for name, value in source.kept().items():
        batch += ["kept", name, value]
        size += len(value)
        if size > _CALL_BYTES or len(batch) > 3 * _CALL_ROWS:
            send()
            size = 0
    for found in source.messages():
        if found.retracted_at:
            continue  # it stays in the record of the origin
        (message,) = whole(source, [found])  # one at a time: together they may be as large as all outputs
        # The runs stay where they are: an excerpt of what is too long for one is all that comes along.
        row = msgspec.json.encode(stored_fields(_copied(message, session.id)))
        batch += ["message", message.id, row]
        size += len(row)
        if size > _CALL_BYTES or len(batch) > 3 * _CALL_ROWS:
            send()
            size = 0
    if not source.archived:
        source.record()  # let go by the server meanwhile, what was read last may be a part: nobody takes that for all
    send(str(target))


def _copied(message: Message, origin: str) -> Message:
    """Return a message as the fork has it: its run is one of the origin, and the fork's own count from 0001 again."""
    metadata = message.metadata
    if metadata and "run" in metadata and "session" not in metadata:
        metadata = {**metadata, "session": origin}
    return msgspec.structs.replace(message, content_ref=None, metadata=metadata)


def taken_over(source: Source, here: str) -> tuple[Session, dict[str, str | None]]:
    """Return the session that is forked, and the fields of its record that the fork in this checkout takes over."""
    origin, summary = source.record(), source.summary()
    folder = here if source.archived else origin.working_directory or here
    fields = fork_fields(origin, here, folder, summary.id if summary else None)
    if source.archived:
        # An archive may come from an untrusted repository: it must not choose a program, nor what one may do.
        fields["tool_options"] = None
        if fields["tool_active"] not in tool_names():
            fields["tool_active"] = None
    return origin, fields


def fork_fields(
    session: Session, project: str, working_directory: str, summary_at: str | None
) -> dict[str, str | None]:
    """Return the fields of the record that a fork takes over."""
    return {
        "forked_from": session.id,
        "filling": "1",  # until it is complete, nobody is told of it
        "notes": session.notes,
        "tool_active": session.tool_active,
        "tool_options": msgspec.json.encode(session.tool_options).decode() if session.tool_options else None,
        "task_id": session.task_id,
        "working_directory": working_directory,
        "project": project,
        "context_summary": session.context_summary,
        "project_context": msgspec.json.encode(session.project_context).decode() if session.project_context else None,
        "preferences": msgspec.json.encode(session.preferences).decode() if session.preferences else None,
        "at:context_summary": summary_at,
    }
