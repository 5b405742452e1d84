"""What the sweep promises, on every server: what is due is done, once, at the cost of what is due."""

from __future__ import annotations

import json

import pytest

from maestro_state.mirror.places import Places
from maestro_state.state.calls import checkpoints as archiving
from maestro_state.state.calls import leases
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
    backend.raw.zadd(terms.keys.of_index("deadlines"), {session_id: LONG_AGO})
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


async def test_only_one_sweeps_and_a_dead_one_does_not_keep_others_out(backend: Backend):
    """While one holds the lease a second does nothing and says so; a holder that fell silent is replaced and fenced."""
    async with backend.open_async() as maestro:
        session = await maestro.sessions.start("x")
        terms, server = maestro.server.terms, maestro.server
        now = await server.fetch(archiving.read_time())
        dead = await server.run(leases.take_lease(terms, leases.SWEEP, "dead", now))
        report = await maestro.archive.sweep()
        assert report.busy == "dead"
        assert report.checkpointed == []

        later = now + leases.LEASE_MS[leases.SWEEP] + 1
        alive = await server.run(leases.take_lease(terms, leases.SWEEP, "alive", later))
        assert int(alive.fence) > int(dead.fence)
        assert (await server.run(leases.take_lease(terms, leases.SWEEP, "dead", later, dead.fence))).fence is None
        assert await server.run(leases.release_lease(terms, leases.SWEEP, dead, "0")) == "LOST"
        await server.run(leases.release_lease(terms, leases.SWEEP, alive, "0"))
        assert (await maestro.archive.sweep()).checkpointed == [session.id]


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
            backend.raw.delete(maestro.server.terms.keys.of_index(name))
        backend.raw.zadd(maestro.server.terms.keys.of_index("deadlines"), {gone.id: LONG_AGO})
        backend.raw.pexpire(maestro.server.terms.keys.of_index("deadlines"), 60_000)
        backend.raw.delete(*keys_of(maestro, gone.id))

        report = await maestro.archive.sweep()
        assert lost.id in report.repaired
        assert backend.raw.zscore(maestro.server.terms.keys.of_index("deadlines"), gone.id) is None
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
            backend.raw.zrem(maestro.server.terms.keys.of_index("dirty"), due.id)
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
        dirty, recent = (maestro.server.terms.keys.of_index(name) for name in ("dirty", "recent"))
        begun = clock.now_ms
        session = await maestro.sessions.start("busy")
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
        dirty = maestro.server.terms.keys.of_index("dirty")
        session = await maestro.sessions.start("busy")
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
        session = await maestro.sessions.start("x")

        def fails(_):
            assert other.blocking.archive.sweep().busy  # control: the lease was taken
            raise RuntimeError("out of luck")

        with pytest.raises(RuntimeError, match="out of luck"):
            await maestro.archive.sweep([fails])
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
