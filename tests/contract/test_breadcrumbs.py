"""What breadcrumbs promise, on every server: accepted once, applied once, in order, counted exactly."""

from __future__ import annotations

import asyncio
import json

import pytest

from maestro_state.errors import InvalidValue, WorkSessionNotFound
from maestro_state.models.run import Flags, Run, Usage
from maestro_state.models.work import Breadcrumb, TokenCount, breadcrumb_of
from maestro_state.models.work_names import stamp_ms
from maestro_state.work.tree import Filters
from tests.support.backends import Backend
from tests.support.work_samples import STAMP, crumb, post


async def log_of(maestro, work_id):
    """Return the ids that were applied, in the order of the log."""
    from maestro_state.state.calls.breadcrumbs import read_log

    entries = await maestro.server.fetch(read_log(maestro.server.terms, work_id, None))
    return [entry.data["breadcrumb_id"] for entry in entries if entry.type == "breadcrumb.applied"]


async def test_accepted_then_applied(backend: Backend):
    """A breadcrumb is shown at once, counted and logged when it is applied, and comes back as it was left."""
    async with backend.open_async() as maestro:
        work_id = (await maestro.work.start("t")).session_id
        left = [
            crumb(
                "one",
                tools_called=[{"tool": "sh", "args": {}, "result": [], "error": None}],
                files_modified=[{"path": "a.py", "operation": "create", "diff": "", "size": 3}],
                cost=0.1,
            ),
            crumb("two", cost=0.2, cost_estimated=True, error="boom", prompt="\0\x1b é 😀"),
        ]
        for one in left:
            await maestro.work.add_breadcrumb(work_id, one)
        found = await maestro.work.breadcrumbs(work_id)
        assert [one.breadcrumb for one in found] == left
        assert [one.applied for one in found] == [False, False]
        assert (await maestro.work.stats(work_id)).breadcrumbs == 0
        assert [one.type for one in await maestro.work.timeline(work_id)] == ["session.started"]

        assert (await maestro.work.consume(work_id)).applied == 2
        assert [one.applied for one in await maestro.work.breadcrumbs(work_id)] == [True, True]
        assert await log_of(maestro, work_id) == ["one", "two"]
        stats = await maestro.work.stats(work_id)
        assert (stats.sessions, stats.breadcrumbs, stats.tokens) == (1, 2, {"input": 6, "output": 4})
        assert (stats.cost, stats.files_modified, stats.errors) == (pytest.approx(0.3, abs=1e-12), 1, 1)
        assert stats.by_model == {"opus": {"breadcrumbs": 2, "tokens": {"input": 6, "output": 4}, "cost": 0.3}}
        assert (stats.by_tool, stats.by_depth, stats.by_day) == ({"sh": 1}, {"0": 2}, {"20261116": 2})
        assert stats.cost_detail == {"known": 0.1, "estimated": 0.2, "unknown": 0}
        assert (await maestro.work.consume(work_id)).applied == 0


async def test_the_same_id_twice_is_once(backend: Backend):
    """A repeated breadcrumb_id changes nothing, also after it was applied and after the end, and says its entry."""
    async with backend.open_async() as maestro:
        work_id = (await maestro.work.start("t")).session_id
        first = await maestro.work.add_breadcrumb(work_id, crumb("x"))
        again = await asyncio.gather(*(maestro.work.add_breadcrumb(work_id, crumb("x")) for _ in range(10)))
        await maestro.work.consume(work_id)
        await maestro.work.add_breadcrumb(work_id, crumb("x", prompt="other"))
        await maestro.work.end(work_id)
        late = await maestro.work.add_breadcrumb(work_id, crumb("x"))
        assert {one.entry_id for one in (*again, late)} == {first.entry_id}
        assert (await maestro.work.consume(work_id)).applied == 0
        assert [one.breadcrumb for one in await maestro.work.breadcrumbs(work_id)] == [crumb("x")]


async def test_an_unknown_cookie_creates_nothing(backend: Backend):
    """A breadcrumb for a work session that is not there fails at once."""
    async with backend.open_async() as maestro:
        with pytest.raises(WorkSessionNotFound):
            await maestro.work.add_breadcrumb("00000000-0000-4000-8000-000000000000", crumb("x"))
        assert backend.raw.dbsize() == 0
        assert not (backend.project / "docs").exists()


