"""The sessions of the index, shard by shard: those whose time is over are frozen, what changed is written to disk.

Whoever sweeps takes one shard after another that has something to do and that nobody else has, so any number of
sweepers share the work, and a shard whose sweeper was killed goes to another when its lease ends. Within a shard
several sessions are written at a time: nearly all of the time goes into waiting for the disk, which syncs many as fast
as one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from zlib import crc32

from maestro_state._sync.quarantine import Quarantine
from maestro_state._sync.queue import Queue
from maestro_state._sync.server import Server
from maestro_state.errors import (
    ArchiveElsewhere,
    DamagedRecord,
    MaestroError,
    NotReplicated,
    ServerUnavailable,
    SessionNotFound,
)
from maestro_state.local.project import IndexRow
from maestro_state.mirror.places import Places
from maestro_state.models.lease import Lease
from maestro_state.state.calls import checkpoints as archiving
from maestro_state.state.calls import index as index_ops
from maestro_state.state.calls import leases
from maestro_state.state.scripts import Query
from maestro_state.upkeep.checkpoint import Checkpoints
from maestro_state.upkeep.expiry import Expiry
from maestro_state.upkeep.held_lease import HeldLease, LeaseLostError, new_holder
from maestro_state.upkeep.reports import Failure, SweepReport
from maestro_state.vocabulary import FROZEN

#: Sessions of a shard read in one pass, at most of each kind; the next pass goes on.
BATCH = 5000
#: Sessions written at a time: twice as many are written hardly faster, and each takes a socket.
THREADS = 8
#: Rows of the checkout's index written at once.
_ROWS = 500


class Shards:
    """The shards of the index, as one sweeper goes over them."""

    def __init__(self, server: Server, places: Places, *, horizon_ms: int, queue: Queue | None) -> None:
        """Take how long before its end a session is frozen, and the queue of those who may reach a folder that this
        one cannot.
        """
        self._server = server
        self._queue = queue
        self._places = places
        self._rows: list[IndexRow] = []
        self._checkpoints = Checkpoints(server, places, self._rows.append)
        self._expiry = Expiry(server, places)
        self._quarantine = Quarantine(server)
        self._horizon_ms = horizon_ms
        self._holder = new_holder()
        #: What a pass notes that has left sessions to those who can reach their folders: only that it was here.
        here = f"{os.uname().nodename}:{places.own.path}"
        self._swept_here = f"{leases.SWEPT}:{crc32(here.encode()):08x}"
        self._is_elsewhere = False

    def sweep(self, report: SweepReport, pause_ms: int = 0) -> None:
        """Do every shard that has something to do and that nobody else is at, and not those that were done less than
        `pause_ms` ago; those of others once more at the end, when these may be done with them.
        """
        busy = self._each(report, self._with_work(pause_ms), pause_ms)
        for _, holder in self._each(report, [number for number, _ in busy], pause_ms):
            report.busy = holder or "somebody who took over"

    def _each(self, report: SweepReport, numbers: list[int], pause_ms: int) -> list[tuple[int, str]]:
        """Do some shards; return those that others have, and who."""
        busy = []
        for number in numbers:
            held = HeldLease(self._server, leases.of_shard(number), self._holder)
            if not held.is_ours:
                busy.append((number, held.lease.holder))
                continue
            done = {}
            try:
                if self._is_due(held.lease, held.taken_ms, pause_ms):
                    self._is_elsewhere = False
                    self._sweep(report, number, held)
                    done = {self._swept_here if self._is_elsewhere else leases.SWEPT: str(held.taken_ms)}
            except LeaseLostError:
                busy.append((number, ""))
                continue
            finally:
                self._write_rows(report)
                with suppress(ServerUnavailable):  # what went wrong is said; a lease that was not released runs out
                    held.release(done)
        return busy

    def _is_due(self, lease: Lease, now_ms: int, pause_ms: int) -> bool:
        """Tell whether a shard was done long enough ago: by anybody, or as far as it can be done from here."""
        done = (lease.swept_at, int(lease.notes.get(self._swept_here, 0)))
        return all(leases.is_due(done_ms, now_ms, pause_ms) for done_ms in done)

    def _with_work(self, pause_ms: int) -> list[int]:
        """Return the shards that have something to do, in one round trip; each sweeper begins with another one."""
        terms = self._server.terms
        now_ms: int = self._server.fetch(archiving.read_time())
        count = len(terms.keys.shards)
        dirty, due = archiving.count_dirty(terms)[:count], archiving.any_due(terms, now_ms + self._horizon_ms)[:count]
        done = [leases.read_lease(terms, leases.of_shard(number)) for number in range(count)]
        try:
            found = self._server.fetch_all([*dirty, *due, *done])
        except DamagedRecord:  # whoever takes a lease that is none makes it one
            found = [*self._server.fetch_all([*dirty, *due]), *(Lease(None) for _ in done)]
        asked = zip(range(count), found[:count], found[count : 2 * count], found[2 * count :], strict=True)
        wanted = [one for one, some, over, lease in asked if (some or over) and self._is_due(lease, now_ms, pause_ms)]
        first = crc32(self._holder.encode()) % count
        return sorted(wanted, key=lambda number: (number - first) % count)

    def _sweep(self, report: SweepReport, number: int, held: HeldLease) -> None:
        index = self._server.terms.keys.shards[number]
        until_ms = held.taken_ms + self._horizon_ms
        due = self._members(index, archiving.due_sessions(index, until_ms, BATCH))
        self._do(report, held, due, self._finish)
        seen = {*report.finalized, *(failure.id for failure in report.errors)}
        dirty = self._members(index, archiving.dirty_sessions(index, BATCH))
        self._do(report, held, [one for one in dirty if one not in seen], self._write)

    def _members(self, index: tuple[str, ...], query: Query) -> list[str]:
        """Read a list of sessions; what is no session's id is taken off it."""
        found: archiving.Members = self._server.fetch(query)
        for member in found.junk:
            self._server.run(index_ops.forget_in(index, member))
        return found.ids

    def _do(self, report: SweepReport, held: HeldLease, ids: list[str], do: Callable[[SweepReport, str], None]) -> None:
        """Do something to each of some sessions, several at a time, and keep the lease meanwhile."""

        def one(session_id: str) -> SweepReport:
            part = SweepReport()
            with apart(self._quarantine, part, session_id):
                do(part, session_id)
            return part

        if len(ids) < 2:
            for session_id in ids:
                report.add(one(session_id))
            return
        pool = ThreadPoolExecutor(min(THREADS, len(ids)), thread_name_prefix="sweep")
        try:
            for future in [pool.submit(one, session_id) for session_id in ids]:
                held.beat()
                report.add(future.result())
                if len(self._rows) >= _ROWS:
                    self._write_rows(report)
        finally:
            pool.shutdown(cancel_futures=True)

    def _write_rows(self, report: SweepReport) -> None:
        """Write what changed into the checkout's index: once for many, since each time it is written whole."""
        rows = self._rows[:]
        del self._rows[: len(rows)]  # only these: threads add to it meanwhile
        if not rows:
            return
        try:
            self._places.project.index_refresh(*rows)
        except (MaestroError, OSError) as error:  # lists go by the archives
            report.errors.append(Failure("index.json", str(error)))

    def _finish(self, report: SweepReport, session_id: str) -> None:
        now_ms: int = self._server.fetch(archiving.read_time())
        try:
            word = self._expiry.freeze_live(session_id, now_ms, self._horizon_ms)
        except NotReplicated as error:  # frozen all the same; the next pass writes it
            report.errors.append(Failure(session_id, str(error)))
            return
        if word == "NOT_FOUND":
            with apart(self._quarantine, report, session_id):
                if self._expiry.freeze_archived(session_id, now_ms):
                    report.finalized.append(session_id)
            self._server.unindex(session_id)
        elif word == "OK" and self._written(report, session_id):
            report.finalized.append(session_id)

    def _write(self, report: SweepReport, session_id: str) -> None:
        state = self._written(report, session_id)
        if state:
            (report.archived if state in FROZEN else report.checkpointed).append(session_id)

    def _written(self, report: SweepReport, session_id: str) -> str | None:
        """Write one session to disk; return its state, or None with the reason in the report."""
        try:
            return self._checkpoints.checkpoint(session_id).state
        except SessionNotFound:
            self._server.unindex(session_id)
        except NotReplicated as error:  # it is on disk; the others must be too, now more than ever
            report.errors.append(Failure(session_id, str(error)))
        except ServerUnavailable:
            raise
        except ArchiveElsewhere as error:
            self._is_elsewhere = True
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


@contextmanager
def apart(quarantine: Quarantine, report: SweepReport, session_id: str) -> Iterator[None]:
    """Do something to one session: whatever is wrong with it is named and set aside, and the others go on."""
    try:
        yield
    except (ServerUnavailable, LeaseLostError):
        raise
    except Exception as error:  # noqa: BLE001 - anybody may have written anything
        report.errors.append(Failure(session_id, quarantine.note(session_id, error)))
