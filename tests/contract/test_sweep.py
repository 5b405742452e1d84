"""What the sweep promises, on every server: what is due is done, once, at the cost of what is due."""

from __future__ import annotations

import json

import pytest

from maestro_state.local.project import IndexRow
from maestro_state.mirror.places import Places
from maestro_state.models.claim import Ended
from maestro_state.state.calls import checkpoints as archiving
from maestro_state.state.calls import leases
from maestro_state.state.keys import shard_of
from maestro_state.upkeep.reports import SweepReport
from maestro_state.upkeep.shards import THREADS, Shards
from maestro_state.upkeep.sweep import Sweep
from tests.support.backends import Backend, Clock
from tests.support.stored import filler

LONG_AGO = 1_000_000


def keys_of(maestro, session_id: str):
    return maestro.server.terms.keys.session(session_id)


def age(backend: Backend, maestro, session_id: str) -> None:
    """Make a session's time be over on both clocks."""
    terms = maestro.server.terms
    backend.raw.hset(terms.keys.of_session(session_id, "session"), "last_activity", LONG_AGO)
    backend.raw.zadd(terms.keys.of_index("deadlines", session_id), {session_id: LONG_AGO})
    for key in keys_of(maestro, session_id):
        if backend.raw.exists(key):
            backend.raw.pexpire(key, terms.grace_ms - 1000)


async def test_a_sweep_does_what_is_due(backend: Backend):
    """Changed sessions are checkpointed, frozen ones archived, expired ones frozen, archived and let go."""
    async with backend.open_async() as maestro:
        changed = await maestro.sessions.start("changed")
        frozen = await maestro.sessions.start("frozen")
        await maestro.sessions.end(frozen.id, archive=False)
        over = await maestro.sessions.start("over")
        filler(backend, over.id).run(b"kept\n")
        age(backend, maestro, over.id)

        report = await maestro.archive.sweep()
        assert report.checkpointed == [changed.id]
        assert report.archived == [frozen.id]
        assert report.finalized == [over.id]
        assert report.errors == []
        for session in (changed, frozen, over):
            assert (await maestro.archive.verify(session.id)).ok
        folder = backend.project / ".maestro/sessions" / over.id
        record = json.loads((folder / "session.json").read_text())
        assert record["state"] == "finalizada"
        assert record["finalized_at"]
        assert all(backend.raw.pttl(key) <= 60_000 for key in keys_of(maestro, over.id))
        backend.raw.delete(*keys_of(maestro, over.id))

        again = await maestro.archive.sweep()
        assert (again.checkpointed, again.archived, again.finalized) == ([], [], [])
        assert [row.slug for row in await maestro.sessions.list(everything=True) if row.archived] == ["over"]


async def test_only_one_sweeps_a_shard_and_a_dead_one_does_not_keep_others_out(backend: Backend):
    """What one has the lease of a second leaves to it and says so; a holder that fell silent is replaced and fenced."""
    async with backend.open_async() as maestro:
        session = await maestro.sessions.start("x")
        elsewhere = await started_in_another_shard(maestro, session.id)
        terms, server, shard = maestro.server.terms, maestro.server, leases.of_shard(shard_of(session.id))
        now = await server.fetch(archiving.read_time())
        dead = await server.run(leases.take_lease(terms, shard, "dead", now))
        report = await maestro.archive.sweep()
        assert (report.busy, report.checkpointed) == ("dead", [elsewhere])

        later = now + leases.lease_ms(shard) + 1
        alive = await server.run(leases.take_lease(terms, shard, "alive", later))
        assert int(alive.fence) > int(dead.fence)
        assert (await server.run(leases.take_lease(terms, shard, "dead", later, dead.fence))).fence is None
        assert await server.run(leases.release_lease(terms, shard, dead)) == "LOST"
        await server.run(leases.release_lease(terms, shard, alive))
        report = await maestro.archive.sweep()
        assert (report.busy, report.checkpointed) == (None, [session.id])


async def started_in_another_shard(maestro, session_id: str) -> str:
    """Start sessions until one is in another shard than this one; return its id."""
    while True:
        other = await maestro.sessions.start("other")
        if shard_of(other.id) != shard_of(session_id):
            return other.id
        await maestro.sessions.delete(other.id)


