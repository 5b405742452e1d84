"""What work sessions promise as wholes, on every server."""

from __future__ import annotations

import asyncio
import json

import pytest

from maestro_state.errors import (
    InvalidValue,
    OpenChildren,
    WorkSessionClosed,
    WorkSessionNotFound,
)
from maestro_state.work.tree import Filters
from tests.support.backends import Backend, Clock
from tests.support.work_samples import crumb


async def test_start_makes_the_record_and_its_folder(backend: Backend):
    """A started work session is running, has a UUID4 for cookie, and lies where its record says."""
    async with backend.open_async() as maestro:
        started = await maestro.work.start("work_task", related_entity={"task": "T-1"}, metadata={"a": []})

        assert (started.status, started.parent_session_id) == ("running", None)
        assert started.session_id[14] == "4"
        assert started.created == started.modified
        assert started.breadcrumbs_dir == f"docs/sessions/{started.session_id}/breadcrumbs"
        assert (await maestro.work.read(started.session_id)).record == started
        stored = json.loads((backend.project / "docs/sessions" / started.session_id / "session.json").read_text())
        assert list(stored) == [
            "session_id",
            "session_type",
            "parent_session_id",
            "status",
            "created",
            "modified",
            "related_entity",
            "breadcrumbs_dir",
            "metadata",
        ]
        assert stored["metadata"] == {"a": []}


async def test_children_lie_in_their_parents_folder(backend: Backend):
    """However deep, a child's folder is inside its parent's, and the tree shows it there."""
    async with backend.open_async() as maestro:
        ids: list[str] = []
        for _ in range(5):
            started = await maestro.work.start("work_phase", parent=ids[-1] if ids else None)
            ids.append(started.session_id)
        assert backend.project.joinpath("docs", "sessions", *ids, "session.json").is_file()
        (top,) = await maestro.work.tree(ids[0])
        assert [(depth, record.session_id) for depth, record in top.walk()] == list(enumerate(ids))
        assert [child.session_id for child in await maestro.work.children(ids[0])] == ids[1:2]
        assert await maestro.work.tree() == [top]


async def test_unknown_parents_and_bad_values_start_nothing(backend: Backend):
    """What cannot be started leaves nothing on the server and nothing on disk."""
    async with backend.open_async() as maestro:
        for attempt, error in (
            (maestro.work.start("t", parent="00000000-0000-4000-8000-000000000000"), WorkSessionNotFound),
            (maestro.work.start(""), InvalidValue),
            (maestro.work.start("t\x1b[31m"), InvalidValue),
            (maestro.work.start("t", related_entity={"a": "x" * 20_000}), InvalidValue),
            (maestro.work.start("t", ttl_seconds=0), InvalidValue),
        ):
            with pytest.raises(error):
                await attempt
        assert backend.raw.dbsize() == 0
        assert not (backend.project / "docs").exists()


async def test_references(backend: Backend):
    """A full id, the beginning of one if it is unique, and latest find a work session."""
    clock = Clock()
    async with backend.open_async(now_ms=clock) as maestro:
        with pytest.raises(WorkSessionNotFound):
            await maestro.work.resolve("latest")
        first = (await maestro.work.start("a")).session_id
        clock.advance(seconds=5)
        second = (await maestro.work.start("b")).session_id
        assert await maestro.work.resolve("latest") == second
        clock.advance(seconds=5)
        await maestro.work.add_breadcrumb(first, crumb("1"))
        assert await maestro.work.resolve("latest") == first
        assert await maestro.work.resolve(first[:13]) == first
        assert await maestro.work.resolve(second.upper()) == second
        with pytest.raises(WorkSessionNotFound):
            await maestro.work.resolve("zzzz")


