"""The index without shards, which versions before them write and read: taken over, and kept while one of them runs.

Such a version is this program with every session's place in the index where it was; what real ones left on a server is
in `tests/earlier/`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from maestro_state import Maestro
from maestro_state.state.calls import leases
from maestro_state.state.calls.index import IndexEntry
from maestro_state.state.keys import named
from maestro_state.upkeep import legacy_index
from maestro_state.upkeep.legacy_index import QUIET_MS, SEEN
from maestro_state.upkeep.sweep import Sweep
from tests.integration.test_earlier_formats import FORMS, THEN_MS, requeue
from tests.support.backends import Backend, Clock


@contextmanager
def opened_earlier(real: Backend, **options: Any) -> Iterator[Maestro]:
    """Open Maestro as a version before the shards is."""
    with real.open(**options) as maestro:
        keys = maestro.server.terms.keys
        keys.index = lambda _: keys.earlier_index  # type: ignore[method-assign]
        yield maestro


def listed_earlier(real: Backend, maestro: Maestro) -> dict[str, str]:
    """Return what a version before the shards lists: ids and how far each goes."""
    rows = real.raw.hvals(named(maestro.server.terms.keys.earlier_index, "summaries"))
    return {row.id: row.last_id for row in (msgspec.json.decode(row, type=IndexEntry) for row in rows)}


def in_shards(real: Backend, maestro: Maestro) -> set[str]:
    """Return what the shards have."""
    keys = maestro.server.terms.keys.all_of("summaries")[:-1]
    return {one.decode() for key in keys for one in real.raw.hkeys(key)}


def ids_of(maestro: Maestro) -> set[str]:
    return {row.id for row in maestro.sessions.list()}


def test_both_versions_at_once_see_everything(real: Backend):
    """New ones at once, earlier ones after the next pass; what either changes is written to disk."""
    with opened_earlier(real) as before, real.open() as now:
        theirs = before.sessions.start("theirs").id
        ours = now.sessions.start("ours").id
        assert in_shards(real, now) == {ours}  # control: what is theirs is not in any shard
        assert ids_of(now) == {theirs, ours}
        assert {row.id for row in now.sessions.newest(5)} == {theirs, ours}
        assert set(listed_earlier(real, now)) == {theirs}

        assert sorted(now.archive.sweep().checkpointed) == sorted([theirs, ours])
        assert set(listed_earlier(real, now)) == in_shards(real, now) == {theirs, ours}

        before.messages.add("user", "more", ours)
        now.messages.add("user", "more", theirs)
        assert {row.id: row.last_id for row in now.sessions.list()}[ours] == listed_earlier(real, now)[ours]
        assert sorted(now.archive.sweep().checkpointed) == sorted([theirs, ours])
        now.archive.sweep()
        assert now.archive.unwritten() == 0
        assert listed_earlier(real, now) == {row.id: row.last_id for row in now.sessions.list()}

        now.sessions.delete(theirs)
        assert ids_of(now) == {ours}
        assert theirs in listed_earlier(real, now)  # control: it has to be taken out of theirs
        now.archive.sweep()
        now.archive.sweep()
        assert set(listed_earlier(real, now)) == {ours}


def test_the_earlier_index_goes_when_nobody_uses_it(real: Backend):
    """A day after the last sign of an earlier version; if one comes after all, nothing is missing for anybody."""
    with opened_earlier(real) as before, real.open() as now:
        session = before.sessions.start("theirs").id
        now.archive.sweep()
        now.archive.sweep()
        assert set(listed_earlier(real, now)) == {session}  # control: it is kept at first
        lease = now.server.terms.keys.lease(leases.SWEEP)[0]
        real.raw.hset(lease, SEEN, now.schedule.now_ms() - QUIET_MS - 1)
        now.archive.sweep()
        assert not any(real.raw.exists(key) for key in now.server.terms.keys.earlier_index)
        assert ids_of(now) == {session}

        before.messages.add("user", "still here", session)
        assert set(listed_earlier(real, now)) == {session}
        assert now.archive.sweep().checkpointed == [session]
        assert ids_of(now) == {session}


def test_many_are_taken_over_in_several_passes(real: Backend, monkeypatch: pytest.MonkeyPatch):
    """More than one pass takes: each goes on where the last one ended, and the index is kept until all are over."""
    monkeypatch.setattr(legacy_index, "BATCH", 4)
    clock = Clock()
    with opened_earlier(real, now_ms=clock) as before, real.open(now_ms=clock) as now:
        ids = set()
        for number in range(10):
            clock.advance(seconds=1)
            ids.add(before.sessions.start(f"session {number}").id)
            before.archive.checkpoint()
        taken = []
        for _ in range(4):
            # Without the walk through all keys, which would find them too.
            Sweep(now.server, now.places, horizon_ms=0, can_scan=False).sweep()
            taken.append(len(in_shards(real, now)))
            assert ids_of(now) == ids
        assert taken[0] < len(ids) == taken[-1]


@pytest.mark.parametrize("form", FORMS)
def test_what_earlier_versions_left_is_taken_over(real: Backend, form: str):
    """Every session in the index that a real earlier commit wrote is in a shard after a pass, as far as it goes."""
    requeue(real, form)
    with real.open(now_ms=Clock(THEN_MS)) as maestro:
        before = listed_earlier(real, maestro)
        assert before
        assert not in_shards(real, maestro)
        assert set(before) <= ids_of(maestro)
        maestro.archive.sweep()
        assert set(before) <= in_shards(real, maestro)
        assert set(before) <= ids_of(maestro)
        assert all(path.is_dir() for path in _archives(real.project, before))


def _archives(project: Path, ids: dict[str, str]) -> list[Path]:
    return [project / ".maestro/sessions" / one for one in ids]


@pytest.mark.parametrize("how", ["field", "type"])
def test_a_damaged_session_does_not_keep_the_others_from_being_taken_over(real: Backend, how: str):
    """It is named; the next ones are brought into both indexes and written to disk."""
    with opened_earlier(real) as before, real.open() as now:
        ids = [before.sessions.start(name).id for name in ("first", "second", "third")]
        key = now.server.terms.keys.of_session(ids[0], "session")
        if how == "field":
            real.raw.hset(key, "ttl_ms", "soon")
        else:
            real.raw.delete(key)
            real.raw.set(key, "no record", px=60_000)
        report = now.archive.sweep()
        assert sorted(report.checkpointed) == sorted(ids[1:])
        assert in_shards(real, now) == set(ids[1:])
        assert ids[0] in {failure.id for failure in report.errors}
        real.raw.delete(key)
