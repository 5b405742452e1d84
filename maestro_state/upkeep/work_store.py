"""Work sessions where they are: on the server, on disk, or both; found, read and written there.

The rooms above see one kind of work session; this is what makes it so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from maestro_state._sync.server import Server
from maestro_state.clock import from_iso
from maestro_state.errors import (
    NoProject,
    Refused,
    ServerStorageError,
    ServerUnavailable,
    WorkSessionClosed,
    WorkSessionNotFound,
)
from maestro_state.fs.handles import Folder
from maestro_state.local.logs import get_logger
from maestro_state.local.project import Project
from maestro_state.mirror.layouts import work as layout
from maestro_state.models.message import id_order
from maestro_state.models.work import DEPTH_MAX, Accepted, Breadcrumb, WorkView
from maestro_state.models.work_names import WorkPath, is_uuid, pick_work
from maestro_state.state.calls import breadcrumbs as crumb_ops
from maestro_state.state.calls import work as ops
from maestro_state.state.calls.checkpoints import read_time
from maestro_state.state.scripts import Call
from maestro_state.vocabulary import WorkStatus

#: A breadcrumb file may be indented: that much larger than what is stored.
_FILE_MARGIN = 4

_log = get_logger("maestro.work")


class WorkStore:
    """Work sessions with all that is under them."""

    def __init__(self, server: Server, project: Project) -> None:
        self._server = server
        self.root = str(project.root)
        self.batch = crumb_ops.BATCH
        self.file_limit = server.terms.max_value_bytes * _FILE_MARGIN

    def change(self, call: Call) -> Any:
        """Run a script that changes a work session, and bring the index up to date when the script says it is due."""
        (value, summary), missing = self._server.attempt(call)
        self._index(summary)
        if missing:
            raise missing
        return value

    def _index(self, summary: Any) -> None:
        # The change itself is done: with no memory left for the index it must not seem undone.
        if summary:
            with suppress(ServerStorageError):
                self._server.run(ops.index_work(self._server.terms, summary))

    def accept(self, work_id: str, crumb: Breadcrumb, *, source: str | None = None) -> tuple[str, bool]:
        """Accept a breadcrumb; returns its entry and whether it is new."""
        with self._server.sequence() as sequence:
            stamp = self._server.stamp(sequence.next_key())
            call = crumb_ops.add_breadcrumb(self._server.terms, stamp, work_id, crumb, source=source)
            try:
                entry_id, is_new, summary = self._server.run(call)
            except WorkSessionNotFound:
                self.live(work_id)  # says it better if the disk has it
                raise
        self._index(summary)
        return entry_id, is_new

    def apply(self, work_id: str) -> int:
        """Apply the next breadcrumbs; returns how many there were."""
        with self._server.sequence() as sequence:
            call = crumb_ops.apply_breadcrumbs(self._server.terms, sequence.next_key(), work_id, self.batch)
            return int(self.change(call))

    def read_live(self, ids: list[str]) -> list[WorkView]:
        """Read work sessions from the server in one round trip; those it does not have are left out."""
        found = self._server.fetch_all([ops.read_work(self._server.terms, one) for one in ids])
        return [work for work in found if work is not None]

    def totals(self, ids: list[str]) -> dict[str, Mapping[str, int]]:
        """Read the sums of live work sessions in one round trip."""
        found = self._server.fetch_all([crumb_ops.read_totals(self._server.terms, one) for one in ids])
        return dict(zip(ids, found, strict=True))

    def live(self, work_id: str) -> WorkView:
        """Read a work session that must be on the server."""
        found = self.read_live([work_id])
        if not found:
            kept = layout.find(self.root, work_id)
            if kept is None:
                raise WorkSessionNotFound(work_id)
            raise WorkSessionClosed(work_id, f"{kept.record.status} and only on disk", "changing it")
        return found[0]

    def find(self, work_id: str) -> WorkView:
        """Read a work session from the server, else from disk."""
        found = self.read_live([work_id])
        if found:
            return found[0]
        kept = layout.find(self.root, work_id)
        if kept is None:
            raise WorkSessionNotFound(work_id)
        return self._kept(kept)

    def _kept(self, kept: layout.OnDisk) -> WorkView:
        count = layout.count_breadcrumbs(self.root, kept.path)
        applied = len(layout.applied_ids(self.root, kept.path))
        return WorkView(record=kept.record, path=kept.path, accepted=count, applied=applied, is_live=False)

    def everything(self) -> list[WorkView]:
        """Return all there are, last modified first; the server's word counts where both have one."""
        live: list[WorkView] = []
        with suppress(NoProject):
            live = self._server.fetch(ops.all_work(self._server.terms))
        known = {work.id for work in live}
        kept = [one for one in layout.walk(self.root) if one.path[-1] not in known]
        works = live + [WorkView(record=one.record, path=one.path, is_live=False) for one in kept]
        return sorted(works, key=lambda work: work.record.modified, reverse=True)

    def resolve(self, ref: str) -> str:
        """Return the id a reference means."""
        if is_uuid(ref):
            return ref.lower()
        return pick_work(ref, [work.id for work in self.everything()])

    def of(self, top: WorkView) -> list[WorkView]:
        """Return a work session and all under it, parents before children, each once."""
        members, level, known = [top], [top], {top.id}
        for _ in range(DEPTH_MAX):
            if not level:
                break
            found = self._server.fetch_all([ops.read_children(self._server.terms, work.id) for work in level])
            wanted: dict[str, WorkPath] = {}
            for work, children in zip(level, found, strict=True):
                for child in {*children, *layout.child_folders(self.root, work.path)} - known:
                    wanted[child] = (*work.path, child)
            live = {work.id: work for work in self.read_live(sorted(wanted))}
            level = []
            for child, path in sorted(wanted.items()):
                if child in live:
                    level.append(live[child])
                elif kept := layout.read_at(self.root, path):
                    level.append(self._kept(kept))
            known |= wanted.keys()
            members += level
        return members

    def adopt(self, work: WorkView) -> WorkView:
        """Bring a work session that only the disk has onto the server, as it is; its breadcrumbs are its mailbox."""
        record, terms = work.record, self._server.terms
        status = record.status if record.status in list(WorkStatus) else WorkStatus.RUNNING
        call = ops.start_work(
            terms,
            self._server.stamp(),
            work.path,
            record.session_type[: ops.TYPE_MAX] or "unknown",
            record.related_entity,
            record.metadata,
            terms.ttl_ms,
            status=status,
            created_ms=from_iso(record.created),
        )
        with suppress(Refused, WorkSessionNotFound):  # an ended parent, or one only on disk, finds it on disk
            if work.depth:
                self.change(ops.add_child(terms, self._server.stamp(), work.path[-2], work.id))
        with suppress(Refused):  # another consumer was faster
            self.change(call)
        return self.live(work.id)

    def accepted(self, work: WorkView) -> Iterator[Accepted]:
        """Yield a live work session's breadcrumbs in the order they were accepted."""
        after: str | None = None
        while True:
            page = self._server.fetch(crumb_ops.read_page(self._server.terms, work, after))
            yield from page
            if len(page) < crumb_ops.PAGE:
                return
            after = page[-1].entry_id

    def sweep(self) -> list[str]:
        """Write every work session of this project that has changes not on disk; returns their ids.

        Once the disk has all of one, its keys live no longer than it does; one that is gone leaves the index.
        """
        terms, swept = self._server.terms, []
        # The server's clock: it counts the keys' life, and a terminal that is ahead must not end anything.
        now_ms = self._server.fetch(read_time())
        dirty = self._server.fetch(ops.dirty_work(terms))
        overdue = self._server.fetch(ops.overdue_work(terms, now_ms))
        for work_id in dict.fromkeys([*dirty, *overdue]):
            try:
                if self._swept(work_id, now_ms, is_dirty=work_id in dirty):
                    swept.append(work_id)
            except ServerUnavailable:
                raise
            except Exception as error:  # noqa: BLE001 - whatever is wrong with one must not keep the others from it
                _log.warning("work_session_not_written", work=work_id, reason=str(error))
        return swept

    def _swept(self, work_id: str, now_ms: int, *, is_dirty: bool) -> bool:
        terms = self._server.terms
        found = self.read_live([work_id])
        if not found:
            self._server.run(ops.forget_work(terms, work_id))
            return False
        if not is_dirty or not layout.read_at(self.root, found[0].path):
            return False  # nothing to write, or at home in another project
        work = self.checkpoint(work_id)
        self._index(self._server.run(ops.keep_work(terms, now_ms, work_id, work.last_id)))
        return True

    def checkpoint(self, work_id: str) -> WorkView:
        """Write a live work session's record and the breadcrumbs this folder does not have yet.

        Repeatable: killed anywhere, it is simply run again.
        """
        work = self.live(work_id)
        layout.write_record(self.root, work.path, work.record)
        with layout.open_folder(self.root, work.path) as folder:
            after = layout.written_to(folder)
            while page := self._server.fetch(crumb_ops.read_page(self._server.terms, work, after)):
                # Nothing is awaited while the lock is held: another task here would wait for it, and we for the task.
                layout.file_page(folder, page)
                after = page[-1].entry_id
            self._note_applied(work, folder)
        return work

    def _note_applied(self, work: WorkView, folder: Folder) -> None:
        """Keep on disk what was applied: once the server has let go, nothing else says so."""
        after = layout.applied_to(folder)
        while after is None or id_order(after) < id_order(work.cursor):
            page = self._server.fetch(crumb_ops.read_page(self._server.terms, work, after))
            applied = [one for one in page if one.applied]
            if not applied:
                return
            layout.note_applied(folder, applied)
            after = applied[-1].entry_id