async def test_what_was_just_swept_is_left_alone_by_those_who_share(backend: Backend):
    """A shard that another one has done is not due again before its time; by hand it is done at once."""
    async with backend.open_async() as maestro:
        session = await maestro.sessions.start("x")
        assert (await maestro.archive.sweep_shards(600_000)).checkpointed == [session.id]
        await maestro.messages.add("user", "more")
        assert (await maestro.archive.sweep_shards(600_000)).checkpointed == []
        assert (await maestro.archive.sweep_shards()).checkpointed == [session.id]


async def test_many_are_written_at_a_time_and_each_is_told_of_once(backend: Backend):
    """More sessions than threads, one of them bad: each is whole on disk, and in the checkout's index, and no other is
    written a second time.
    """
    async with backend.open_async() as maestro:
        ids = [(await maestro.sessions.start(f"session {number}")).id for number in range(3 * THREADS)]
        backend.raw.hset(keys_of(maestro, ids[0])[0], "project", "/somewhere/else")
        report = await maestro.archive.sweep()
        assert sorted(report.checkpointed) == sorted(ids[1:])
        assert [failure.id for failure in report.errors] == [ids[0]]
        for session_id in ids[1:]:
            assert (await maestro.archive.verify(session_id)).ok
        assert {row.id for row in maestro.project.index()} == set(ids)
        assert (await maestro.archive.sweep()).checkpointed == []


async def test_a_terminal_with_a_wrong_clock_ends_no_session(backend: Backend):
    """A session made by a terminal whose clock is 40 days behind, or ahead, is not frozen early."""
    for days in (-40, 40):
        clock = Clock()
        async with backend.open_async() as right:
            now = await right.server.fetch(archiving.read_time())
        clock.now_ms = now + days * 24 * 3600 * 1000
        async with backend.open_async(now_ms=clock) as wrong:
            session = await wrong.sessions.start("jump")
            for _ in range(3):
                report = await wrong.archive.sweep()
                assert (report.finalized, report.errors) == ([], [])
                assert backend.raw.pttl(keys_of(wrong, session.id)[0]) > 6 * 24 * 3600 * 1000
            assert (await wrong.messages.add("user", "still working")).content
            assert (await wrong.sessions.read(session.id)).state == "iniciada"


async def test_a_session_with_an_open_run_is_written_but_not_frozen(backend: Backend):
    """An expired session whose run is open keeps its grace: somebody may still be printing into it."""
    async with backend.open_async() as maestro:
        session = await maestro.sessions.start("running")
        filler(backend, session.id).run(b"so far", status="running")
        key = keys_of(maestro, session.id)[0]
        backend.raw.hset(key, mapping={"state": "executando", "open_runs": "0001"})
        backend.raw.hset(maestro.server.terms.keys.of_session(session.id, "runs"), "0001:lease", 2**50)
        age(backend, maestro, session.id)

        report = await maestro.archive.sweep()
        assert report.finalized == []
        assert backend.raw.exists(key)
        assert (await maestro.sessions.read(session.id)).state == "executando"


async def test_the_index_is_repaired(backend: Backend):
    """A session the index has lost is found again, one that is gone is taken out of it."""
    async with backend.open_async() as maestro:
        lost = await maestro.sessions.start("lost")
        gone = await maestro.sessions.start("gone")
        await maestro.archive.checkpoint(lost.id)
        for name in ("summaries", "recent", "deadlines", "dirty"):
            backend.raw.delete(*maestro.server.terms.keys.all_of(name))
        backend.raw.zadd(maestro.server.terms.keys.of_index("deadlines", gone.id), {gone.id: LONG_AGO})
        backend.raw.pexpire(maestro.server.terms.keys.of_index("deadlines", gone.id), 60_000)
        backend.raw.delete(*keys_of(maestro, gone.id))

        report = await maestro.archive.sweep()
        assert lost.id in report.repaired
        assert backend.raw.zscore(maestro.server.terms.keys.of_index("deadlines", gone.id), gone.id) is None
        assert lost.id in {row.id for row in await maestro.sessions.list()}


async def test_one_bad_session_does_not_stop_the_rest(backend: Backend):
    """A session that cannot be written is reported with its reason; the others are done."""
    async with backend.open_async() as maestro:
        bad = await maestro.sessions.start("bad")
        good = await maestro.sessions.start("good")
        backend.raw.hset(keys_of(maestro, bad.id)[0], "project", "/somewhere/else")
        report = await maestro.archive.sweep()
        assert report.checkpointed == [good.id]
        assert [failure.id for failure in report.errors] == [bad.id]
        assert "another checkout" in report.errors[0].reason


