"""What of a session can be found: messages, prompts, outputs, context and notes, each as one entry.

A run's prompt and answer are messages too: those are one entry, found as either and shown once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from functools import partial
from typing import Protocol

import msgspec

from maestro_state.clock import from_iso
from maestro_state.errors import MaestroError
from maestro_state.models.context import ContextItem
from maestro_state.models.message import Message, id_order
from maestro_state.models.run import OPEN, RelevantOutput, Run
from maestro_state.models.session import Session
from maestro_state.search.store import Entry

#: Most characters of one entry that can be found: a log of hundreds of megabytes must not fill the disk twice.
CONTENT_MAX = 1 << 22

#: Who says a prompt, and who an output, in the message that each also is.
SPEAKERS = {"prompt": "user", "output": "assistant"}


class Source(Protocol):
    """What a session is read by, live or archived."""

    def contents(self) -> tuple[Session, list[ContextItem], list[Run], list[RelevantOutput]]:
        """Return the record and what the session holds."""

    def messages(self, *, since: str | None = None) -> list[Message]:
        """Return all messages, or those after one."""

    def prompt(self, run: Run) -> bytes:
        """Return what a run was asked."""

    def output(self, run_id: str) -> Iterator[bytes]:
        """Yield what a run printed."""

    def snapshot(self, item: ContextItem) -> bytes:
        """Return the content of an item."""


class Seen(msgspec.Struct, frozen=True):
    """How far a live session was read."""

    last_id: str = ""  #: of anything in it
    message: str = ""  #: the last message
    open_runs: list[str] = []  #: what may still print


class Reading(msgspec.Struct):
    """What was read of a session."""

    entries: list[Entry]
    seen: Seen
    unreadable: list[str]  #: parts that are damaged


def read_all(source: Source) -> Reading:
    """Read everything a session says."""
    return read_new(source, Seen(), ())


def read_new(source: Source, seen: Seen, known: Collection[tuple[str, str]]) -> Reading:
    """Read what a session says beyond what was seen, or is known, by kind and entry; notes and what open runs print
    are read again.
    """
    # Messages first: what they are of is there then, and is read again with them.
    messages = source.messages(since=seen.message) if seen.message else source.messages()
    session, items, runs, relevant = source.contents()
    found = Reading([], Seen(), [])
    said = {_run_of(message) for message in messages}
    again = {*seen.open_runs, *said, *(run.id for run in runs if run.status in OPEN)}
    for run in runs:
        if run.id in said or ("prompt", run.id) not in known:
            _add(found, "prompt", run.id, _ms(run.created_at), partial(source.prompt, run))
        if run.id in again or ("output", run.id) not in known:
            _add_output(found, source, run)
    for item in items:
        if ("context", item.id) not in known:
            _add(found, "context", item.id, _added_ms(item, session), partial(_context, source, item))
    found.entries += _notes(session, items, relevant)
    _add_messages(found, messages)
    last = messages[-1].id if messages else seen.message
    found.seen = Seen(message=last, open_runs=[run.id for run in runs if run.status in OPEN])
    return found


def _add(found: Reading, kind: str, entry: str, ms: int, read: Callable[[], bytes]) -> None:
    try:
        content = _text(read())
    except MaestroError as error:
        if error.code != "removed_by_cleanup":
            found.unreadable.append(f"{kind} {entry}")
        return
    if content:
        found.entries.append(Entry(kind, entry, ms, content))


def _add_output(found: Reading, source: Source, run: Run) -> None:
    def read() -> bytes:
        pieces, size = [], 0
        for piece in source.output(run.id):
            pieces.append(piece)
            size += len(piece)
            if size >= CONTENT_MAX:
                break
        return b"".join(pieces)

    if run.output_ref is None and run.status not in OPEN and run.status != "success":
        return
    _add(found, "output", run.id, _ms(run.finished_at or run.created_at), read)


def _text(content: bytes) -> str:
    """Return a content as text; nothing for what is none."""
    if b"\0" in content[:8192]:
        return ""
    return content[:CONTENT_MAX].decode(errors="replace").strip()


def _context(source: Source, item: ContextItem) -> bytes:
    name = str(item.source.get("path_rel") or "")
    content = source.snapshot(item)
    if b"\0" in content[:8192]:
        content = b""  # found by its name
    labels = " ".join([name, *item.labels]).strip()
    return f"{labels}\n".encode(errors="replace") + content if labels else content


def _notes(session: Session, items: list[ContextItem], relevant: list[RelevantOutput]) -> Iterator[Entry]:
    begun, changed = _ms(session.created_at), _ms(session.updated_at)
    texts = [
        ("notes", session.notes, begun),
        ("context_summary", session.context_summary, changed),
        ("abort_reason", session.abort_reason, _ms(session.aborted_at or session.updated_at)),
        *((item.id, item.notes, _added_ms(item, session)) for item in items),
        *((one.run_id, one.note, _ms(one.added_at)) for one in relevant),
    ]
    kept: dict[str, Entry] = {}
    for entry, text, ms in texts:
        if isinstance(text, str) and text.strip() and entry not in kept:
            kept[entry] = Entry("note", entry, ms, text.strip()[:CONTENT_MAX])
    yield from kept.values()


def _add_messages(found: Reading, messages: list[Message]) -> None:
    """Add messages; one that is a run's prompt or output, word for word or as an excerpt, is that entry."""
    places = {(row.kind, row.entry): at for at, row in enumerate(found.entries)}
    for message in messages:
        kind = {"user": "prompt", "assistant": "output"}.get(message.role, "")
        at = places.get((kind, _run_of(message)))
        if at is not None and _is_same(message, found.entries[at]):
            found.entries[at] = found.entries[at]._replace(said=message.id, ms=id_order(message.id)[0])
            continue
        content = _said(message)
        if content:
            found.entries.append(
                Entry("message", message.id, id_order(message.id)[0], content[:CONTENT_MAX], message.role)
            )


def _is_same(message: Message, row: Entry) -> bool:
    return row.said is None and (message.content_ref is not None or message.content.strip() == row.content)


def _run_of(message: Message) -> str:
    metadata = message.metadata
    if not isinstance(metadata, dict) or "session" in metadata:  # of the session it was forked from
        return ""
    run = metadata.get("run")
    return run if isinstance(run, str) else ""


def _said(message: Message) -> str:
    parts = [message.content]
    for calls in (message.tool_calls, message.tool_results):
        if calls:
            parts.append(msgspec.json.encode(calls).decode(errors="replace"))
    return "\n".join(parts).strip()


def _added_ms(item: ContextItem, session: Session) -> int:
    for name in ("added_at", "timestamp", "created_at"):
        if isinstance(value := item.source.get(name), str):
            return _ms(value)
    return _ms(item.removed_at or session.created_at)


def _ms(timestamp: str | None) -> int:
    """Return when something was; what another program wrote may be no time at all."""
    with suppress(ValueError, OverflowError, OSError, TypeError):
        return from_iso(timestamp or "")
    return 0
