"""One pass over what is due: sessions whose time is over, changes that are not on disk, what the index has lost.

Costs what there is to do, not how many sessions there are. One at a time across a team: whoever holds the lease, which
a holder that died loses by itself. Everything done here is safe to be done twice at once all the same.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import msgspec

from maestro_state._sync.quarantine import Quarantine
from maestro_state._sync.queue import Queue
from maestro_state._sync.server import Server
from maestro_state.errors import (
    ArchiveElsewhere,
    DamagedRecord,
    MaestroError,
    NewerFormat,
    NotReplicated,
    ServerUnavailable,
    SessionNotFound,
)
from maestro_state.mirror.places import Places
from maestro_state.models.lease import Lease
from maestro_state.models.message import id_order
from maestro_state.models.names import is_session_id
from maestro_state.net import is_forbidden
from maestro_state.state.calls import checkpoints as archiving
from maestro_state.state.calls import index as index_ops
from maestro_state.state.calls import leases, quarantine
from maestro_state.state.scripts import Query
from maestro_state.upkeep.checkpoint import Checkpoints
from maestro_state.upkeep.expiry import Expiry
from maestro_state.vocabulary import FROZEN, LIVE

#: Sessions read in one pass, at most of each kind; the next pass goes on.
BATCH = 5000
#: Keys of the server read in one pass for sessions the index has lost.
SCAN_COUNT = 500

#: Ends the runs whose owner is gone and returns their ids as `session/run`.
Recoverer = Callable[[Server], Any]


class Failure(msgspec.Struct, frozen=True):
    """A session, or the queue, that could not be swept."""

    id: str
    reason: str


class SweepReport(msgspec.Struct, kw_only=True):
    """What a sweep did."""

    checkpointed: list[str] = []
    finalized: list[str] = []
    archived: list[str] = []
    recovered_runs: list[str] = []
    errors: list[Failure] = []
    waiting: list[str] = []  #: ended sessions left to a worker that can reach their folder
    repaired: list[str] = []  #: sessions indexed again, or leftovers taken away
    busy: str | None = None  #: who is sweeping, when it is somebody else


class _LeaseLostError(Exception):
    """Somebody else took over, because we were silent for too long."""


class Sweep:
    """The sweep over everybody's sessions."""

    def __init__(
        self,
        server: Server,
        places: Places,
        *,
        horizon_ms: int,
        can_scan: bool,
        queue: Queue | None = None,
    ) -> None:
        """Take how long before its end a session is frozen, whether the server's keys can be walked through, and the
        queue of those who may reach a folder that this one cannot.
        """
        self._server = server
        self._queue = queue
        self._places = places
        self._checkpoints = Checkpoints(server, places)
        self._expiry = Expiry(server, places)
        self._quarantine = Quarantine(server)
        self._horizon_ms = horizon_ms
        self._can_scan = can_scan
        self._holder = f"{os.uname().nodename}:{os.getpid()}:{secrets.token_hex(4)}"
        self._renewed_ms = 0

    def sweep(self, recoverers: Sequence[Recoverer] = (), *, thorough: bool = False) -> SweepReport:
        """Do one pass; a report with `busy` when somebody else is at it.

        A `thorough` one reads every session of the server for changes that the index has lost, as before a stop.
        """
        report = SweepReport()
        now_ms = self._server.fetch(archiving.read_time())
        lease = self._server.run(leases.take_lease(self._server.terms, leases.SWEEP, self._holder, now_ms))
        if lease.fence is None:
            report.busy = lease.holder
            return report
        self._renewed_ms = now_ms
        cursor = lease.cursor
        try:
            for recover in recoverers:
                report.recovered_runs += recover(self._server)
            damaged = {row.id for row in self._quarantine.rows()}
            dropped = self._server.run(quarantine.mend_index(self._server.terms.keys.index))
            if self._can_scan:
                is_new = bool(dropped) or quarantine.INDEX in damaged
                cursor = self._repair_index(report, cursor, lease, thorough=thorough or is_new, is_new=is_new)
            self._finish_due(report, lease)
            self._write_dirty(report, lease)
            self._finish_forgotten(report, lease)
            self._sweep_leftovers(report)
            well = {quarantine.INDEX, *report.checkpointed, *report.finalized, *report.archived, *report.repaired}
            self._quarantine.release(sorted(damaged & well))
        except _LeaseLostError:
            report.busy = "somebody who took over"
            return report
        except BaseException:
            with suppress(ServerUnavailable):  # what went wrong is said; a lease that was not released runs out
                self._release(lease, cursor)
            raise
        self._release(lease, cursor)
        return report

    def _release(self, lease: Lease, cursor: str) -> None:
        self._server.run(leases.release_lease(self._server.terms, leases.SWEEP, lease, cursor))

    def _sweep_leftovers(self, report: SweepReport) -> None:
        home = self._places.own
        try:
            report.repaired += home.sweep_leftovers()
        except MaestroError as error:  # a disk that is away must not keep the lease from being released
            report.errors.append(Failure(home.path, str(error)))

    def _beat(self, lease: Lease) -> int:
        """Return the server's time, and keep the lease."""
        now_ms: int = self._server.fetch(archiving.read_time())
        if now_ms - self._renewed_ms > leases.LEASE_MS[leases.SWEEP] // 5:
            call = leases.take_lease(self._server.terms, leases.SWEEP, self._holder, now_ms, lease.fence or "0")
            if self._server.run(call).fence is None:
                raise _LeaseLostError
            self._renewed_ms = now_ms
        return now_ms

    def _finish_due(self, report: SweepReport, lease: Lease) -> None:
        terms = self._server.terms
        until_ms = self._beat(lease) + self._horizon_ms
        due = self._members(archiving.due_sessions(terms, until_ms, BATCH))
        for session_id in due:
            now_ms = self._beat(lease)
            with self._apart(report, session_id):
                self._finish(report, session_id, now_ms)

    def _finish(self, report: SweepReport, session_id: str, now_ms: int) -> None:
        try:
            word = self._expiry.freeze_live(session_id, now_ms, self._horizon_ms)
        except NotReplicated as error:  # frozen all the same; the next pass writes it
            report.errors.append(Failure(session_id, str(error)))
            return
        if word == "NOT_FOUND":
            self._freeze_archived(report, session_id, now_ms)
            self._server.run(index_ops.forget_session(self._server.terms, session_id))
        elif word == "OK" and self._written(report, session_id):
            report.finalized.append(session_id)

    def _members(self, query: Query) -> list[str]:
        """Read a list of sessions; what is no session's id is taken off it."""
        found: archiving.Members = self._server.fetch(query)
        for member in found.junk:
            self._server.run(index_ops.forget_session(self._server.terms, member))
        return found.ids

    @contextmanager
    def _apart(self, report: SweepReport, session_id: str) -> Iterator[None]:
        """Do something to one session: whatever is wrong with it is named and set aside, and the others go on."""
        try:
            yield
        except (ServerUnavailable, _LeaseLostError):
            raise
        except Exception as error:  # noqa: BLE001 - anybody may have written anything
            report.errors.append(Failure(session_id, self._quarantine.note(session_id, error)))

    def _freeze_archived(self, report: SweepReport, session_id: str, now_ms: int) -> None:
        """Freeze a session that the server let go of before anybody came to freeze it there."""
        with self._apart(report, session_id):
            if self._expiry.freeze_archived(session_id, now_ms):
                report.finalized.append(session_id)

    def _finish_forgotten(self, report: SweepReport, lease: Lease) -> None:
        """Freeze what only this checkout remembers: its time was over while there was no server, or another one."""
        try:
            rows = [row.id for row in self._places.project.index() if row.state in LIVE]
        except MaestroError:
            return  # an index that cannot be read is told of by doctor
        if not rows:
            return
        known = self._server.fetch(index_ops.known_sessions(self._server.terms, rows))
        for session_id in (one for one in rows if one not in known):
            self._freeze_archived(report, session_id, self._beat(lease))

    def _write_dirty(self, report: SweepReport, lease: Lease) -> None:
        terms = self._server.terms
        seen = {*report.finalized, *(failure.id for failure in report.errors)}
        for session_id in self._members(archiving.dirty_sessions(terms, BATCH)):
            if session_id not in seen:
                self._beat(lease)
                with self._apart(report, session_id):
                    state = self._written(report, session_id)
                    if state:
                        (report.archived if state in FROZEN else report.checkpointed).append(session_id)

    def _written(self, report: SweepReport, session_id: str) -> str | None:
        """Write one session to disk; return its state, or None with the reason in the report."""
        try:
            return self._checkpoints.checkpoint(session_id).state
        except SessionNotFound:
            self._server.run(index_ops.forget_session(self._server.terms, session_id))
        except NotReplicated as error:  # it is on disk; the others must be too, now more than ever
            report.errors.append(Failure(session_id, str(error)))
        except ServerUnavailable:
            raise
        except ArchiveElsewhere as error:
            if not self._left_to_others(report, session_id, error):
                raise
        return None

    def _left_to_others(self, report: SweepReport, session_id: str, error: ArchiveElsewhere) -> bool:
        """Leave an ended session to the workers; one that still changes is checkpointed where its project is."""
        terms = self._server.terms
        state = self._server.connection.call("HGET", terms.keys.of_session(session_id, "session"), "state")
        if self._queue is None or state is None or state.decode() not in FROZEN:
            return False
        try:
            self._queue.enqueue_finalization(session_id)
        except MaestroError:
            return False
        self._server.run(archiving.defer_archive(terms, session_id, str(error)))
        report.waiting.append(session_id)
        return True

    def _repair_index(self, report: SweepReport, cursor: str, lease: Lease, *, thorough: bool, is_new: bool) -> str:
        """Read a few more sessions of the server, or all of them, into a new index; return where to go on."""
        cursor = self._repair(report, "0" if thorough else cursor, is_new=is_new)
        while thorough and cursor != "0":
            self._beat(lease)
            cursor = self._repair(report, cursor, is_new=is_new)
        return cursor

    def _repair(self, report: SweepReport, cursor: str, *, is_new: bool) -> str:
        """Restore sessions that the index has lost, or whose changes it does not know; return where to go on.

        Whoever made a change indexes it, and may have been killed before that.
        """
        terms, call = self._server.terms, self._server.connection.call
        pattern = terms.keys.of_session("*", "session")
        try:
            cursor_reply, keys = call("SCAN", cursor, "MATCH", pattern, "COUNT", SCAN_COUNT)
        except ServerUnavailable as error:
            if is_forbidden(error):
                return "0"  # a terminal's account: the next sweep of a worker's reads them
            raise
        found = [key.decode().rpartition("{")[2].rstrip("}") for key in keys if key.endswith(b"}")]
        ids = [session_id for session_id in found if is_session_id(session_id)]
        for session_id in ids if is_new or not ids else self._unknown(ids):
            with self._apart(report, session_id):
                summary = self._server.fetch(index_ops.read_summary(terms, session_id))
                if summary:
                    entry = index_ops.entry_of(session_id, summary)
                    self._server.run(index_ops.forget_session(terms, session_id))
                    self._server.run(index_ops.index_session(terms, entry))
                    report.repaired.append(session_id)
        return str(cursor_reply.decode() if isinstance(cursor_reply, bytes) else cursor_reply)

    def _unknown(self, ids: list[str]) -> list[str]:
        """Return those of some sessions that the index does not have, or has otherwise than they are."""
        terms, unknown = self._server.terms, []
        rows, waiting = self._server.connection.calls(
            [("HMGET", terms.keys.of_index("summaries"), *ids), ("ZMSCORE", terms.keys.of_index("dirty"), *ids)]
        )
        for session_id, row, since in zip(ids, rows, waiting, strict=True):
            try:
                progress = self._server.fetch(archiving.read_progress(terms, session_id))
            except (DamagedRecord, NewerFormat):
                continue  # found out, and named, by whoever writes it
            if not _is_known(row, progress) or (since is None and not progress.is_done):
                unknown.append(session_id)
        return unknown


def _is_known(row: bytes | None, progress: archiving.Progress) -> bool:
    """Tell whether a row of the index is one of this session as it is: it may be late, but not ahead."""
    entries = index_ops.entries_of([row])
    try:
        return bool(entries) and id_order(entries[0].last_id) <= id_order(progress.last_id or "")
    except ValueError:
        return False
