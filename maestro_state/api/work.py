"""Work sessions: start, end, pause, resume, list, tree, breadcrumbs, timeline, stats. Live ones and those on disk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import uuid4

import msgspec

from maestro_state._sync.server import Server
from maestro_state.api.consumer import Consumer
from maestro_state.clock import from_iso
from maestro_state.errors import Conflict, InvalidValue, NotReplicated, OpenChildren
from maestro_state.local.project import Project
from maestro_state.mirror.layouts.work import applied_ids, read_breadcrumbs
from maestro_state.mirror.mailbox import Outcome
from maestro_state.models.message import Event
from maestro_state.models.run import Activity, Run
from maestro_state.models.work import Accepted, Breadcrumb, WorkSession, WorkView, breadcrumb_of_run
from maestro_state.state.calls import breadcrumbs as crumb_ops
from maestro_state.state.calls import work as ops
from maestro_state.upkeep.work_store import WorkStore
from maestro_state.vocabulary import WORK_OPEN, WorkStatus
from maestro_state.work import timeline
from maestro_state.work.stats import WorkStats, add_up, totals_of
from maestro_state.work.timeline import Happening
from maestro_state.work.tree import Filters, Node, pruned, tree_of

#: What ending a work session does to children that are open.
CHILDREN = ("refuse", "end", "leave")

#: What `list` returns; inside the class, `list` is the verb.
WorkSessions = list[WorkSession]
Breadcrumbs = list[Accepted]
Happenings = list[Happening]
Nodes = list[Node]
Ids = list[str]
Totals = dict[str, Mapping[str, int]]

EVERYTHING = Filters()


class Work:
    """Work sessions of a project and what was left in them."""

    def __init__(self, server: Server, project: Project) -> None:
        self._server = server
        self._project = project
        self._store = WorkStore(server, project)
        self._consumer = Consumer(server, self._store)

    def start(
        self,
        session_type: str,
        *,
        parent: str | None = None,
        related_entity: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
        ttl_seconds: int | None = None,
    ) -> WorkSession:
        """Start a work session, under another one if told, and write its folder."""
        self._project.begin()
        terms, work_id = self._server.terms, str(uuid4())
        above = self._store.live(self.resolve(parent)) if parent else None
        path = (*above.path, work_id) if above else (work_id,)
        ttl_ms = terms.ttl_ms if ttl_seconds is None else ttl_seconds * 1000
        if ttl_ms < 1000:
            raise InvalidValue("the time to live must be at least 1 second")
        entity, more = related_entity or {}, metadata or {}
        call = ops.start_work(terms, self._server.stamp(), path, session_type, entity, more, ttl_ms)
        if above:
            self._store.change(ops.add_child(terms, self._server.stamp(), above.id, work_id))
        self._store.change(call)
        return self._store.checkpoint(work_id).record

    def end(self, ref: str, status: str = WorkStatus.COMPLETED, *, children: str = "refuse") -> WorkSession:
        """End a work session for good.

        Children that are still open: `refuse` (OpenChildren), `end` them first with the same status, or `leave`
        them to go on by themselves.
        """
        if children not in CHILDREN:
            hint = f"one of {', '.join(CHILDREN)}"
            raise InvalidValue(f"'{children[:40]}' is not a way to treat children", hint=hint)
        work = self._store.live(self.resolve(ref))
        stamp = self._server.stamp()
        missing: NotReplicated | None = None
        while True:
            under = self._server.fetch(ops.read_children(self._server.terms, work.id))
            open_ones = [one.id for one in self._store.read_live(under) if one.record.status in WORK_OPEN]
            if open_ones and children == "refuse":
                raise OpenChildren(work.id, open_ones)
            if children == "end":
                for one in open_ones:
                    try:
                        self.end(one, status, children="end")
                    except NotReplicated as error:
                        missing = error
            try:
                self._store.change(ops.end_work(self._server.terms, stamp, work.id, status, len(under)))
            except Conflict:
                continue  # a child was started meanwhile: ask again
            except NotReplicated as error:
                missing = error
            ended = self._store.checkpoint(work.id).record
            if missing:  # all of them have ended, and are on disk
                raise missing
            return ended

    def pause(self, ref: str) -> WorkSession:
        """Mark a work session as one that nobody works on just now."""
        return self._mark(ref, WorkStatus.PAUSED)

    def resume(self, ref: str) -> WorkSession:
        """Mark a paused work session as running again."""
        return self._mark(ref, WorkStatus.RUNNING)

    def _mark(self, ref: str, status: str) -> WorkSession:
        work_id = self.resolve(ref)
        self._store.change(ops.mark_work(self._server.terms, self._server.stamp(), work_id, status))
        return self._store.checkpoint(work_id).record

    def resolve(self, ref: str = "latest") -> str:
        """Return the id that a full id, its beginning or `latest` means."""
        return self._store.resolve(ref)

    def read(self, ref: str = "latest") -> WorkView:
        """Return a work session, live or on disk."""
        return self._store.find(self.resolve(ref))

    def children(self, ref: str) -> WorkSessions:
        """Return the work sessions right under one."""
        members = self._store.of(self.read(ref))
        return [work.record for work in members if work.record.parent_session_id == members[0].id]

    def list(self, filters: Filters = EVERYTHING) -> WorkSessions:
        """List work sessions, live ones and those on disk, last modified first."""
        found = self._store.everything()
        return [
            work.record
            for work in found
            if filters.has_session(work.record)
            and filters.depth in (None, work.depth)
            and filters.has_time(from_iso(work.record.modified))
        ]

    def tree(self, ref: str | None = None, filters: Filters = EVERYTHING) -> Nodes:
        """Return the tree under a work session, or all trees."""
        if ref is None:
            found = self._store.everything()
            return pruned(tree_of(work.record for work in found), filters)
        members = self._store.of(self.read(ref))
        return pruned(tree_of((work.record for work in members), members[0].id), filters)

    def add_breadcrumb(self, cookie: str, breadcrumb: Breadcrumb) -> Accepted:
        """Accept a breadcrumb, once: the same breadcrumb_id again changes nothing. Unknown cookies are refused."""
        work_id = self.resolve(cookie)
        entry_id, _ = self._store.accept(work_id, breadcrumb)
        return Accepted(work_id, entry_id, breadcrumb, applied=False)

    def add_run_breadcrumb(
        self,
        cookie: str,
        run: Run,
        prompt: str,
        response: str,
        *,
        session_id: str = "",
        activity: Sequence[Event] = (),
    ) -> Accepted:
        """Add the breadcrumb of a finished run and what its agent did, at its work session's depth; repeatable."""
        work = self._store.live(self.resolve(cookie))
        done = [msgspec.convert(one.data, Activity) for one in activity]
        crumb = breadcrumb_of_run(run, prompt, response, session_id=session_id, depth=work.depth, activity=done)
        return self.add_breadcrumb(work.id, crumb)

    def breadcrumbs(
        self, ref: str = "latest", filters: Filters = EVERYTHING, *, with_children: bool = False
    ) -> Breadcrumbs:
        """Return what was accepted, in that order, with whether it was applied yet."""
        work = self.read(ref)
        members = self._store.of(work) if with_children else [work]
        return [one for each in members for one in self._crumbs(each, filters)]

    def _crumbs(self, work: WorkView, filters: Filters) -> Breadcrumbs:
        if not filters.has_session(work.record):
            return []
        if work.is_live:
            found = list(self._store.accepted(work))
        else:
            stored = read_breadcrumbs(self._store.root, work.path, limit=self._store.file_limit)
            applied = applied_ids(self._store.root, work.path)
            found = [Accepted(work.id, "", crumb, applied=crumb.breadcrumb_id in applied) for crumb in stored]
        return [
            one
            for one in found
            if filters.depth in (None, one.breadcrumb.depth_level) and filters.has_time(one.breadcrumb.at_ms)
        ]

    def stats(self, ref: str = "latest", filters: Filters = EVERYTHING) -> WorkStats:
        """Add up what was applied in a work session and all under it; of one that only the disk has, all that is there.

        Costs what the tree costs, not its breadcrumbs, unless a filter picks single ones or only the disk has them.
        """
        members = [one for one in self._store.of(self.read(ref)) if filters.has_session(one.record)]
        kept = [one.id for one in members if one.is_live and not filters.picks_breadcrumbs]
        parts: Totals = self._store.totals(kept)
        for work in members:
            if work.id not in parts:
                found = self._crumbs(work, filters)
                parts[work.id] = totals_of(one.breadcrumb for one in found if one.applied or not work.is_live)
        return add_up(parts.values())

    def timeline(self, ref: str = "latest", filters: Filters = EVERYTHING) -> Happenings:
        """Return what happened in a work session and all under it, by time."""
        members = self._store.of(self.read(ref))
        top = members[0].depth
        happenings: Happenings = []
        for work in members:
            depth = work.depth - top
            happenings += [
                timeline.left(work.id, one.breadcrumb, depth)
                for one in self._crumbs(work, filters)
                if one.applied or not work.is_live
            ]
            if filters.has_session(work.record) and filters.depth in (None, work.depth):
                happenings += self._milestones(work, depth)
        return timeline.in_order(happenings, filters)

    def _milestones(self, work: WorkView, depth: int) -> Happenings:
        """Return what happened to the work session itself."""
        first = timeline.started(work.record, depth)
        if work.is_live:
            log = self._server.fetch(crumb_ops.read_log(self._server.terms, work.id, None))
            marks = [timeline.marked(work.id, entry, depth) for entry in log]
            return [first, *(mark for mark in marks if mark)]
        return [first] if work.record.status in WORK_OPEN else [first, timeline.ended(work.record, depth)]

    def checkpoint(self, ref: str = "latest") -> WorkView:
        """Write the record and every breadcrumb that is not on disk yet."""
        return self._store.checkpoint(self.resolve(ref))

    def sweep(self) -> Ids:
        """Write every work session of this project that has changes not on disk yet; returns their ids."""
        return self._store.sweep()

    def consume(self, cookie: str) -> Outcome:
        """Take what is in the mailboxes, apply what was accepted, in the work session and all under it; then return."""
        return self._consumer.once(self._known(cookie))

    def follow(self, cookie: str, *, until_idle_ms: int | None = None) -> Iterator[Happening]:
        """Consume as breadcrumbs come, and yield what is logged, by whichever consumer, until the session's end."""
        yield from self._consumer.follow(self._known(cookie), until_idle_ms=until_idle_ms)

    def _known(self, cookie: str) -> str:
        work = self.read(cookie)
        if not work.is_live:
            self._store.adopt(work)
        return work.id
