"""Discussions: start, say, done, list, show, replay, migrate.

While a discussion is open the server has it, for all terminals; every change is also written to this checkout's files
at once. The last line on disk says where to go on, so a checkout that was away, or killed half-way, catches up with the
next call. A closed discussion needs no server any more; an open one that the server has forgotten is taken up again
from disk.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any

from maestro_state._sync.server import Server
from maestro_state.discuss import finding, migration
from maestro_state.discuss.legacy import final_of
from maestro_state.discuss.replay import ReplayOutcome, replay
from maestro_state.errors import (
    DamagedRecord,
    DiscussionClosed,
    DiscussionNotFound,
    DiscussionOpen,
    InvalidValue,
    NewerFormat,
    NoProject,
    NotReplicated,
    Refused,
    WorkFailed,
)
from maestro_state.local.project import Project
from maestro_state.mirror.layouts.discussion import DiscussionFiles, is_discussion_id
from maestro_state.mirror.layouts.plan import finish_change
from maestro_state.models.contracts import instructions
from maestro_state.models.discussion import (
    ASSISTANT,
    ERROR,
    Discussion,
    Meta,
    Transcript,
    TranscriptEvent,
    conversation,
)
from maestro_state.state.calls import discussions as ops
from maestro_state.state.scripts import Call

#: Inside the class, `list` is the verb.
Events = list[TranscriptEvent]


class Discussions:
    """What can be done with discussions. A reference is an id, its beginning, `latest` or a path."""

    def __init__(self, server: Server, project: Project) -> None:
        self._server = server
        self._project, root = project, project.root
        self._files = DiscussionFiles(root)
        finish_change(root)

    def start(
        self,
        *,
        kind: str = "global",
        ref: str | None = None,
        contract: str | None = None,
        reason: str | None = None,
        engine: str = "none",
        model: str = "default",
    ) -> Meta:
        """Start a discussion about something, to end in what a contract allows."""
        self._project.begin()
        stamp = self._server.stamp()
        meta = ops.new_meta(
            str(uuid.uuid4()),
            stamp.now_ms,
            kind=kind,
            ref=ref,
            contract=contract,
            reason=reason,
            engine=engine,
            model=model,
        )
        self._server.run(ops.start_discussion(self._server.terms, stamp, meta, after_micros=None))
        self._index(meta.session_id)
        self._files.follow(meta, [])
        return meta

    def say(
        self,
        content: str,
        ref: str | None = None,
        *,
        role: str = "user",
        model: str | None = None,
        engine: str | None = None,
        idempotency_key: str | None = None,
    ) -> TranscriptEvent:
        """Say something in an open discussion (default: this checkout's latest), once for each `idempotency_key`.

        `engine` is the tool that says it; the first one is the discussion's.
        """
        kind, payload = ops.message_event(self._server.terms, role, content, model)
        discussion_id = self.resolve(ref)
        return self._add(discussion_id, kind, payload, idempotency_key, engine)

    def report(self, message: str, ref: str | None = None, *, details: str | None = None) -> None:
        """Put on record that something went wrong in an open discussion, such as a tool that gave no answer."""
        discussion_id = self.resolve(ref)
        payload = {"message": message} | ({"details": details} if details else {})
        self._add(discussion_id, ERROR, payload)

    def done(self, payload: Any = None, ref: str | None = None) -> Meta:
        """End a discussion with its final JSON; without one, with the JSON its assistant said last."""
        discussion_id = self.resolve(ref)
        live = self._checkpoint(discussion_id)
        meta = live.meta if live else self._files.meta(discussion_id)
        if payload is None:
            payload = self._last_said(discussion_id)
        stamp = self._server.stamp()
        missing: NotReplicated | None = None
        try:
            self._change(discussion_id, ops.finish_discussion(self._server.terms, stamp, meta, payload))
        except NotReplicated as error:
            missing = error
        self._server.run(ops.forget_discussions(self._server.terms, [discussion_id]))
        self._checkpoint(discussion_id)
        if missing:  # it has ended, and is on disk
            raise missing
        return self._files.meta(discussion_id)

    def list(self) -> ops.Listing:
        """List the discussions of this checkout and the open ones of the server, last changed first."""
        found, damaged = self._files.metas()
        rows = {name: ops.Row(meta, live=False) for name, meta in found.items()}
        terms = self._server.terms
        try:
            listed = self._server.fetch(ops.open_discussions(terms))
        except NoProject:
            listed = []
        if listed:
            live, unreadable = self._open_ones(listed)
            damaged |= unreadable
            gone = [one for one in listed if one not in live and one not in unreadable]
            rows |= {state.meta.session_id: ops.Row(state.meta, live=True) for state in live.values()}
            if gone:
                self._server.run(ops.forget_discussions(terms, gone))
        return ops.Listing(sorted(rows.values(), key=lambda row: row.meta.updated_at, reverse=True), damaged)

    def _open_ones(self, ids: Sequence[str]) -> tuple[dict[str, ops.Live], dict[str, str]]:
        """Read open discussions in one round trip, or each apart where one is damaged, and why those are not read."""
        queries = [ops.read_discussion(self._server.terms, one) for one in ids]
        found: dict[str, ops.Live] = {}
        damaged: dict[str, str] = {}
        try:
            read = self._server.fetch_all(queries)
            return {one: state for one, state in zip(ids, read, strict=True) if state}, damaged
        except (DamagedRecord, NewerFormat):
            for one, query in zip(ids, queries, strict=True):
                try:
                    if state := self._server.fetch(query):
                        found[one] = state
                except (DamagedRecord, NewerFormat) as error:
                    damaged[one] = str(error)
        return found, damaged

    def show(self, ref: str = "latest") -> Discussion:
        """Return a discussion with its events, from the server, the disk or a legacy file."""
        found = self._find(ref)
        if found.elsewhere is not None:
            return found.elsewhere
        folder = found.folder or ""
        if folder not in self._files.ids():
            return self._from_server(folder)  # of another checkout: showing it does not join it
        self._catch_up(folder)
        return self._files.load(folder)

    def prompt(self, ref: str | None = None) -> str:
        """Return what a tool is handed: what it may answer by the contract, and the conversation so far."""
        found = self.show(self.resolve(ref))
        about = f"{found.meta.context.kind} {found.meta.context.ref or ''}".rstrip()
        return f"{instructions(found.meta.contract_type, about)}\n\n{conversation(found.transcript.events)}"

    def replay(self, ref: str, *, dry_run: bool = False) -> ReplayOutcome:
        """Apply what a discussion decided to the plan files, or only plan it. Asks no AI; repeatable.

        Raise DiscussionOpen for one without final_json; every other problem is an outcome with REPLAY_FAIL.
        """
        folder = self._here(self._find(ref))
        live = self._catch_up(folder)
        try:
            outcome = replay(self._files.root, self._files.load(folder), dry_run=dry_run)
        except DiscussionOpen as error:
            self._record(folder, live, [(ERROR, {"message": str(error), "details": error.hint})])
            raise
        self._record(folder, live, outcome.events())
        return outcome

    def plan(self, ref: str) -> ReplayOutcome:
        """Tell what replaying a discussion would change, for who only looks: unlike a dry run it is not recorded.

        Raise DiscussionOpen for one without final_json; every other problem is an outcome with REPLAY_FAIL.
        """
        return replay(self._files.root, self.show(ref), dry_run=True)

    def migrate(
        self,
        paths: Sequence[str] = (),
        *,
        dry_run: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> migration.Report:
        """Convert legacy discussions (default: all of this project's); originals are only read. Repeatable."""
        found = migration.candidates(self._files.root, paths)
        return migration.migrate(self._files, found, dry_run=dry_run, progress=progress)

    def _find(self, ref: str) -> finding.Found:
        """Find what a reference means; the server is asked only for what is not on disk."""
        if ref in self._files.ids():
            return finding.Found(ref)
        live = self._server.fetch(ops.open_discussions(self._server.terms))
        query = ops.read_discussion(self._server.terms, ref)
        if is_discussion_id(ref) and ref not in live and self._server.fetch(query):
            live.append(ref)  # closed not long ago, in another checkout
        return finding.find(self._files, ref, live=live)

    def _here(self, found: finding.Found) -> str:
        """Return the folder of what was found; what lies elsewhere is taken in first, and stays as it is there."""
        if found.elsewhere is not None:
            self._files.take_in(found.elsewhere)
            return found.elsewhere.meta.session_id
        folder = found.folder or ""
        if not self._files.has(folder):
            self._checkpoint(folder)
        return folder

    def resolve(self, ref: str | None = None) -> str:
        """Return the id of the discussion to change: given, else the latest open one of this checkout."""
        if ref is None:
            return self._latest_open()
        folder = self._here(self._find(ref))
        meta = self._files.meta(folder)
        if finding.is_closed(meta):
            raise DiscussionClosed(folder)
        if meta.session_id != folder:
            raise Refused(
                f"{self._files.path(folder)} holds the discussion {meta.session_id}", hint="name the folder like its id"
            )
        return folder

    def _latest_open(self) -> str:
        """Return the open discussion of this checkout that was last active: the server knows, else the disk."""
        for listed in self._server.fetch(ops.open_discussions(self._server.terms)):
            if self._files.has(listed) and not finding.is_closed(self._files.meta(listed)):
                return str(listed)
        records, _ = self._files.metas()
        return finding.newest(records, is_open=True)

    def _add(
        self,
        discussion_id: str,
        kind: str,
        payload: dict[str, Any],
        idempotency_key: str | None = None,
        engine: str | None = None,
    ) -> TranscriptEvent:
        stamp = self._server.stamp(idempotency_key)
        call = ops.add_event(self._server.terms, stamp, discussion_id, kind, payload, engine)
        entry_id = self._change(discussion_id, call)
        try:
            self._checkpoint(discussion_id)
        except WorkFailed as error:
            raise WorkFailed(
                f"it was said and the server keeps it, but it is not on disk yet: {error}",
                hint="do not say it again: the next command in this discussion writes it",
            ) from error
        return ops.event_at(entry_id, kind, payload)

    def _change(self, discussion_id: str, call: Call) -> str:
        """Run a script on an open discussion, taken up from disk if the server has forgotten it."""
        try:
            entry_id, summary = self._server.run(call)
        except DiscussionNotFound:
            self._take_up(discussion_id)
            entry_id, summary = self._server.run(call)
        except DiscussionClosed:
            self._checkpoint(discussion_id)
            raise
        if summary:
            self._index(discussion_id)
        return str(entry_id)

    def _take_up(self, discussion_id: str) -> None:
        """Give the server an open discussion it has forgotten: its record; what was said stays on disk."""
        self._checkpoint(discussion_id)
        found = self._files.load(discussion_id)
        if found.transcript.finals:
            self._files.close(discussion_id)
            raise DiscussionClosed(discussion_id)
        after = self._files.last_micros(discussion_id)
        stamp = self._server.stamp()
        self._server.run(ops.start_discussion(self._server.terms, stamp, found.meta, after_micros=after))
        self._index(discussion_id)

    def _index(self, discussion_id: str) -> None:
        terms = self._server.terms
        self._server.run(ops.index_discussion(terms, discussion_id, self._server.now_ms(), terms.ttl_ms))

    def _checkpoint(self, discussion_id: str) -> ops.Live | None:
        """Bring the files up to what the server has; None when it has nothing."""
        live, events = self._read(discussion_id, self._files.last_micros(discussion_id))
        if live is not None:
            self._files.follow(live.meta, events)
        return live

    def _catch_up(self, folder: str) -> ops.Live | None:
        """Checkpoint an open discussion; a closed one is whole on disk."""
        if not self._files.has(folder):
            return self._checkpoint(folder)
        meta = self._files.meta(folder)
        return None if finding.is_closed(meta) or meta.session_id != folder else self._checkpoint(folder)

    def _read(self, discussion_id: str, after: int | None) -> tuple[ops.Live | None, Events]:
        terms = self._server.terms
        queries = (ops.read_discussion(terms, discussion_id), ops.events_after(terms, discussion_id, after))
        live, events = self._server.fetch_all(queries)
        return live, events

    def _from_server(self, discussion_id: str) -> Discussion:
        live, events = self._read(discussion_id, None)
        if live is None:
            raise DiscussionNotFound(discussion_id)
        return Discussion(meta=live.meta, transcript=Transcript(tuple(events)))

    def _record(self, folder: str, live: ops.Live | None, events: Sequence[tuple[str, dict[str, Any]]]) -> None:
        """Append events where the discussion lives: on the server while it is open there, else on disk."""
        if live is None or finding.is_closed(live.meta):
            self._files.record(folder, self._server.now_ms() * 1000, events)
            return
        for kind, payload in events:
            self._add(folder, kind, payload)

    def _last_said(self, discussion_id: str) -> Any:
        events = self._files.load(discussion_id).transcript.events
        said = [event.payload["content"] for event in events if event.type == ASSISTANT]
        payload = final_of(said[-1]) if said else None
        if payload is None:
            raise InvalidValue(
                "the last message of the assistant is no JSON with patch_operations", hint="maestro discuss done FILE"
            )
        return payload
