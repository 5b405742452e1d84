"""The scheduler: sweeps often, and cleans up daily where somebody wants that. Any number may run; one is active, and
the others take shares of its sweeps: each shard of the sessions that has waited for as long as between two sweeps.

The active one has a lease, which a heartbeat keeps while work is under way; when it is gone, another takes
over as soon as the lease ends. What is due is decided by what the server remembers, so that after a downtime, of
whatever length, each thing is done once and at once. What is done is safe to be done twice: a lease that was lost
unnoticed costs time, nothing else.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from maestro_state.errors import MaestroError, ServerUnavailable
from maestro_state.local.logs import get_logger
from maestro_state.models.lease import Lease
from maestro_state.upkeep.scheduler_lease import BEAT_S, is_due
from maestro_workers.heartbeat import Heartbeat

if TYPE_CHECKING:
    from maestro_state import Maestro
    from maestro_state.upkeep.reports import SweepReport

#: Milliseconds between two cleanups of the disk.
CLEANUP_MS = 24 * 3600 * 1000

_log = get_logger("maestro.scheduler")


@dataclass(frozen=True, slots=True)
class Work:
    """What there is to do: each returns whether it was done, so that it is not due again at once."""

    sweep: Callable[[Maestro], bool]
    cleanup: Callable[[Maestro], bool]
    share: Callable[[Maestro], bool]  #: what one does that is not in charge


class _Kept:
    """A lease that a heartbeat keeps, over a connection of its own: a long call of the work must not hold it up."""

    def __init__(self, open_maestro: Callable[[], Maestro], lease: Lease) -> None:
        self.lease = lease
        self.is_lost = threading.Event()
        self._maestro = open_maestro()
        self._heartbeat = Heartbeat(self._renew, BEAT_S, end_s=3 * BEAT_S)

    def _renew(self) -> None:
        # While the server is away nobody else can take the lease either.
        with suppress(ServerUnavailable):
            if not self.is_lost.is_set() and self._maestro.schedule.take(self.lease).fence is None:
                self.is_lost.set()

    def close(self) -> None:
        self._heartbeat.end()
        self._maestro.close()


@contextmanager
def _keeping(open_maestro: Callable[[], Maestro], maestro: Maestro, lease: Lease) -> Iterator[_Kept]:
    """Keep a lease while something is done, and release it then."""
    kept = _Kept(open_maestro, lease)
    try:
        yield kept
    finally:
        kept.close()
        if not kept.is_lost.is_set():
            with suppress(ServerUnavailable):
                maestro.schedule.release(lease)


class Scheduler:
    """One scheduler of a team."""

    def __init__(self, open_maestro: Callable[[], Maestro], work: Work, stopping: threading.Event) -> None:
        self._open = open_maestro
        self._work = work
        self._stopping = stopping

    def run(self) -> None:
        """Be active whenever the lease is free, until told to stop. A server that is away is waited for."""
        with self._open() as maestro:
            while not self._stopping.is_set():
                try:
                    lease = maestro.schedule.take()
                    if lease.fence is not None:
                        self._be_active(maestro, lease)
                        continue
                    _log.debug("scheduler_waits", active=lease.holder)
                    self._did("share", self._work.share, maestro)
                    wait_s = min(BEAT_S, lease.left_ms / 1000 + 0.1)
                except ServerUnavailable as error:
                    _log.warning("server_unavailable", reason=str(error))
                    wait_s = BEAT_S
                except MaestroError as error:  # what the server has is damaged: others may mend it
                    _log.error("schedule_failed", reason=str(error))
                    wait_s = BEAT_S
                self._stopping.wait(wait_s)

    def _be_active(self, maestro: Maestro, lease: Lease) -> None:
        """Do what is due for as long as the lease lasts."""
        _log.info("scheduler_active", fence=lease.fence)
        _tell_of_rights(maestro)
        with _keeping(self._open, maestro, lease) as kept:
            try:
                while not self._stopping.is_set() and not kept.is_lost.is_set():
                    wait_ms = self._do_what_is_due(maestro, kept)
                    if not kept.is_lost.is_set():
                        self._stopping.wait(min(BEAT_S, wait_ms / 1000))
            finally:
                _log.info("scheduler_inactive", fence=lease.fence, lost=kept.is_lost.is_set())

    def _do_what_is_due(self, maestro: Maestro, kept: _Kept) -> int:
        """Return how long nothing is due, in milliseconds."""
        every_ms = between_sweeps_ms(maestro)
        current = maestro.schedule.take(kept.lease)
        if current.fence is None:
            kept.is_lost.set()
            return 0
        now_ms = maestro.schedule.now_ms()
        if is_due(current.swept_at, now_ms, every_ms) and self._did("sweep", self._work.sweep, maestro):
            maestro.schedule.note_swept(kept.lease)
        if kept.is_lost.is_set() or self._stopping.is_set():
            return 0
        if is_due(current.cleaned_at, now_ms, CLEANUP_MS) and self._did("cleanup", self._work.cleanup, maestro):
            maestro.schedule.note_cleaned(kept.lease)
        return every_ms

    def _did(self, name: str, work: Callable[[Maestro], bool], maestro: Maestro) -> bool:
        """Do one thing; what goes wrong is logged, and tried again when it is due again."""
        try:
            return work(maestro)
        except ServerUnavailable:
            raise
        except (MaestroError, OSError) as error:
            _log.error(f"{name}_failed", reason=str(error))
            return True


def between_sweeps_ms(maestro: Maestro) -> int:
    """Return how long there is between two sweeps: what changes waits for twice that at most."""
    return max(1, maestro.settings.checkpoint_seconds * 1000 // 2)


def the_work(*, cleans: bool) -> Work:
    """Return what a scheduler does; what it does not clean is never noted as cleaned."""
    from maestro_workers.sweep import sweep

    def one_pass(maestro: Maestro) -> bool:
        # Shards that another one has just done are left alone; not for as long as this one's own pause, or one that
        # was done a moment after the last sweep would wait for the next but one.
        return told(sweep(maestro, pause_ms=between_sweeps_ms(maestro) // 2))

    def share(maestro: Maestro) -> bool:
        return told(maestro.sweep_share(between_sweeps_ms(maestro)))

    def told(report: SweepReport) -> bool:
        done = {name: len(getattr(report, name)) for name in ("checkpointed", "finalized", "archived", "errors")}
        if any(done.values()):
            _log.info("swept", **done)
        for failure in report.errors:
            _log.error("not_written", session=failure.id, reason=failure.reason)
        return True

    def cleanup(maestro: Maestro) -> bool:
        if not cleans and maestro.settings.cleanup != "on":
            return False
        report = maestro.archive.cleanup()
        _log.info("cleaned_up", removed=len(report.removed), kept=report.kept)
        return True

    return Work(one_pass, cleanup, share)


def _tell_of_rights(maestro: Maestro) -> None:
    """Say what an account leaves undone that may not do all of a sweep: a terminal's does the rest of it."""
    from maestro_state.upkeep.account_rights import may_count

    if not may_count(maestro.ledger):
        text = "runs whose worker was lost are not counted, sessions that the index lost are not found"
        _log.warning("account_without_rights", reason=text, remedy="use a worker's account (maestro acl --worker)")


