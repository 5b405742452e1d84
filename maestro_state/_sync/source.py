# Generated from maestro_state/live by `make generate`. Do not edit.
"""One reader over one model: a session is read by the same calls whether the server has it or only the disk.

Here is what the server has; the disk's is in a module of its own, so that a live session costs nothing of the archive.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from maestro_state._sync.server import UNREADABLE, Server, damage
from maestro_state.models.context import ContextItem
from maestro_state.models.message import Event, Message, with_retractions
from maestro_state.models.run import RelevantOutput, Run, SentItem, last_output
from maestro_state.models.session import Field, Session
from maestro_state.net.faults import ReplyError
from maestro_state.state.calls import bindings as binding_ops
from maestro_state.state.calls import checkpoints as archiving
from maestro_state.state.calls import contents, paging
from maestro_state.state.calls import events as event_ops
from maestro_state.state.calls import messages as message_ops
from maestro_state.state.calls import runs as run_ops
from maestro_state.state.calls import sessions as session_ops
from maestro_state.vocabulary import FROZEN

if TYPE_CHECKING:
    from maestro_state._sync.archived import Archived

#: What a session is read by: both have the same verbs.
Source: TypeAlias = "Live | Archived"

Contents = tuple[Session, list[ContextItem], list[Run], list[RelevantOutput]]

#: The id before every other.
FIRST = "-"


class Live:
    """A session the server has."""

    archived = False

    def __init__(self, server: Server, session_id: str) -> None:
        self._server = server
        self.id = session_id

    def moment(self, before: archiving.Before | None = None) -> archiving.Moment:
        """Return the record and the contents as they are at one moment, read as what has changed if that is little.

        What will not change any more is read whole once: so the last archive depends on nothing but the server.
        """
        terms, now = self._server.terms, self._server.now_ms()
        if before is not None:
            changed: archiving.Moment | None = self._server.run(
                archiving.read_changes(terms, self.id, now, before)
            )
            if changed is not None and changed.session.state not in FROZEN:
                return changed
        found: archiving.Moment = self._server.run(archiving.read_contents(terms, self.id, now))
        return found

    def entry(self, entry_id: str) -> Message | Event | None:
        """Return a message or an event by its id; a piece of output as an event that tells its run and its size."""
        keys = [self._server.terms.keys.of_session(self.id, name) for name in ("messages", "events", "outputs")]
        found = self._server.connection.calls([("XRANGE", key, entry_id, entry_id) for key in keys])
        messages, events, pieces = found
        if messages:
            return message_ops.message_of(messages[0])
        if events:
            return event_ops.event_of("events", events[0])
        for _, run_id, data in paging.read_printed(pieces):
            return Event(entry_id, "run.output", {"run": run_id, "size": len(data)})
        return None

    def record(self) -> Session:
        """Return the session record."""
        now = self._server.now_ms()
        found: Session = self._server.fetch(session_ops.read_session(self._server.terms, self.id, now))
        return found

    def contents(self) -> Contents:
        """Return record, items, runs and promoted outputs, as they are at one moment."""
        moment = self.moment()
        return moment.session, moment.items, moment.runs, moment.relevant

    def items(self) -> list[ContextItem]:
        """Return every context item, removed ones too."""
        found: list[ContextItem] = self._server.fetch(contents.read_items(self._server.terms, self.id))
        return found

    def runs(self) -> list[Run]:
        """Return every run, oldest first."""
        query = contents.read_shown_runs(self._server.terms, self.id, self._server.now_ms())
        found: list[Run] = self._server.fetch_shown(query)
        return found

    def relevant(self) -> list[RelevantOutput]:
        """Return the promoted outputs."""
        found: list[RelevantOutput] = self._server.fetch(contents.read_relevant(self._server.terms, self.id))
        return found

    def last_output(self) -> dict[str, Any] | None:
        """Return which run's output is the last one."""
        return last_output(self.runs())

    def sent_context(self, run_id: str) -> list[SentItem]:
        """Return what a run was given."""
        found: list[SentItem] = self._server.fetch(contents.read_sent(self._server.terms, self.id, run_id))
        return found

    def prompt(self, run: Run) -> bytes:
        """Return a run's prompt."""
        return self.blob(run.prompt_digest) if run.prompt_digest else b""

    def blob(self, digest: str) -> bytes:
        """Return the content with a digest."""
        found: bytes = self._server.fetch(contents.read_blob(self._server.terms, self.id, digest))
        return found

    def blobs(self, digests: list[str]) -> Iterator[tuple[str, bytes]]:
        """Yield contents by their digests, a megabyte at a time: some are used while the next are on their way."""
        for digest, content in self._values("blobs", digests):
            yield digest, contents.read_blob(self._server.terms, self.id, digest).read(content)

    def _values(self, hash_name: str, names: list[str]) -> Iterator[tuple[str, bytes | None]]:
        connection, key = self._server.connection, self._server.terms.keys.of_session(self.id, hash_name)
        sizes = connection.calls([("HSTRLEN", key, name) for name in names])
        batches = paging.in_batches(names, sizes)
        commands = iter([("HMGET", key, *batch) for batch in batches])
        waiting = iter(batches)
        for found in connection.replies(next(commands, None), lambda _: next(commands, None)):
            for name, content in zip(next(waiting), found, strict=True):
                yield name, content

    def snapshot(self, item: ContextItem) -> bytes:
        """Return an item's content."""
        return self.blob(item.snapshot.digest)

    def activity(self, run_id: str) -> list[Event]:
        """Return what a run's agent did, as events."""
        terms = self._server.terms
        found = self._server.fetch(run_ops.activity_range(terms, self.id, run_id))
        done: list[Event] = []
        start, last = found or (None, "")
        while start:
            page, after = self._server.fetch(run_ops.activity_page(terms, self.id, run_id, start, last))
            done += page
            start = f"({after}" if after else None
        return done

    def output(self, run_id: str) -> Iterator[bytes]:
        """Yield what a run printed; what others printed before and after it is not read."""
        found = self._server.fetch(run_ops.output_range(self._server.terms, self.id, run_id))
        if found is None:
            return
        for page in self.output_pages(*found):
            for _, printed_by, data in page:
                if printed_by == run_id:
                    yield data

    def output_pages(
        self, start: str, end: str, left: int | None = None
    ) -> Iterator[list[tuple[str, str, bytes]]]:
        """Yield the pieces that runs printed in a span of ids, page by page: id, run, bytes; at most `left` bytes."""
        pages = paging.OutputPages(self._server.terms, self.id, (start, end), left)
        for reply in self._server.connection.replies(pages.command(), pages.following):
            yield paging.read_printed(reply)

    def messages(self, *, since: str | None = None, last: int | None = None) -> list[Message]:
        """Return the messages after one, or the last ones, or all."""
        terms = self._server.terms
        query = message_ops.messages_since(terms, self.id, since)
        if since is None and last is not None:
            query = message_ops.last_messages(terms, self.id, last)
        retracted = message_ops.read_retracted(terms, self.id)
        commands = [query.command, retracted.command]
        try:
            messages, taken_back = self._server.connection.calls(commands)
            return with_retractions(query.read(messages), retracted.read(taken_back))
        except (ReplyError, *UNREADABLE) as error:
            raise damage(error, str(query.command[1])) from error

    def kept(self, names: list[str] | None = None, *, prefix: str = "") -> dict[str, bytes]:
        """Return what a framework keeps of its own, under some names, those with a prefix, or all."""
        if prefix:
            return self._scanned(prefix)
        if names is None:
            names = self.kept_names()
        return {name: value for name, value in self._values("kept", names) if value is not None}

    def _scanned(self, prefix: str) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        cursor = -1
        while cursor:
            query = binding_ops.scan_kept(self._server.terms, self.id, prefix, max(cursor, 0))
            cursor, page = self._server.fetch(query)
            found |= page
        return found

    def kept_names(self) -> list[str]:
        """Return the names under which a framework keeps something."""
        found: list[str] = self._server.fetch(binding_ops.kept_names(self._server.terms, self.id))
        return found

    def message_pages(self, start: str, end: str) -> Iterator[list[Message]]:
        """Yield the messages in a span of ids, page by page."""
        while page := self._server.fetch(paging.read_messages(self._server.terms, self.id, start, end)):
            yield page
            if len(page) < paging.PAGE:
                return
            start = f"({page[-1].id}"

    def event_pages(self, start: str, end: str) -> Iterator[list[Event]]:
        """Yield the stored events in a span of ids, page by page."""
        while page := self._server.fetch(paging.read_events(self._server.terms, self.id, start, end)):
            yield page
            if len(page) < paging.PAGE:
                return
            start = f"({page[-1].id}"

    def field(self, name: str) -> Field:
        """Return a settable field with its revision."""
        found: Field = self._server.fetch(session_ops.get_field(self._server.terms, self.id, name))
        return found

    def summary(self) -> Message | None:
        """Return the context_summary as the message it is handed to a model as."""
        found: Message | None = self._server.fetch(message_ops.context_summary(self._server.terms, self.id))
        return found

    def events(self, after: str = event_ops.START, *, printed: bool = True) -> Iterator[Event]:
        """Yield what happened after an id, up to now; what runs printed only if it is wanted."""
        while True:
            reply = self._server.connection.call(*event_ops.read_after(self._server.terms, self.id, after, None))
            page = event_ops.merge(self._server.terms, self.id, reply)
            for event in page:
                if printed or event.type != "run.output":
                    yield event
                after = event.id
            if not page:
                return
