"""What a run is sent besides items of context: the conversation so far, what is set for the project, what was piped in.
Each is a row of `sent_context` with its own file in the run's folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from maestro_state.errors import InvalidValue
from maestro_state.models.excerpts import joined
from maestro_state.models.message import id_time
from maestro_state.models.names import one_line
from maestro_state.models.run import SentItem
from maestro_state.models.session import Session
from maestro_state.state.calls.replies import text
from maestro_state.state.calls.terms import Terms
from maestro_state.state.scripts import Call, load

PROJECT, HISTORY, STDIN = "project", "history", "stdin"

#: How much of them is handed on, in bytes, when so many messages are asked for where none are by default.
ASKED_BYTES = 16_384

#: Room for who said something, and for the line in place of what is left out of it; not counted.
_HEADER_BYTES = 200

#: Most messages handed on, whatever their size.
MESSAGES_MAX = 500


class Part(NamedTuple):
    """One part and its content."""

    item: SentItem
    content: bytes


class Said(NamedTuple):
    """A message as far as it is handed on."""

    id: str
    role: str
    content: str
    metadata: dict[str, Any]
    size: int  #: of the whole, in bytes


def part(name: str, content: bytes) -> Part:
    """Make a part; its file has its name."""
    from hashlib import sha256  # 5 ms that reading does without

    item = SentItem(id=name, kind="text", snapshot_blob=f"{name}.txt", digest=sha256(content).hexdigest(), role=name)
    return Part(item, content)


def arranged(items: Sequence[SentItem], parts: Sequence[Part]) -> list[SentItem]:
    """Return everything in the order a tool reads it: what holds for all, what was said, the context, what is new."""
    by_name = {one.item.id: one.item for one in parts}
    before = [by_name[name] for name in (PROJECT, HISTORY) if name in by_name]
    return [*before, *items, *([by_name[STDIN]] if STDIN in by_name else [])]


def piped_part(terms: Terms, content: bytes) -> Part | None:
    """Return what was piped in as a part; None when it is nothing."""
    if len(content) > terms.max_value_bytes:
        raise InvalidValue(
            f"what is piped in is more than the {terms.max_value_bytes} bytes that are taken",
            hint="pipe in less of it, or raise MAESTRO_MAX_BLOB_BYTES",
        )
    return part(STDIN, content) if content.strip() else None


def project_part(session: Session) -> Part | None:
    """Return what is set for the project and how its people like things done; None when nothing is."""
    fields = {"preferences": session.preferences, "project_context": session.project_context}
    chosen = [f"{name}: {msgspec.json.encode(value).decode()}\n" for name, value in fields.items() if value]
    return part(PROJECT, "".join(chosen).encode()) if chosen else None


def read_history(terms: Terms, session_id: str, after: str, count: int, most: int) -> Call:
    """Read the newest messages, as far as they fit into `most` bytes; costs the same however many lie before them."""

    def read(reply: list[Any]) -> list[Said]:
        # A session that is not there has none; whoever starts the run is told.
        return [_said(row) for row in reversed(reply[1])]

    args = (after, min(count, MESSAGES_MAX), most)
    return Call(load("read_history"), terms.keys.session(session_id), args, read)


def _said(row: list[Any]) -> Said:
    entry_id, role, head, tail, size, metadata = row
    is_cut = int(size) > len(head) + len(tail)
    content = joined(head, tail, int(size)) if is_cut else head.decode(errors="replace")
    return Said(text(entry_id), text(role), content, msgspec.json.decode(metadata) if metadata else {}, int(size))


def history_part(summary: str | None, said: Sequence[Said], most: int) -> Part | None:
    """Return the conversation so far as a part; None when nothing was said.

    Lines that say who spoke begin at the margin, lines that were spoken are indented: none can pass for the other.
    """
    entries = [_said_by(one, one.content) for one in said]
    size = sum(map(len, entries))
    while len(entries) > 1 and size > most:
        size -= len(entries.pop(0))
    if entries and len(entries[-1]) > most + most // 4 + _HEADER_BYTES:
        entries[-1] = _shortened(said[-1], most + _HEADER_BYTES)
    top = [_entry("summary of what was said before", summary)] if summary else []
    return part(HISTORY, b"\n".join([*top, *entries])) if top or entries else None


def _shortened(one: Said, most: int) -> bytes:
    """Return a message that was cut to `most` bytes and is longer as it is written: escaped bytes take four each."""
    raw = one.content.encode(errors="replace")
    kept = len(raw)
    while len(entry := _said_by(one, joined(raw[: kept // 2], raw[len(raw) - kept // 2 :], one.size))) > most and kept:
        kept = min(kept * most // len(entry), kept * 9 // 10)
    return entry


def _said_by(one: Said, content: str) -> bytes:
    return _entry(f"{one.role}{_origin(one)} · {id_time(one.id)}", content)


def _origin(one: Said) -> str:
    run, tool, model, session = (one.metadata.get(name) for name in ("run", "tool", "model", "session"))
    if not isinstance(run, str):
        return ""
    who = [str(name) for name in ((tool, model) if one.role == "assistant" else ()) if name]
    return "".join(f" · {one_line(word)}" for word in [*who, f"run {run}{f' of {session}' if session else ''}"])


def _entry(header: str, content: str) -> bytes:
    lines = [f"  {_plain(line)}".rstrip() for line in content.splitlines()]
    return "\n".join([f"{header}:", *lines, ""]).encode(errors="replace")


def _plain(line: str) -> str:
    if line.isprintable():  # as most are; looking at each character takes forty times as long
        return line
    return "\t".join(one_line(piece) for piece in line.split("\t"))