async def test_an_ended_work_session_takes_nothing_more(backend: Backend):
    """After the end there are no more breadcrumbs, children or other ends; it can still be read."""
    async with backend.open_async() as maestro:
        for status in ("completed", "failed", "interrupted"):
            work_id = (await maestro.work.start("t")).session_id
            ended = await maestro.work.end(work_id, status)
            assert ended.status == status
            for attempt in (
                maestro.work.end(work_id),
                maestro.work.pause(work_id),
                maestro.work.start("t", parent=work_id),
                maestro.work.add_breadcrumb(work_id, crumb("late")),
            ):
                with pytest.raises(WorkSessionClosed):
                    await attempt
            assert (await maestro.work.read(work_id)).record == ended
            stored = json.loads((backend.project / "docs/sessions" / work_id / "session.json").read_text())
            assert stored["status"] == status
        with pytest.raises(InvalidValue):
            await maestro.work.end(work_id, "running")


async def test_pause_and_resume(backend: Backend):
    """A paused work session still takes breadcrumbs, and goes on when resumed."""
    async with backend.open_async() as maestro:
        work_id = (await maestro.work.start("t")).session_id
        with pytest.raises(WorkSessionClosed):
            await maestro.work.resume(work_id)
        assert (await maestro.work.pause(work_id)).status == "paused"
        await maestro.work.add_breadcrumb(work_id, crumb("1"))
        assert (await maestro.work.resume(work_id)).status == "running"
        await maestro.work.pause(work_id)
        assert (await maestro.work.end(work_id)).status == "completed"
        kinds = [one.type for one in await maestro.work.timeline(work_id)]
        wanted = ["session.paused", "session.resumed", "session.paused", "session.ended"]
        assert [kind for kind in kinds if kind in wanted] == wanted


async def test_ending_a_parent_says_what_becomes_of_its_children(backend: Backend):
    """With open children an end is refused unless they are ended too, deepest first, or left to go on."""
    async with backend.open_async() as maestro:
        top = (await maestro.work.start("t")).session_id
        child = (await maestro.work.start("t", parent=top)).session_id
        grandchild = (await maestro.work.start("t", parent=child)).session_id
        with pytest.raises(OpenChildren) as refused:
            await maestro.work.end(top)
        assert refused.value.children == [child]
        assert (await maestro.work.read(top)).record.status == "running"
        await maestro.work.end(top, "interrupted", children="end")
        for one in (top, child, grandchild):
            assert (await maestro.work.read(one)).record.status == "interrupted"

        other = (await maestro.work.start("t")).session_id
        left = (await maestro.work.start("t", parent=other)).session_id
        await maestro.work.end(other, children="leave")
        assert (await maestro.work.read(left)).record.status == "running"


async def test_a_child_started_while_its_parent_ends_is_either_seen_or_refused(backend: Backend):
    """A parent never ends as if it had no children while one is being started under it."""
    async with backend.open_async() as maestro:
        for _ in range(20):
            top = (await maestro.work.start("t")).session_id
            child, ended = await asyncio.gather(
                maestro.work.start("t", parent=top), maestro.work.end(top), return_exceptions=True
            )
            is_started, is_ended = not isinstance(child, Exception), not isinstance(ended, Exception)
            assert isinstance(ended, OpenChildren) if is_started and not is_ended else True
            noted = await maestro.work.children(top)
            if is_ended and is_started:
                # The parent had noted the child before it was made, and found nothing open under it at that moment.
                assert [one.session_id for one in noted] == [child.session_id]
            if not is_started:
                assert isinstance(child, WorkSessionClosed)


async def test_list_filters(backend: Backend):
    """Type, status, depth and time leave what they say, the excluded first moment included out."""
    clock = Clock()
    async with backend.open_async(now_ms=clock) as maestro:
        first = await maestro.work.start("work_track")
        clock.advance(seconds=60)
        second = await maestro.work.start("work_task", parent=first.session_id)
        clock.advance(seconds=60)
        third = await maestro.work.end(second.session_id, "failed")

        async def ids(**filters):
            return [one.session_id for one in await maestro.work.list(Filters(**filters))]

        assert await ids() == [third.session_id, first.session_id]
        assert await ids(session_type="work_track") == [first.session_id]
        assert await ids(status="failed") == [second.session_id]
        assert await ids(depth=1) == [second.session_id]
        start = clock.now_ms - 60_000  # the parent was last changed when its child was started
        assert await ids(since_ms=start) == [second.session_id]
        assert await ids(until_ms=start) == [first.session_id]