async def test_a_team_keeps_all_projects_below_one_root(backend: Backend, tmp_path):
    """With an archive root, sessions of any project are written below it, and read from there."""
    async with backend.open_async(archive_root=str(tmp_path)) as maestro:
        own = await maestro.sessions.start("own")
        other = await maestro.sessions.start("other")
        backend.raw.hset(keys_of(maestro, other.id)[0], "project", "/home/ana/../../etc")
        report = await maestro.archive.sweep()
        assert sorted(report.checkpointed) == sorted([own.id, other.id])
        places = sorted(path.relative_to(tmp_path).parts[0] for path in tmp_path.rglob("session.json"))
        assert len(places) == 2
        assert all("/" not in place and ".." not in place for place in places)
        backend.raw.delete(*keys_of(maestro, own.id))
        assert (await maestro.sessions.read(own.id)).id == own.id


async def test_all_projects_below_one_root_are_verified_and_cleaned(backend: Backend, tmp_path):
    """Whoever looks after a team's root is in none of its projects: it is every one of them that is looked after."""
    async with backend.open_async(archive_root=str(tmp_path)) as maestro:
        session = await maestro.sessions.start("other", tool="echo")
        backend.raw.hset(keys_of(maestro, session.id)[0], "project", "/home/ana/shop")
        for _ in range(2):
            run = await maestro.runs.start("p", session.id)
            claim = await maestro.claims.claim(session.id, run.id, "me")
            await maestro.claims.add_outputs(claim, 0, [b"printed"])
            await maestro.claims.finish(claim, Ended(status="success", size=7))
        await maestro.archive.sweep()
        assert not maestro.blocking.archive._places.own.ids(), "the control: it is another project's"
        assert (await maestro.archive.verify_all()).checked > 5
        await maestro.sessions.end(session.id)
        cleaned = await maestro.archive.cleanup(days=0)
        assert [path.split("/", 1)[1] for path in cleaned.removed] == [f"sessions/{session.id}/runs/0001/output.txt"]
        verified = await maestro.archive.verify_all()
        assert (verified.ok, verified.removed) == (True, [f"{session.id}/runs/0001/output.txt"])
        (last,) = tmp_path.rglob("output.txt")
        last.write_bytes(b"Printed")
        assert [one.path for one in (await maestro.archive.verify_all()).damaged] == [
            f"{session.id}/runs/0002/output.txt"
        ]


async def test_the_cost_follows_what_is_due(backend: Backend):
    """Sessions that are not due cost a sweep nothing; a slow one may keep its lease with a command now and then."""
    async with backend.open_async() as maestro:
        counts = []
        for others in (0, 0, 40):  # the first one also teaches the server the scripts
            for _ in range(others):
                await maestro.sessions.start("other")
            await maestro.archive.sweep()
            due = await maestro.sessions.start("due")
            age(backend, maestro, due.id)
            backend.raw.zrem(maestro.server.terms.keys.of_index("dirty", due.id), due.id)
            server = maestro.blocking.server
            sweep = Sweep(server, Places(maestro.project, None), horizon_ms=0, can_scan=False)
            counted, original = [], server.connection.call

            def count(*args, original=original, counted=counted):
                counted.append(args)
                return original(*args)

            server.connection.call = count
            report = sweep.sweep()
            server.connection.call = original
            assert report.finalized == [due.id]
            counts.append(len(counted))
        assert counts[2] - counts[1] < 40


async def test_a_session_waits_for_a_disk_since_its_first_change(backend: Backend):
    """A session that goes on changing is overdue by its oldest change, and after a checkpoint by the next one."""
    clock = Clock()
    async with backend.open_async(now_ms=clock) as maestro:
        begun = clock.now_ms
        session = await maestro.sessions.start("busy")
        dirty, recent = (maestro.server.terms.keys.of_index(name, session.id) for name in ("dirty", "recent"))
        for _ in range(3):
            clock.advance(seconds=10)
            await maestro.messages.add("user", "more")
        assert backend.raw.zscore(recent, session.id) == begun + 30_000  # control: the index heard of all of them
        assert backend.raw.zscore(dirty, session.id) == begun

        await maestro.archive.checkpoint(session.id)
        assert backend.raw.zscore(dirty, session.id) is None
        for _ in range(2):
            clock.advance(seconds=10)
            await maestro.messages.add("user", "and more")
        assert backend.raw.zscore(dirty, session.id) == begun + 40_000


