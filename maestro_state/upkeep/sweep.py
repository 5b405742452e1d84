"""One pass over what is due: sessions whose time is over, changes that are not on disk, what the index has lost.

Costs what there is to do, not how many sessions there are. What is done once for all sessions is done by whoever holds
the lease of the pass; the sessions themselves by shards, each with a lease of its own, and shared by all who sweep at
the same time. Everything done here is safe to be done twice at once all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from maestro_state._sync.quarantine import Quarantine
from maestro_state._sync.queue import Queue
from maestro_state._sync.server import Server
from maestro_state.errors import MaestroError, ServerUnavailable
from maestro_state.mirror.places import Places
from maestro_state.state.calls import checkpoints as archiving
from maestro_state.state.calls import index as index_ops
from maestro_state.state.calls import leases, quarantine
from maestro_state.upkeep.expiry import Expiry
from maestro_state.upkeep.held_lease import HeldLease, LeaseLostError, new_holder
from maestro_state.upkeep.legacy_index import EarlierIndex
from maestro_state.upkeep.lost_sessions import LostSessions
from maestro_state.upkeep.reports import Failure, SweepReport
from maestro_state.upkeep.shards import Shards, apart
from maestro_state.vocabulary import LIVE

__all__ = ["Failure", "Recoverer", "Sweep", "SweepReport"]

#: Ends the runs whose owner is gone and returns their ids as `session/run`.
Recoverer = Callable[[Server], Any]
#: Does what else there is to do once in a pass.
Follower = Callable[[SweepReport], Any]


class Sweep:
    """The sweep over everybody's sessions."""

    def __init__(
        self, server: Server, places: Places, *, horizon_ms: int, can_scan: bool, queue: Queue | None = None
    ) -> None:
        """Take how long before its end a session is frozen, whether the server's keys can be walked through, and the
        queue of those who may reach a folder that this one cannot.
        """
        self._server = server
        self._places = places
        self._expiry = Expiry(server, places)
        self._quarantine = Quarantine(server)
        self._shards = Shards(server, places, horizon_ms=horizon_ms, queue=queue)
        self._can_scan = can_scan

    def sweep(
        self,
        recoverers: Sequence[Recoverer] = (),
        followers: Sequence[Follower] = (),
        *,
        thorough: bool = False,
        pause_ms: int = 0,
    ) -> SweepReport:
        """Do one pass; the report says who is `busy` with what was left out, if somebody is.

        A `thorough` one reads every session of the server for changes that the index has lost, as before a stop. Shards
        that were done less than `pause_ms` ago are left alone.
        """
        report = SweepReport()
        damaged = {row.id for row in self._quarantine.rows()}
        held = HeldLease(self._server, leases.SWEEP, new_holder())
        if held.is_ours:
            self._sweep_once(report, held, damaged, recoverers, followers, thorough=thorough)
        else:
            report.busy = held.lease.holder
        self._shards.sweep(report, pause_ms)
        well = {*report.checkpointed, *report.finalized, *report.archived, *report.repaired}
        if held.is_ours and report.busy is None:
            well.add(quarantine.INDEX)
        self._quarantine.release(sorted(damaged & well))
        return report

    def sweep_shards(self, pause_ms: int) -> SweepReport:
        """Take a share of a pass that another one is in charge of."""
        report = SweepReport()
        self._shards.sweep(report, pause_ms)
        return report

    def _sweep_once(
        self,
        report: SweepReport,
        held: HeldLease,
        damaged: set[str],
        recoverers: Sequence[Recoverer],
        followers: Sequence[Follower],
        *,
        thorough: bool,
    ) -> None:
        """Do what is done once for all sessions."""
        notes: dict[str, str] = {}
        try:
            for recover in recoverers:
                report.recovered_runs += recover(self._server)
            notes |= EarlierIndex(self._server).keep_up(report, held.lease, held.beat)
            indexes = self._server.terms.keys.indexes
            dropped = any(self._server.run_all([quarantine.mend_index(keys) for keys in indexes]))
            if self._can_scan:
                lost, is_new = LostSessions(self._server), dropped or quarantine.INDEX in damaged
                cursor = held.lease.notes.get(leases.CURSOR, "0")
                notes[leases.CURSOR] = lost.find(report, cursor, held.beat, thorough=thorough or is_new, is_new=is_new)
            self._finish_forgotten(report, held)
            self._sweep_leftovers(report)
            for follow in followers:
                follow(report)
        except LeaseLostError:
            report.busy = "somebody who took over"
            return
        except BaseException:
            with suppress(ServerUnavailable):  # what went wrong is said; a lease that was not released runs out
                held.release(notes)
            raise
        held.release(notes)

    def _sweep_leftovers(self, report: SweepReport) -> None:
        home = self._places.own
        try:
            report.repaired += home.sweep_leftovers()
        except MaestroError as error:  # a disk that is away must not keep the lease from being released
            report.errors.append(Failure(home.path, str(error)))

    def _finish_forgotten(self, report: SweepReport, held: HeldLease) -> None:
        """Freeze what only this checkout remembers: its time was over while there was no server, or another one."""
        try:
            rows = [row.id for row in self._places.project.index() if row.state in LIVE]
        except MaestroError:
            return  # an index that cannot be read is told of by doctor
        if not rows:
            return
        known = self._server.fetch_all(index_ops.read_rows(self._server.terms, rows))
        unknown = [one for part in known for one, row in part.items() if row is None]
        now_ms: int = self._server.fetch(archiving.read_time())
        for session_id in unknown:
            held.beat()
            with apart(self._quarantine, report, session_id):
                if self._expiry.freeze_archived(session_id, now_ms):
                    report.finalized.append(session_id)
