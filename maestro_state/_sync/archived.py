# Generated from maestro_state/live by `make generate`. Do not edit.
"""A session that only the disk has, read by the same calls as one that the server has."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

from maestro_state.errors import RemovedByCleanup
from maestro_state._sync.source import Contents
from maestro_state.mirror.reader import ArchivedSession
from maestro_state.models.context import ContextItem
from maestro_state.models.message import Event, Message, id_order
from maestro_state.models.run import RelevantOutput, Run, SentItem
from maestro_state.models.session import Field, Session
from maestro_state.state.calls import events as event_ops

#: Events read from disk at a time.
_PAGE = 500


class Archived:
    """A session that only the disk has."""

    archived = True

    def __init__(self, archive: ArchivedSession) -> None:
        self._archive = archive
        self.id = archive.id

    def record(self) -> Session:
        """Return the session record."""
        return self._archive.record()

    def contents(self) -> Contents:
        """Return record, items, runs and promoted outputs."""
        return self._archive.contents()

    def items(self) -> list[ContextItem]:
        """Return every context item, removed ones too."""
        return self._archive.items()

    def runs(self) -> list[Run]:
        """Return every run, oldest first."""
        return self._archive.runs()

    def relevant(self) -> list[RelevantOutput]:
        """Return the promoted outputs."""
        return self._archive.relevant()

    def last_output(self) -> dict[str, Any] | None:
        """Return which run's output is the last one."""
        return self._archive.last_output()

    def sent_context(self, run_id: str) -> list[SentItem]:
        """Return what a run was given."""
        return self._archive.sent_context(run_id)

    def prompt(self, run: Run) -> bytes:
        """Return a run's prompt."""
        return self._archive.prompt(run.id)

    def blob(self, digest: str) -> bytes:
        """Return the content with a digest."""
        return self._archive.blob(digest)

    def snapshot(self, item: ContextItem) -> bytes:
        """Return an item's content."""
        return self._archive.snapshot(item)

    def activity(self, run_id: str) -> list[Event]:
        """Return what a run's agent did, as events."""
        found = _stored_events(self._archive)
        return [one for one in found if one.type == "run.activity" and one.data.get("run") == run_id]

    def output(self, run_id: str) -> Iterator[bytes]:
        """Yield what a run printed, piece by piece."""
        pieces = self._archive.output(run_id)
        while (piece := next(pieces, None)) is not None:
            yield piece

    def messages(self, *, since: str | None = None, last: int | None = None) -> list[Message]:
        """Return the messages after one, or the last ones, or all."""
        found = self._archive.messages()
        if since is not None:
            return [message for message in found if id_order(message.id) > id_order(since)]
        return found if last is None else found[-last:]

    def kept(self, names: list[str] | None = None, *, prefix: str = "") -> dict[str, bytes]:
        """Return what a framework keeps of its own, under some names, those with a prefix, or all."""
        found = self._archive.kept()
        if prefix:
            return {name: value for name, value in found.items() if name.startswith(prefix)}
        return found if names is None else {name: found[name] for name in names if name in found}

    def kept_names(self) -> list[str]:
        """Return the names under which a framework keeps something."""
        return [*self.kept()]

    def field(self, name: str) -> Field:
        """Return a settable field with its revision."""
        fields, record = self._archive.fields(), self._archive.record()
        return Field(name, getattr(record, name), int(fields.get("revisions", {}).get(name, 0)))

    def summary(self) -> Message | None:
        """Return the context_summary as the message it is handed to a model as."""
        fields, record = self._archive.fields(), self._archive.record()
        place, summary = fields.get("set_at", {}).get("context_summary"), record.context_summary
        return Message(place, "system", summary) if summary and isinstance(place, str) else None

    def events(self, after: str = event_ops.START, *, printed: bool = True) -> Iterator[Event]:
        """Yield what happened after an id; events, messages and, if wanted, outputs in their one order."""
        found = _events(self._archive, after, printed=printed)
        while page := _page(found):
            for event in page:
                yield event


def _stored_events(archive: ArchivedSession) -> list[Event]:
    return list(archive.events())


def _page(events: Iterator[Event]) -> list[Event]:
    return list(islice(events, _PAGE))


def _events(archive: ArchivedSession, after: str, *, printed: bool) -> Iterator[Event]:
    merged = heapq.merge(
        ((id_order(event.id), event) for event in archive.events()),
        ((id_order(message.id), _said(message)) for message in archive.messages()),
        ((id_order(event.id), event) for event in (_printed(archive) if printed else ())),
        key=lambda pair: pair[0],
    )
    for place, event in merged:
        if place > id_order(after):
            yield event


def _said(message: Message) -> Event:
    document = message.document()
    del document["timestamp"]
    return Event(message.id, "message.added", document)


def _printed(archive: ArchivedSession) -> list[Event]:
    """Return the pieces of output as events, cut where they were; those of outputs that were removed are left out."""
    outputs: dict[str, bytes] = {}
    offsets: dict[str, int] = {}
    found = []
    for chunk in archive.chunks():
        if chunk.run not in outputs:
            with suppress(RemovedByCleanup):
                outputs[chunk.run] = b""
                outputs[chunk.run] = b"".join(archive.output(chunk.run))
        start = offsets.get(chunk.run, 0)
        offsets[chunk.run] = start + chunk.size
        if piece := outputs[chunk.run][start : start + chunk.size]:
            entry = [chunk.id.encode(), [b"run", chunk.run.encode(), b"data", piece]]
            found.append(event_ops.event_of("outputs", entry))
    return found