async def test_one_life_for_all_keys(backend: Backend):
    """Activity renews every key of a work session together; after its life it refuses changes and is still read."""
    clock = Clock()
    settings = {"ttl_seconds": 100, "dirty_grace_seconds": 1000}
    async with backend.open_async(now_ms=clock, **settings) as maestro:
        work_id = (await maestro.work.start("t")).session_id
        await maestro.work.add_breadcrumb(work_id, crumb("1"))
        await maestro.work.consume(work_id)
        clock.advance(seconds=50)
        await maestro.work.add_breadcrumb(work_id, crumb("2"))
        keys = [key for key in maestro.server.terms.keys.work(work_id) if backend.raw.exists(key)]
        assert len(keys) == 5
        assert len({backend.raw.pexpiretime(key) for key in keys}) == 1
        assert backend.raw.pttl(keys[0]) > 1_000_000
        clock.advance(seconds=100)
        with pytest.raises(WorkSessionClosed):
            await maestro.work.add_breadcrumb(work_id, crumb("3"))
        outcome = await maestro.work.consume(work_id)
        assert outcome.applied == 1, "what was accepted in time is applied"


async def test_nothing_brings_a_vanished_work_session_back(backend: Backend):
    """After its keys are gone, no call writes a fragment of it."""
    async with backend.open_async() as maestro:
        work_id = (await maestro.work.start("t")).session_id
        keys = maestro.server.terms.keys.work(work_id)
        backend.raw.delete(*keys)
        for attempt in (
            maestro.work.end(work_id),
            maestro.work.add_breadcrumb(work_id, crumb("1")),
            maestro.work.start("t", parent=work_id),
        ):
            with pytest.raises(WorkSessionClosed):
                await attempt
        assert not backend.raw.exists(*keys)
        assert not (await maestro.work.read(work_id)).is_live


async def test_sweep_keeps_and_lets_go(backend: Backend):
    """What changed is written once; then its keys need no grace until it changes again; what is gone is forgotten."""
    clock = Clock()
    async with backend.open_async(now_ms=clock, ttl_seconds=100, dirty_grace_seconds=10_000) as maestro:
        work_id = (await maestro.work.start("t")).session_id
        gone = (await maestro.work.start("t")).session_id
        backend.raw.delete(*maestro.server.terms.keys.work(gone))
        await maestro.work.add_breadcrumb(work_id, crumb("1"))
        record = maestro.server.terms.keys.of_work(work_id, "session")
        assert await maestro.work.sweep() == [work_id]
        summaries = maestro.server.terms.keys.work_index[0]
        assert backend.raw.hkeys(summaries) == [work_id.encode()]
        assert len(list((backend.project / "docs/sessions" / work_id / "breadcrumbs/0").iterdir())) == 1
        assert backend.raw.pttl(record) <= 100_000
        assert await maestro.work.sweep() == []
        await maestro.work.add_breadcrumb(work_id, crumb("2"))
        assert backend.raw.pttl(record) > 1_000_000
        assert await maestro.work.sweep() == [work_id]
        await maestro.work.sweep()
        backend.raw.delete(*maestro.server.terms.keys.work(work_id))  # as its time does
        deadlines = maestro.server.terms.keys.work_index[2]
        backend.raw.zadd(deadlines, {work_id: 1})  # by the server's clock, which no test moves
        assert await maestro.work.sweep() == []
        assert backend.raw.hkeys(summaries) == []
        assert [one.session_id for one in await maestro.work.list() if one.session_id == work_id], "the disk has it"