@pytest.mark.parametrize(
    "wrong",
    [
        {"breadcrumb_id": ""},
        {"breadcrumb_id": "with space"},
        {"breadcrumb_id": "x" * 129},
        {"timestamp": "yesterday"},
        {"timestamp": "20261316_250000_000000"},
        {"depth_level": -1},
        {"depth_level": 101},
        {"depth_level": "1"},
        {"token_count": {"input": -1}},
        {"token_count": {"input": 10**10}},
        {"cost": -0.5},
        {"cost": 1e9},
        {"tools_called": [{"args": {}}]},
        {"tools_called": ["sh"]},
        {"files_modified": [{"operation": "modify"}]},
        {"files_modified": [{"path": "a", "operation": "burn"}]},
        {"prompt": 3},
        {"model_used": "m" * 201},
        {"prompt": "\ud800"},
        {"response": "x" * 2000},
    ],
)
async def test_what_is_no_breadcrumb_is_refused(backend: Backend, wrong: dict[str, object]):
    """A wrong type, range, size or encoding adds nothing."""
    async with backend.open_async(max_blob_bytes=1500) as maestro:
        work_id = (await maestro.work.start("t")).session_id
        document = {"timestamp": STAMP, "breadcrumb_id": "b", **wrong}
        with pytest.raises(InvalidValue):
            await maestro.work.add_breadcrumb(work_id, breadcrumb_of(document))
        assert await maestro.work.breadcrumbs(work_id) == []


async def test_two_at_the_same_microsecond_both_stay(backend: Backend):
    """On disk the second one gets a number behind its time; a checkpoint that is repeated adds nothing."""
    async with backend.open_async() as maestro:
        work_id = (await maestro.work.start("t")).session_id
        for name in ("a", "b", "c"):
            await maestro.work.add_breadcrumb(work_id, crumb(name))
        folder = backend.project / "docs/sessions" / work_id
        await maestro.work.checkpoint(work_id)
        (folder / ".written").unlink()  # as if it had been killed before its last step
        await maestro.work.checkpoint(work_id)
        files = {path.name: json.loads(path.read_text()) for path in (folder / "breadcrumbs/0").iterdir()}
        assert set(files) == {f"{STAMP}.json", f"{STAMP}-2.json", f"{STAMP}-3.json"}
        assert {one["breadcrumb_id"] for one in files.values()} == {"a", "b", "c"}
        assert list(files[f"{STAMP}.json"]) == [
            name for name in Breadcrumb.__struct_fields__ if name != "cost_estimated"
        ]


async def test_statistics_of_a_tree_count_each_breadcrumb_once(backend: Backend):
    """A parent's statistics are its own and those of all under it; filters pick sessions, depths and times."""
    async with backend.open_async() as maestro:
        top = (await maestro.work.start("track")).session_id
        child = (await maestro.work.start("task", parent=top)).session_id
        leaf = (await maestro.work.start("task", parent=child)).session_id
        for depth, work_id in enumerate((top, child, leaf)):
            for number in range(depth + 1):
                stamp = f"20261116_0{depth}000{number}_000000"
                one = crumb(f"{depth}-{number}", depth_level=depth, cost=1.5, timestamp=stamp)
                await maestro.work.add_breadcrumb(work_id, one)
        assert (await maestro.work.consume(top)).applied == 6
        whole = await maestro.work.stats(top)
        assert (whole.sessions, whole.breadcrumbs, whole.cost) == (3, 6, 9.0)
        assert whole.by_depth == {"0": 1, "1": 2, "2": 3}
        assert (await maestro.work.stats(child)).breadcrumbs == 5
        assert (await maestro.work.stats(top, Filters(session_type="task"))).breadcrumbs == 5
        assert (await maestro.work.stats(top, Filters(depth=2))).breadcrumbs == 3
        cut = stamp_ms("20261116_010000_000000")
        assert (await maestro.work.stats(top, Filters(since_ms=cut))).breadcrumbs == 4
        assert (await maestro.work.stats(top, Filters(until_ms=cut))).breadcrumbs == 2
        # what the server keeps is what counting the files gives
        backend.raw.flushall()
        assert await maestro.work.stats(top) == whole
        found = await maestro.work.breadcrumbs(top, with_children=True)
        assert len(found) == 6
        kinds = [one.type for one in await maestro.work.timeline(top)]
        assert kinds.count("breadcrumb.applied") == 6