async def test_a_session_that_changes_while_it_is_written_is_not_late_for_ever(backend: Backend):
    """What was written does not wait any more, even if something newer does."""
    clock = Clock()
    async with backend.open_async(now_ms=clock) as maestro, backend.open_async(now_ms=clock) as other:
        session = await maestro.sessions.start("busy")
        dirty = maestro.server.terms.keys.of_index("dirty", session.id)
        clock.advance(seconds=10)
        server = maestro.blocking.server
        original = server.fetch

        def fetch(query):
            if query.command == archiving.read_time().command:  # all is read and written, and is about to be marked
                other.blocking.messages.add("user", "meanwhile", session.id)
            return original(query)

        server.fetch = fetch
        flushed = await maestro.archive.checkpoint(session.id)
        assert (flushed.written, flushed.current) == (True, False)
        assert backend.raw.zscore(dirty, session.id) == clock.now_ms


async def test_a_sweep_that_fails_leaves_its_lease(backend: Backend):
    """Whatever goes wrong in a pass, the next one need not wait until the lease runs out."""
    async with backend.open_async() as maestro, backend.open_async() as other:
        await maestro.sessions.start("x")

        def fails(_):
            assert other.blocking.archive.sweep().busy  # control: the lease was taken
            raise RuntimeError("out of luck")

        with pytest.raises(RuntimeError, match="out of luck"):
            await maestro.archive.sweep([fails])
        assert (await other.archive.sweep()).busy is None


async def test_a_shard_that_fails_leaves_its_lease(backend: Backend, monkeypatch):
    """Whatever goes wrong with a whole shard, the next one who comes need not wait until its lease runs out."""
    async with backend.open_async() as maestro, backend.open_async() as other:
        session = await maestro.sessions.start("x")

        def fails(self, *_):
            monkeypatch.undo()
            assert other.blocking.archive.sweep().busy  # control: the lease was taken
            raise RuntimeError("out of luck")

        monkeypatch.setattr(Shards, "_members", fails)
        with pytest.raises(RuntimeError, match="out of luck"):
            await maestro.archive.sweep()
        assert (await other.archive.sweep()).checkpointed == [session.id]


async def test_a_sweep_that_lost_its_lease_leaves_that_of_its_successor(backend: Backend):
    """Who was silent for too long and fails afterwards does not let a third one in."""
    async with backend.open_async() as maestro, backend.open_async() as other:
        terms, server = other.server.terms, other.blocking.server

        def fails(_):
            later = server.fetch(archiving.read_time()) + leases.LEASE_MS[leases.SWEEP] + 1
            assert server.run(leases.take_lease(terms, leases.SWEEP, "successor", later)).fence
            raise RuntimeError("out of luck")

        with pytest.raises(RuntimeError, match="out of luck"):
            await maestro.archive.sweep([fails])
        assert (await other.archive.sweep()).busy == "successor"


async def test_what_a_sweep_could_not_write_is_counted(backend: Backend):
    """Sessions are written shard by shard, after everything else: what goes wrong there counts too."""
    async with backend.open_async() as maestro:
        session = await maestro.sessions.start("one")
        messages = maestro.server.terms.keys.of_session(session.id, "messages")
        backend.raw.set(messages, "x", ex=1000)
        assert [failure.id for failure in (await maestro.sweep()).errors] == [session.id]
        assert (await maestro.ledger.counters())["errors|sweep"] == 1
        assert len((await maestro.sweep_share()).errors) == 1
        assert (await maestro.ledger.counters())["errors|sweep"] == 2
        backend.raw.delete(messages)


async def test_rows_that_come_while_rows_are_written_are_not_lost(backend: Backend):
    """Threads hand over rows of the checkout's index while those before are being written."""
    with backend.open() as maestro:
        shards = Shards(maestro.server, Places(maestro.project, None), horizon_ms=0, queue=None)
        first, second = (IndexRow.of(maestro.sessions.start(name)) for name in ("first", "second"))
        shards._rows = Arriving([first], second)
        shards._checkpoints._index = shards._rows.append
        shards._write_rows(SweepReport())
        assert shards._rows == [second]


class Arriving(list[IndexRow]):
    """A list that another row is added to while it is copied."""

    def __init__(self, rows: list[IndexRow], late: IndexRow) -> None:
        super().__init__(rows)
        self._late: IndexRow | None = late

    def _arrive(self) -> None:
        if self._late is not None:
            late, self._late = self._late, None
            self.append(late)

    def __iter__(self):
        yield from list.__getitem__(self, slice(None))
        self._arrive()

    def __getitem__(self, place):
        found = super().__getitem__(place)
        self._arrive()
        return found
