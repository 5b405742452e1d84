"""Schedulers of a team: exactly one is active, another takes over, and what was missed is done once."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import ExitStack, contextmanager

import pytest
from maestro_workers import scheduler
from maestro_workers.scheduler import CLEANUP_MS, Scheduler, Work

from maestro_state import Maestro
from maestro_state.errors import DamagedRecord
from maestro_state.state.calls import leases
from maestro_state.state.calls.leases import SCHEDULE, read_lease
from maestro_state.upkeep.scheduler_lease import Schedule
from tests.support.accounts import guarded
from tests.support.cli_runs import MAESTRO
from tests.support.programs import python, running
from tests.support.stored import filler
from tests.support.waiting import wait_until

DAY_MS = 24 * 3600 * 1000


LEASE_MS = 600_000


@pytest.fixture(autouse=True)
def quick_beats(monkeypatch):
    """Send heartbeats often, with leases that no busy machine lets run out: tests end them by hand."""
    monkeypatch.setitem(leases.LEASE_MS, SCHEDULE, LEASE_MS)
    monkeypatch.setattr(scheduler, "BEAT_S", 0.1)


def let_the_lease_end(raw, key, in_ms=0):
    """Bring the end of a lease nearer, as time would."""
    seconds, micros = raw.time()
    raw.hset(key, "until", seconds * 1000 + micros // 1000 + in_ms)


class Diary:
    """What schedulers did, and how many of them at once."""

    def __init__(self):
        self.sweeps = []
        self.cleanups = []
        self.at_once = []
        self._lock = threading.Lock()
        self._busy = 0
        self.hold = threading.Event()
        self.hold.set()

    def work(self, name):
        """Return what the scheduler of that name does."""

        def sweep(maestro):
            with self._lock:
                self._busy += 1
                self.at_once.append(self._busy)
                self.sweeps.append(name)
            self.hold.wait(120)
            with self._lock:
                self._busy -= 1
            return True

        def cleanup(maestro):
            self.cleanups.append(name)
            return True

        return Work(sweep, cleanup, lambda _: True)


@contextmanager
def scheduling_in(project, diary, name):
    """Run a scheduler in a thread until the end."""
    leaving = threading.Event()
    one = Scheduler(lambda: Maestro(project, checkpoint_seconds=1), diary.work(name), leaving)
    thread = threading.Thread(target=one.run)
    thread.start()
    try:
        yield leaving
    finally:
        leaving.set()
        diary.hold.set()
        thread.join(60)
        assert not thread.is_alive()


def test_exactly_one_is_active_and_another_takes_over(real):
    """Three schedulers, one works; when it leaves, another does, and never two at once."""
    diary = Diary()
    with ExitStack() as stack:
        leaving = {name: stack.enter_context(scheduling_in(real.project, diary, name)) for name in "abc"}
        wait_until(lambda: len(diary.sweeps) >= 3, "nobody sweeps")
        first = diary.sweeps[0]
        assert set(diary.sweeps) == {first}
        leaving[first].set()
        wait_until(lambda: len(set(diary.sweeps)) == 2, "nobody takes over")
    assert set(diary.at_once) == {1}
    assert len(diary.cleanups) == 1


@pytest.mark.parametrize("shares", [True, False])
def test_those_that_are_not_in_charge_take_shares(real, shares):
    """While another one is active, a scheduler writes what waits; control: one that does not share writes nothing."""
    work = scheduler.the_work(cleans=False)
    turns = []

    def share(maestro):
        turns.append(work.share(maestro) if shares else True)
        return True

    with Maestro(real.project) as active:
        ids = {active.sessions.start(f"session {number}", activate=False).id for number in range(6)}
        assert active.schedule.take().fence is not None
        leaving = threading.Event()
        one = Scheduler(lambda: Maestro(real.project), Work(work.sweep, work.cleanup, share), leaving)
        thread = threading.Thread(target=one.run)
        thread.start()
        try:
            wait_until(lambda: len(turns) >= 2, "it does nothing")
        finally:
            leaving.set()
            thread.join(60)
        assert active.archive.unwritten() == (0 if shares else len(ids))
        assert active.places.own.ids() == (ids if shares else set())
        swept = real.raw.hget(active.server.terms.keys.lease(SCHEDULE)[0], "swept_at")
        assert swept is None  # what is done once for all was left to the active one


def test_long_work_keeps_its_lease(real):
    """A pass that takes longer than the lease is not interrupted, and nobody else begins."""
    diary = Diary()
    diary.hold.clear()
    with Maestro(real.project) as maestro, scheduling_in(real.project, diary, "a"):
        wait_until(lambda: diary.sweeps, "nobody sweeps")
        key = maestro.server.terms.keys.lease(SCHEDULE)[0]
        with scheduling_in(real.project, diary, "b"):
            for _ in range(3):  # it would be over in a minute each time
                first = int(real.raw.hget(key, "until"))
                let_the_lease_end(real.raw, key, in_ms=60_000)
                wait_until(lambda first=first: int(real.raw.hget(key, "until")) > first, "the lease is not kept")
            assert diary.sweeps == ["a"]
            diary.hold.set()


def test_a_lease_that_was_taken_away_is_noticed(real):
    """A holder that was silent for too long is refused by its number: its note is not believed, it becomes inactive."""
    with Maestro(real.project) as slow, Maestro(real.project) as quick:
        lease = slow.schedule.take()
        assert lease.fence is not None
        assert quick.schedule.take().fence is None
        let_the_lease_end(real.raw, slow.server.terms.keys.lease(SCHEDULE)[0])
        assert int(quick.schedule.take().fence or 0) > int(lease.fence)
        assert slow.schedule.take(lease).fence is None
        assert slow.schedule.note_swept(lease) is False
        slow.schedule.release(lease)
        assert slow.schedule.take().fence is None  # the other one still has it
        # Control: by hand, without a lease, it may be noted.
        assert slow.schedule.note_swept() is True


@pytest.mark.parametrize(("days", "cleanups"), [(0.5, 0), (1.5, 1), (40, 1)])
def test_what_was_missed_is_done_once(real, days, cleanups):
    """After a downtime of any length each thing that is due is done once, and what is not due is not done."""
    diary = Diary()
    with Maestro(real.project) as maestro:
        then = maestro.schedule.now_ms() - int(days * DAY_MS)
        real.raw.hset(maestro.server.terms.keys.lease(SCHEDULE)[0], mapping={"swept_at": then, "cleaned_at": then})
        with scheduling_in(real.project, diary, "a"):
            wait_until(lambda: len(diary.sweeps) >= 2, "nobody sweeps")
        assert len(diary.cleanups) == cleanups
        cleaned_at = int(real.raw.hget(maestro.server.terms.keys.lease(SCHEDULE)[0], "cleaned_at"))
        assert (cleaned_at > then) == bool(cleanups)
        assert maestro.schedule.now_ms() - cleaned_at < CLEANUP_MS


def test_work_that_fails_does_not_end_the_scheduler(real):
    """What goes wrong is tried again when it is due again."""
    tries = []

    def fails(maestro):
        tries.append(1)
        raise OSError(28, "No space left on device")

    leaving = threading.Event()
    one = Scheduler(lambda: Maestro(real.project, checkpoint_seconds=1), Work(fails, fails, fails), leaving)
    thread = threading.Thread(target=one.run)
    thread.start()
    wait_until(lambda: len(tries) >= 3, "it gave up")
    leaving.set()
    thread.join(60)
    assert not thread.is_alive()


def test_what_is_damaged_does_not_end_a_scheduler(real, monkeypatch):
    """What its own lease, or anything else, cannot be read: it says so, and goes on when that is mended."""
    diary, tries = Diary(), []

    def take(self, lease=None):
        tries.append(1)
        if len(tries) < 3:
            raise DamagedRecord("a lease", "of another type")
        return taking(self, lease)

    taking = Schedule.take
    monkeypatch.setattr(Schedule, "take", take)
    with scheduling_in(real.project, diary, "one"):
        wait_until(lambda: diary.sweeps, "it went on")


def test_a_killed_scheduler_is_replaced(real, tmp_path):
    """kill -9 of the active process: another one takes the lease with a higher number when the lease ends."""
    with ExitStack() as stack:
        both = [stack.enter_context(python(tmp_path, "schedule", real.project)) for _ in range(2)]
        wait_until(lambda: any(one.lines() for one in both), "nobody is active")
        active, other = sorted(both, key=lambda one: not one.lines())
        assert not other.lines()
        os.kill(active.process.pid, signal.SIGKILL)
        active.process.wait()
        with Maestro(real.project) as maestro:
            let_the_lease_end(real.raw, maestro.server.terms.keys.lease(SCHEDULE)[0])
        wait_until(lambda: other.lines(), "nobody takes over")
        assert int(other.lines()[0]) > int(active.lines()[0])


@pytest.mark.parametrize(("cleans", "setting", "is_removed"), [
    (False, "off", False), (False, "on", True), (True, "off", True),
])  # fmt: skip
def test_only_who_was_asked_to_cleans_up(real, cleans, setting, is_removed):
    """The stack's own scheduler removes nothing unless MAESTRO_CLEANUP is on; one that somebody started does."""
    with Maestro(real.project) as maestro:
        session = maestro.sessions.start("old")
        fill = filler(real, session.id)
        fill.run(b"first")
        fill.run(b"last")
        maestro.sessions.end()
        real.raw.delete(*maestro.server.terms.keys.session(session.id), *maestro.server.terms.keys.index(session.id))
    leaving, swept = threading.Event(), []
    work = scheduler.the_work(cleans=cleans)

    def sweep(maestro):
        swept.append(work.sweep(maestro))
        return True

    one = Scheduler(
        lambda: Maestro(real.project, checkpoint_seconds=1, retention_days=0, cleanup=setting),
        Work(sweep, work.cleanup, work.share),
        leaving,
    )
    thread = threading.Thread(target=one.run)
    thread.start()
    wait_until(lambda: len(swept) >= 3, "nobody sweeps")  # cleanup comes after a sweep
    leaving.set()
    thread.join(60)
    first = real.project / ".maestro/sessions" / session.id / "runs/0001/output.txt"
    assert first.exists() is not is_removed


@pytest.mark.parametrize(("role", "is_told"), [("terminal", True), ("worker", False)])
def test_an_account_that_leaves_something_undone_is_told(tmp_path, project, role, is_told):
    """A terminal's writes sessions to disk, and no more; the control is a worker's, which does all there is."""
    with guarded(tmp_path, ("one", role, "maestro")) as team:
        given = {"MAESTRO_REDIS_URL": team.url("one"), "MAESTRO_LOG_LEVEL": "info"}
        with Maestro(project, redis_url=team.url("one")) as maestro:
            session = maestro.sessions.start("swept")
            with running(tmp_path, [MAESTRO, "--project", str(project), "scheduler"], env=given) as program:
                server = maestro.server
                wait_until(lambda: server.fetch(read_lease(server.terms, SCHEDULE)).swept_at, "nobody sweeps")
                said = program.complained.read_text()
            assert maestro.archive.verify(session.id).ok
        assert ("account_without_rights" in said) is is_told
        assert ("maestro acl --worker" in said) is is_told
