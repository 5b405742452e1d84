"""A whole session as one document: Markdown that reads well on a code host, JSON that is complete and stable.

Written piece by piece to an open file, so that no output needs to fit into memory.
"""

from __future__ import annotations

import base64
import codecs
import re
from collections.abc import Iterable
from typing import Any, BinaryIO

import msgspec

from maestro_state.contents import ContextItem, RelevantOutput, Run, SentItem
from maestro_state.models import Event, Message, Session

#: Version of the JSON document.
FORMAT = 1

FORMATS = {"md": "md", "json": "json"}

#: Ending of a file → what a fence calls its language, where the two differ.
_LANGUAGES = {"py": "python", "js": "javascript", "ts": "typescript", "rs": "rust", "rb": "ruby", "md": "markdown"}
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def text_of(content: bytes) -> str | None:
    """Return content as text; None when it is none."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def file_name(moment: str, form: str) -> str:
    """Return the name of an export made at an ISO time: `2024-05-07T12-00-00Z-md.md`."""
    return f"{moment[:19].replace(':', '-')}Z-{form}.{FORMATS[form]}"


def warnings(items: Iterable[ContextItem], runs: Iterable[Run]) -> list[str]:
    """Say what a reader of the export should know before handing it on, or looking for what is not in it."""
    told = []
    files = [str(item.source.get("path_rel", item.id)) for item in items if item.kind == "file"]
    if files:
        told.append(
            f"contains the contents of {len(files)} project file{'s' if len(files) > 1 else ''}: {_some(files)}"
        )
    gone = [run.id for run in runs if run.removed_at or (run.output_ref and run.output_ref.removed_at)]
    if gone:
        told.append(f"cleanup had removed the output of {len(gone)} run{'s' if len(gone) > 1 else ''}: {_some(gone)}")
    return told


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (" …" if len(names) > 5 else "")


class People(msgspec.Struct, frozen=True):
    """Who did what in a session."""

    owner: str
    others: dict[str, str]  #: id of an item or a run → who added or started it, where it was not the owner

    def of(self, thing: str) -> str:
        """Return who added an item or started a run."""
        return self.others.get(thing, self.owner)

    def mark(self, user: str | None) -> str:
        """Return what to say of somebody who is not the owner; the owner is named once, at the top."""
        return f"by {_plain(user)}" if user and user != self.owner else ""


class JsonExport:
    """Everything there is, in one JSON object."""

    def __init__(self, file: BinaryIO, people: People) -> None:
        """Take the file to write to, and who did what."""
        self._file = file
        self._people = people

    def begin(self, session: Session, notes: list[str]) -> None:
        """Write the record."""
        head = {"format": FORMAT, "session": session, "warnings": notes}
        self._file.write(msgspec.json.encode(head)[:-1])
        self._first = True

    def section(self, name: str) -> None:
        """Open a list."""
        self._file.write(b',"' + name.encode() + b'":[')
        self._first = True

    def end_section(self) -> None:
        """Close the list."""
        self._file.write(b"]")

    def _row(self, value: dict[str, Any]) -> bytes:
        encoded = msgspec.json.encode(value)
        comma = b"" if self._first else b","
        self._first = False
        return comma + encoded

    def item(self, item: ContextItem, content: bytes) -> None:
        """Write an item with its content."""
        row = msgspec.to_builtins(item) | {"user": self._people.of(item.id)}
        self._file.write(self._row(row | _content("content", content)))

    def begin_run(self, run: Run, prompt: bytes, sent: list[SentItem]) -> None:
        """Write a run up to its output."""
        row = msgspec.to_builtins(run) | {"user": self._people.of(run.id)} | _content("prompt", prompt)
        self._file.write(self._row(row | {"sent_context": msgspec.to_builtins(sent)})[:-1])

    def output(self, pieces: Iterable[bytes], *, is_text: bool) -> None:
        """Write a run's output piece by piece."""
        if is_text:
            self._file.write(b',"output":"')
            decoder = codecs.getincrementaldecoder("utf-8")()
            for piece in pieces:
                self._file.write(msgspec.json.encode(decoder.decode(piece))[1:-1])
            self._file.write(b'"')
            return
        self._file.write(b',"output_base64":"')
        rest = b""
        for piece in pieces:
            joined = rest + piece
            whole = len(joined) - len(joined) % 3
            self._file.write(base64.b64encode(joined[:whole]))
            rest = joined[whole:]
        self._file.write(base64.b64encode(rest) + b'"')

    def removed(self, removed_at: str) -> None:
        """Say that a run's output, or the run, is not there any more; its reference says when it was removed."""
        del removed_at
        self._file.write(b',"output":null')

    def end_run(self, damage: list[str]) -> None:
        """Close the run; say what of it is damaged."""
        self._file.write((b',"damage":' + msgspec.json.encode(damage) if damage else b"") + b"}")

    def message(self, message: Message) -> None:
        """Write a message."""
        self._file.write(self._row(message.document() | {"user": message.user or self._people.owner}))

    def event(self, event: Event) -> None:
        """Write an event; messages and what runs printed have their own places."""
        if event.type not in ("run.output", "message.added"):
            self._file.write(self._row(event.document()))

    def end(self, relevant: list[RelevantOutput], last: dict[str, Any] | None) -> None:
        """Write what is left and close the document."""
        rest = msgspec.json.encode({"relevant": relevant, "last_output": last})
        self._file.write(b"," + rest[1:] + b"\n")


def _content(name: str, content: bytes) -> dict[str, str]:
    text = text_of(content)
    return {f"{name}_base64": base64.b64encode(content).decode()} if text is None else {name: text}


