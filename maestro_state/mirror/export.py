"""A whole session as one document: Markdown that reads well on a code host, JSON that is complete and stable.

Written piece by piece to an open file, so that no output needs to fit into memory.
"""

from __future__ import annotations

import base64
import codecs
from collections.abc import Callable, Iterable
from typing import Any, BinaryIO

import msgspec

from maestro_state.mirror.spool import Redaction, Spool
from maestro_state.models.context import ContextItem
from maestro_state.models.message import Event, Message
from maestro_state.models.run import RelevantOutput, Run, SentItem
from maestro_state.models.session import Session

#: Version of the JSON document.
FORMAT = 1

FORMATS = {"md": "md", "json": "json"}

#: What is done to every text before it is written.
Clean = Callable[[str], str]


def unchanged(text: str) -> str:
    return text


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
    files = list(dict.fromkeys(str(item.source.get("path_rel", item.id)) for item in items if item.kind == "file"))
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


class JsonExport:
    """Everything there is, in one JSON object."""

    def __init__(self, file: BinaryIO, people: People, clean: Clean = unchanged) -> None:
        self._file = file
        self._people = people
        self._clean = clean

    def begin(self, session: Session, notes: list[str]) -> None:
        """Write the record."""
        head = {"format": FORMAT, "session": msgspec.to_builtins(session), "warnings": notes}
        self._file.write(msgspec.json.encode(self._cleaned(head))[:-1])
        self._first = True

    def section(self, name: str) -> None:
        """Open a list."""
        self._file.write(b',"' + name.encode() + b'":[')
        self._first = True

    def end_section(self) -> None:
        """Close the list."""
        self._file.write(b"]")

    def _cleaned(self, value: Any) -> Any:
        """Return a value with every text in it cleaned; one behind a name together with it, which may tell more."""
        if self._clean is unchanged:
            return value
        if isinstance(value, str):
            return self._clean(value)
        if isinstance(value, list):
            return [self._cleaned(one) for one in value]
        if isinstance(value, dict):
            return {self._clean(name): self._behind(name, one) for name, one in value.items()}
        return value

    def _behind(self, name: str, value: Any) -> Any:
        told = f'{name} = "{value}"'
        if isinstance(value, str) and self._clean(told) != told:
            cleaned = self._clean(value)
            return cleaned if cleaned != value else "[redacted]"
        return self._cleaned(value)

    def _row(self, value: dict[str, Any]) -> bytes:
        encoded = msgspec.json.encode(self._cleaned(value))
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

    def output(self, spool: Spool, redaction: Redaction | None = None) -> None:
        """Write a run's output piece by piece."""
        if spool.is_text:
            self._file.write(b',"output":"')
            decoder = codecs.getincrementaldecoder("utf-8")("replace")
            for piece in spool.pieces(redaction):
                self._file.write(msgspec.json.encode(decoder.decode(piece))[1:-1])
            self._file.write(b'"')
            return
        self._file.write(b',"output_base64":"')
        rest = b""
        for piece in spool.pieces(redaction):
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
        self._file.write(self._row(message.document() | {"user": message.user or self._people.owner}))

    def event(self, event: Event) -> None:
        """Write an event; messages and what runs printed have their own places."""
        if event.type not in ("run.output", "message.added"):
            self._file.write(self._row(event.document()))

    def end(self, relevant: list[RelevantOutput], last: dict[str, Any] | None) -> None:
        """Write what is left and close the document."""
        rest = msgspec.json.encode(self._cleaned({"relevant": msgspec.to_builtins(relevant), "last_output": last}))
        self._file.write(b"," + rest[1:] + b"\n")


def _content(name: str, content: bytes) -> dict[str, str]:
    text = text_of(content)
    return {f"{name}_base64": base64.b64encode(content).decode()} if text is None else {name: text}
