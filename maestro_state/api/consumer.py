"""The consumer of breadcrumbs: takes them from the mailboxes, applies them in order, shows what was applied.

Any number may run at once and be killed at any time. It keeps nothing that matters: what was accepted, applied and
counted is one script's doing each, on the server.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from maestro_state._sync.server import Server
from maestro_state.errors import InvalidValue, Refused
from maestro_state.mirror.mailbox import Delivery, Mailbox, Outcome, Rejected
from maestro_state.models.work import WorkView
from maestro_state.state.calls import breadcrumbs as ops
from maestro_state.upkeep.work_store import WorkStore
from maestro_state.vocabulary import WORK_OPEN
from maestro_state.work import timeline
from maestro_state.work.timeline import Happening

#: How often mailboxes and children are polled while nothing happens, in milliseconds.
_POLL_MS = 500
#: How often, while a file may still be on its way in.
_SOON_MS = 100
#: Mailbox files whose ids are looked up at a time.
_CHUNK = 500

Members = list[WorkView]
Happenings = list[Happening]


class Consumer:
    """Consumes a work session and all under it."""

    def __init__(self, server: Server, store: WorkStore) -> None:
        self._server = server
        self._store = store

    def once(self, work_id: str) -> Outcome:
        """Consume what is there; wait only for files that are on their way in."""
        consumption = _Consumption(self._server, self._store, work_id)
        while consumption.round() or consumption.is_waiting:
            if consumption.is_waiting:
                self._server.connection.block(*_pause(consumption), block_ms=_SOON_MS)
        return consumption.outcome

    def follow(self, work_id: str, *, until_idle_ms: int | None = None) -> Iterator[Happening]:
        """Consume as it comes and yield what is logged, until the work session has ended and all is applied."""
        consumption = _Consumption(self._server, self._store, work_id)
        consumption.start_log()
        quiet_ms = 0
        while True:
            moved = consumption.round()
            happenings = consumption.logged()
            yield from happenings
            if moved or happenings:
                quiet_ms = 0
                continue
            is_over = consumption.top.record.status not in WORK_OPEN and not consumption.is_waiting
            if is_over or (until_idle_ms is not None and quiet_ms >= until_idle_ms):
                return
            wait_ms = _POLL_MS if until_idle_ms is None else max(1, min(_POLL_MS, until_idle_ms - quiet_ms))
            self._server.connection.block(*_pause(consumption, wait_ms), block_ms=wait_ms)
            quiet_ms += wait_ms


def _pause(consumption: _Consumption, wait_ms: int = _SOON_MS) -> tuple[object, ...]:
    """Return the command that waits until something comes, or for so long."""
    top = consumption.top
    return ops.wait_for_more(consumption.terms, top.id, top.cursor, consumption.logs.get(top.id) or "$", wait_ms)


class _Consumption:
    """What one consumer remembers while it runs; losing it costs nothing but reading again."""

    def __init__(self, server: Server, store: WorkStore, work_id: str) -> None:
        self._server, self._store, self._work_id = server, store, work_id
        self.terms = server.terms
        self._boxes: dict[str, Mailbox] = {}
        self._applied = self._duplicates = 0
        self.logs: dict[str, str | None] = {}
        self.members: Members = []

    @property
    def top(self) -> WorkView:
        """The work session this is about, as last read."""
        return self.members[0]

    @property
    def is_waiting(self) -> bool:
        """Tell whether a mailbox has files that may still be on their way in."""
        return any(box.is_waiting for box in self._boxes.values())

    @property
    def outcome(self) -> Outcome:
        """Return what this came to."""
        rejected: list[Rejected] = [one for box in self._boxes.values() for one in box.rejected]
        return Outcome(self._applied, self._duplicates, rejected)

    def start_log(self) -> None:
        """Begin to follow the logs where they are now."""
        self._read_members()
        for work in self.members:
            self.logs[work.id] = self._server.fetch(ops.last_logged(self.terms, work.id))

    def round(self) -> bool:
        """Poll everything once; tell whether anything moved."""
        self._read_members()
        moved = 0
        for work in self.members:
            moved += self._take(work)
        for work in self.members:
            moved += self._apply(work)
        return moved > 0

    def _read_members(self) -> None:
        self.members = self._store.of(self._store.live(self._work_id))

    def _take(self, work: WorkView) -> int:
        """Take what is new in a work session's mailbox."""
        if work.id not in self._boxes:
            self._boxes[work.id] = Mailbox(self._store.root, work.path, limit=self._store.file_limit)
        box, chunk, taken = self._boxes[work.id], list[Delivery](), 0
        for delivery in box.deliveries(time.time_ns()):
            chunk.append(delivery)
            if len(chunk) == _CHUNK:
                taken += self._accept(work, box, chunk)
                chunk = []
        return taken + (self._accept(work, box, chunk) if chunk else 0)

    def _accept(self, work: WorkView, box: Mailbox, deliveries: list[Delivery]) -> int:
        if not work.is_live:
            work = self._store.adopt(work)
        ids = [delivery.breadcrumb.breadcrumb_id for delivery in deliveries]
        known = self._server.fetch(ops.known_breadcrumbs(self.terms, work.id, ids))
        taken = 0
        for delivery, source in zip(deliveries, known, strict=True):
            # A file taken before, and one Maestro wrote itself, are no second breadcrumb.
            is_same = source == delivery.source or (source == "" and delivery.is_own)
            if source is not None:
                self._duplicates += not is_same
                box.took(delivery)
                continue
            try:
                _, is_new = self._store.accept(work.id, delivery.breadcrumb, source=delivery.source)
            except (InvalidValue, Refused) as error:
                box.refuse(delivery, str(error))
                continue
            box.took(delivery)
            self._duplicates += not is_new
            taken += is_new
        return taken

    def _apply(self, work: WorkView) -> int:
        """Apply everything that was accepted, then bring the folder up to date."""
        if not work.is_live:
            return 0
        applied = 0
        while count := self._store.apply(work.id):
            applied += count
        self._applied += applied
        if applied:
            self._store.checkpoint(work.id)
        return applied

    def logged(self) -> Happenings:
        """Return what was logged since the last time, in every work session of the tree."""
        happenings: Happenings = []
        for work in self.members:
            if not work.is_live:
                continue
            entries = self._server.fetch(ops.read_log(self.terms, work.id, self.logs.get(work.id)))
            if not entries:
                continue
            self.logs[work.id] = entries[-1].id
            depth = work.depth - self.top.depth
            applied = [entry.data["entry"] for entry in entries if entry.type == "breadcrumb.applied"]
            found = self._server.fetch_all([ops.read_one(self.terms, work, entry_id) for entry_id in applied])
            crumbs = {entry_id: one.breadcrumb for entry_id, one in zip(applied, found, strict=True) if one}
            for entry in entries:
                crumb = crumbs.get(entry.data.get("entry", ""))
                happening = timeline.left(work.id, crumb, depth) if crumb else timeline.marked(work.id, entry, depth)
                if happening:
                    happenings.append(happening)
        return happenings