class MarkdownExport:
    """The session as a page to read."""

    def __init__(self, file: BinaryIO, people: People) -> None:
        """Take the file to write to, and who did what."""
        self._file = file
        self._people = people

    def _line(self, text: str = "") -> None:
        self._file.write(text.encode("utf-8", "replace") + b"\n")

    def begin(self, session: Session, notes: list[str]) -> None:
        """Write the head of the page."""
        stats = session.stats
        self._line(f"# {_plain(session.slug)}\n")
        for note in notes:
            self._line(f"> **Note:** {_plain(note)}\n")
        rows = [
            ("session", f"`{session.id}`"),
            ("state", session.state),
            ("started", f"{session.created_at} by {_plain(session.user_id) or 'unknown'}"),
            ("last activity", session.last_activity),
            ("tool", _plain(session.tool_active or "none")),
            ("runs", f"{stats.runs_total} ({stats.runs_success} ok, {stats.runs_error} failed)"),
        ]
        optional = {"note": session.notes, "reason": session.abort_reason, "forked from": session.forked_from}
        rows += [(name, _plain(value)) for name, value in optional.items() if value]
        self._line("| | |\n|---|---|")
        for name, value in rows:
            self._line(f"| {name} | {value} |")
        self._line()
        if session.context_summary:
            self._line("## Summary\n")
            self._block(session.context_summary, "")

    def section(self, name: str) -> None:
        """Open a part of the page."""
        title = {"context": "Context", "runs": "Runs", "messages": "Conversation", "events": "What happened"}[name]
        self._line(f"## {title}\n")

    def end_section(self) -> None:
        """Close it."""
        self._line()

    def _block(self, text: str, language: str) -> None:
        """Write a text as it is, in a fence that nothing inside can close."""
        fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
        body = _CONTROL.sub("\ufffd", text)
        self._line(f"{fence}{language}\n{body}{'' if body.endswith(chr(10)) else chr(10)}{fence}\n")

    def item(self, item: ContextItem, content: bytes) -> None:
        """Write an item with its content."""
        path = str(item.source.get("path_rel") or "")
        title = f"{item.kind} `{_plain(path)}`" if path else item.kind
        removed = " (removed)" if item.state == "removed" else ""
        who = self._people.mark(self._people.of(item.id))
        self._line(f"### {item.id}: {title}{removed}\n" + (f"\nadded {who}\n" if who else ""))
        text = text_of(content)
        if text is None:
            self._line(f"*{len(content)} bytes that are not text, SHA-256 `{item.snapshot.digest}`*\n")
        else:
            ending = path.rpartition(".")[2].lower() if "." in path else ""
            self._block(text, _LANGUAGES.get(ending, ending if ending.isalnum() else ""))

    def begin_run(self, run: Run, prompt: bytes, sent: list[SentItem]) -> None:
        """Write how a run was asked for."""
        self._line(f"### Run {run.id}: {_plain(run.tool)}, {run.status}\n")
        who = self._people.mark(self._people.of(run.id))
        facts = [f"started {run.started_at or run.created_at} {who}".rstrip()]
        facts += [f"finished {run.finished_at}"] if run.finished_at else []
        facts += [f"exit code {run.exit_code}"] if run.exit_code is not None else []
        facts += [f"given {', '.join(_plain(one.id) for one in sent)}"] if sent else []
        self._line("; ".join(facts) + "\n")
        if run.error:
            self._line(f"**Error:** {_plain(run.error)}\n")
        if not run.removed_at:
            self._line("**Prompt**\n")
            self._block(prompt.decode("utf-8", "replace"), "")

    def output(self, pieces: Iterable[bytes], *, is_text: bool) -> None:
        """Write a run's output."""
        content = b"".join(pieces)
        if not content:
            return
        self._line("**Output**\n")
        if is_text:
            self._block(content.decode(), "")
        else:
            self._line(f"*{len(content)} bytes that are not text*\n")

    def removed(self, removed_at: str) -> None:
        """Say that a run's output, or the run, is not there any more."""
        self._line(f"*Removed by cleanup on {_plain(removed_at)}.*\n")

    def end_run(self, damage: list[str]) -> None:
        """Say what of the run is damaged."""
        for reason in damage:
            self._line(f"> **Note:** {_plain(reason)}\n")

    def message(self, message: Message) -> None:
        """Write a message."""
        who = self._people.mark(message.user)
        self._line(f"**{message.role}** · {message.timestamp} {who}".rstrip() + "\n")
        if message.content:
            self._block(message.content, "")
        for call in message.tool_calls or []:
            tool = str(call.get("tool") or call.get("name") or "a tool")
            self._line(f"- calls {_plain(tool)} (`{_plain(str(call.get('id')))}`)")
        for result in message.tool_results or []:
            self._line(f"- result of `{_plain(str(result.get('call_id')))}`")
        self._line()

    def event(self, event: Event) -> None:
        """Write an event as one line."""
        if event.type in ("run.output", "message.added"):
            return
        facts = " ".join(f"{name}={_plain(str(value))}" for name, value in event.data.items())
        self._line(f"- {event.ts} {event.type} {facts}".rstrip())

    def end(self, relevant: list[RelevantOutput], last: dict[str, Any] | None) -> None:
        """Write which outputs matter."""
        del last
        if relevant:
            self._line("## Relevant outputs\n")
            for one in relevant:
                self._line(f"- run {_plain(one.run_id)}" + (f": {_plain(one.note)}" if one.note else ""))


def _plain(text: str) -> str:
    """Return a text that stays on its line and in its cell, and is not taken for markup."""
    flat = _CONTROL.sub("\ufffd", " ".join(text.split()))
    return re.sub(r"([\\`*_{}\[\]<>|#])", r"\\\1", flat)


#: Format → who writes it.
EXPORTS: dict[str, type[MarkdownExport | JsonExport]] = {"md": MarkdownExport, "json": JsonExport}