def run_scheduler(project: str, ready: Callable[[], None]) -> int:
    """Be a scheduler until told to stop by SIGTERM or SIGINT, of which `ready` may tell. Returns the exit status."""
    from maestro_state import Maestro
    from maestro_state.local.logs import configure_logs
    from maestro_state.local.process import keep_private

    keep_private()
    stopping = _stopped_by_signals()

    def open_maestro() -> Maestro:
        return Maestro(project)

    with open_maestro() as maestro:
        configure_logs(maestro.settings.log_level)
    ready()
    Scheduler(open_maestro, the_work(cleans=True), stopping).run()
    return 0


def _stopped_by_signals() -> threading.Event:
    """Return what is set when this process is asked to stop; a second signal says nothing new.

    Not by the handlers: they run in the thread that waits for it, between two steps of the wait, which may hold the
    lock that setting it takes. A thread of its own hears of the signals, by what Python writes when it takes one.
    """
    stopping = threading.Event()
    told, tell = os.pipe()
    os.set_blocking(tell, False)
    signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: None)

    def hear() -> None:
        os.read(told, 1)
        stopping.set()

    threading.Thread(target=hear, daemon=True).start()
    return stopping


def make_a_pass(open_maestro: Callable[[], Maestro]) -> None:
    """Do once what a scheduler does, unless one is active already; what is due daily only if it is.

    Nobody started this to have anything removed: any command, a read one too, brings the stack up.
    """
    with open_maestro() as maestro:
        lease = maestro.schedule.take()
        if lease.fence is None:
            return
        work = the_work(cleans=False)
        with _keeping(open_maestro, maestro, lease):
            if work.sweep(maestro):
                maestro.schedule.note_swept(lease)
            if is_due(lease.cleaned_at, maestro.schedule.now_ms(), CLEANUP_MS) and work.cleanup(maestro):
                maestro.schedule.note_cleaned(lease)