async def test_the_mailbox(backend: Backend):
    """Files are taken once, across renames and restarts; a second file with the same id is a duplicate."""
    async with backend.open_async() as maestro:
        work_id = (await maestro.work.start("t")).session_id
        child = (await maestro.work.start("t", parent=work_id)).session_id
        first = post(backend.project, (work_id,), "20261116_000001_000000", {"breadcrumb_id": "a", "prompt": "p"})
        post(backend.project, (work_id,), "20261116_000000_000000", {"prompt": "no id"}, depth=3)
        post(backend.project, (work_id, child), "20261116_000002_000000", {"breadcrumb_id": "c"}, depth=1)
        post(backend.project, (work_id,), ".hidden", b"{")
        assert (await maestro.work.consume(work_id)).applied == 3
        found = [one.breadcrumb for one in await maestro.work.breadcrumbs(work_id)]
        assert [one.depth_level for one in found] == [3, 0], "by time, over all depths"
        outcome = await maestro.work.consume(work_id)
        assert (outcome.applied, outcome.duplicates, outcome.rejected) == (0, 0, [])
        first.rename(first.with_name("20261116_000009_000000.json"))
        post(backend.project, (work_id,), "20261116_000000_000000", {"prompt": "no id"}, depth=4)
        outcome = await maestro.work.consume(work_id)
        assert (outcome.applied, outcome.duplicates, outcome.rejected) == (0, 2, [])
        assert len(await maestro.work.breadcrumbs(work_id, with_children=True)) == 3


async def test_a_letter_left_before_the_end_is_taken_after_it(backend: Backend):
    """What lay in the mailbox when the work session ended is still applied."""
    async with backend.open_async() as maestro:
        work_id = (await maestro.work.start("t")).session_id
        post(backend.project, (work_id,), STAMP, {"breadcrumb_id": "a"})
        await maestro.work.end(work_id)
        assert (await maestro.work.consume(work_id)).applied == 1


async def test_a_run_leaves_one_breadcrumb(backend: Backend):
    """The same run leaves the same breadcrumb, at the depth of its work session, with what it used."""
    run = Run(
        id="0003",
        tool="claude",
        prompt_source="cli",
        flags=Flags(dry_run=False, confirm=False),
        status="error",
        created_at="2026-11-16T09:00:00.000+00:00",
        finished_at="2026-11-16T09:00:05.250+00:00",
        context_refs=[],
        context_version=[],
        error="exit 1",
        usage=Usage(model="opus", tokens_input=10, tokens_output=5, cost=0.5),
    )
    async with backend.open_async() as maestro:
        top = (await maestro.work.start("t")).session_id
        child = (await maestro.work.start("t", parent=top)).session_id
        for _ in range(3):
            await maestro.work.add_run_breadcrumb(child, run, "ask", "answer", session_id="fix--abcdef")
        await maestro.work.add_run_breadcrumb(child, run, "ask", "answer", session_id="fix--ghijkl")
        one, other = [found.breadcrumb for found in await maestro.work.breadcrumbs(child)]
        assert (one.timestamp, one.depth_level, one.model_used) == ("20261116_090005_250000", 1, "opus")
        assert (one.token_count, one.cost, one.error) == (TokenCount(10, 5), 0.5, "exit 1")
        assert one.breadcrumb_id != other.breadcrumb_id


async def test_following_shows_what_any_consumer_applies(backend: Backend):
    """A follower yields every breadcrumb once, in the log's order, whoever applied it, and leaves at the end."""
    async with backend.open_async() as maestro, backend.open_async() as other:
        work_id = (await maestro.work.start("t")).session_id

        seen, is_watching = [], asyncio.Event()

        async def watch():
            async for one in maestro.work.follow(work_id):
                seen.append(one.summary)
                is_watching.set()

        watching = asyncio.create_task(watch())
        await other.work.add_breadcrumb(work_id, crumb("0", prompt="n0", model_used=""))
        await asyncio.wait_for(is_watching.wait(), 20)
        for number in range(1, 20):
            await other.work.add_breadcrumb(work_id, crumb(f"{number}", prompt=f"n{number}", model_used=""))
            if number % 3 == 0:
                await other.work.consume(work_id)
        await other.work.end(work_id)
        await asyncio.wait_for(watching, 20)
        words = [one.split(" ")[0] for one in seen]
        assert [word for word in words if word != "completed"] == [f"n{number}" for number in range(20)]
        assert words.count("completed") == 1


async def test_checkpoints_at_the_same_time_in_one_process_do_not_wait_for_each_other(backend: Backend):
    """Tasks of one program that write the same folder all come to an end, and each breadcrumb has one file."""
    async with backend.open_async() as maestro, backend.open_async() as other:
        work_id = (await maestro.work.start("t")).session_id
        for number in range(30):
            await maestro.work.add_breadcrumb(work_id, crumb(str(number)))
        both = (one.work.checkpoint(work_id) for one in (maestro, other) for _ in range(5))
        await asyncio.wait_for(asyncio.gather(*both), 30)
        folder = backend.project / "docs/sessions" / work_id / "breadcrumbs/0"
        assert len(list(folder.iterdir())) == 30
