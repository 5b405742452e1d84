"""Sweepers that share the shards: one is killed, several come at once, a shard of the index is damaged or gone."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest

from maestro_state import Maestro
from maestro_state.state.calls import leases
from maestro_state.state.keys import shard_of
from maestro_state.upkeep import shards
from tests.support.backends import Backend
from tests.support.programs import STILL, python
from tests.support.waiting import wait_until

MANY = 40


def started(maestro: Maestro, count: int = MANY) -> set[str]:
    """Start sessions that have something to write."""
    return {maestro.sessions.start(f"session {number}", activate=False).id for number in range(count)}


def generations(project: Path, ids: set[str]) -> dict[str, int]:
    """Return how often the archive of each session was written."""
    manifests = {one: project / ".maestro/sessions" / one / "manifest.json" for one in ids}
    return {one: msgspec.json.decode(path.read_bytes())["generation"] for one, path in manifests.items()}


def all_on_disk(real: Backend, maestro: Maestro, ids: set[str]) -> bool:
    """Tell whether the disk has everything, and the server knows it."""
    keys = [maestro.server.terms.keys.of_session(one, "session") for one in ids]
    facts = [real.raw.hmget(key, "last_id", "archived_id") for key in keys]
    return all(last == archived for last, archived in facts) and all(maestro.archive.verify(one).ok for one in ids)


def test_the_shard_of_a_killed_sweeper_is_taken_over(real: Backend, tmp_path: Path):
    """kill -9 in the middle of a shard: it is left alone while its lease lasts, then another one does the rest of it.
    Nothing is lost, and what the killed one wrote is not written again.
    """
    with Maestro(real.project) as maestro:
        ids = started(maestro)
        with python(tmp_path, "sweep", real.project, "10") as killed:
            wait_until(lambda: STILL in killed.lines(), "it does not sweep")
            os.kill(killed.process.pid, signal.SIGKILL)
            killed.process.wait()
        before = {*killed.lines()} - {STILL}
        tasks = [leases.of_shard(number) for number in range(len(maestro.server.terms.keys.shards))]
        keys = [maestro.server.terms.keys.lease(task)[0] for task in tasks]
        report = maestro.archive.sweep()
        assert report.busy  # control: what the killed one held is not done by others yet
        (key,) = [key for key in keys if int(real.raw.hget(key, "until") or 0)]
        left = {one for one in ids if maestro.server.terms.keys.lease(leases.of_shard(shard_of(one)))[0] == key}
        assert not all_on_disk(real, maestro, left)
        real.raw.hset(key, "until", 1)
        again = maestro.archive.sweep()
        assert (again.busy, again.errors) == (None, [])
        assert before.isdisjoint(report.checkpointed)
        assert all_on_disk(real, maestro, ids)
        assert {count for one, count in generations(real.project, ids).items() if one in before} == {1}


def test_several_sweep_at_once_and_share_the_work(real: Backend, tmp_path: Path):
    """Three processes: together they do all, each session is written once, by one of them."""
    with Maestro(real.project) as maestro:
        ids = started(maestro)
        with ExitStack() as stack:
            sweepers = [stack.enter_context(python(tmp_path, "sweep", real.project, "1000")) for _ in range(3)]
            assert [one.process.wait(60) for one in sweepers] == [0, 0, 0]
            written = [line for one in sweepers for line in one.lines()]
        assert sorted(written) == sorted(ids)
        assert all_on_disk(real, maestro, ids)
        assert set(generations(real.project, ids).values()) == {1}


def test_without_leases_two_would_do_the_same(real: Backend, monkeypatch: pytest.MonkeyPatch):
    """Control: two sweepers that take no notice of each other go over the same sessions; and still none is harmed."""
    meeting, do = threading.Barrier(2, timeout=60), shards.Shards._do

    def meets(self, report, held, found, what):
        if found:
            meeting.wait()
        do(self, report, held, found, what)

    with Maestro(real.project) as maestro, Maestro(real.project) as other:
        ids = started(maestro, 8)
        monkeypatch.setattr(shards, "crc32", lambda _: 0)
        monkeypatch.setattr(shards.HeldLease, "_take", lambda *_: leases.Lease("1", "me"))
        monkeypatch.setattr(shards.Shards, "_do", meets)
        reports = []
        both = [
            threading.Thread(target=lambda one=one: reports.append(one.archive.sweep_shards()))
            for one in (maestro, other)
        ]
        for thread in both:
            thread.start()
        for thread in both:
            thread.join(60)
        done = [one for report in reports for one in report.checkpointed]
        assert len(done) > len(ids)
        assert all_on_disk(real, maestro, ids)
        assert [report.errors for report in reports] == [[], []]


@pytest.mark.parametrize("how", ["gone", "a text", "rows that are no JSON"])
def test_a_damaged_shard_is_rebuilt(real: Backend, how: str):
    """What is in other shards is listed as ever; the sessions of the damaged one are found again by a sweep."""
    with Maestro(real.project) as maestro:
        ids = started(maestro)
        keys = maestro.server.terms.keys
        shard = keys.index(min(ids))
        inside = {one for one in ids if keys.index(one) == shard}
        if how == "rows that are no JSON":
            real.raw.hset(shard[0], mapping=dict.fromkeys(inside, b"\xff"))
        else:
            real.raw.delete(*shard)
        if how == "a text":
            real.raw.set(shard[0], "x", ex=3600)
        # Control: without the others' shards a list would be empty, and this one's sessions are missing from it.
        assert {row.id for row in maestro.sessions.list() if not row.orphan} == ids - inside
        assert maestro.sweep(thorough=True).errors == []
        assert {row.id for row in maestro.sessions.list() if not row.orphan} == ids
        assert all_on_disk(real, maestro, ids)
