"""What runs consumed, added up over live and archived sessions, on every server."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from maestro_state import AsyncMaestro
from maestro_state.errors import InvalidValue
from maestro_state.models.run import Usage
from maestro_state.state.calls.claims import Ended
from tests.support.backends import Backend, Clock

DAY_S = 24 * 3600


async def spend(maestro: AsyncMaestro, session_id: str, usage: Usage | None, tool: str = "echo") -> None:
    """Carry a run out that consumes something."""
    run = await maestro.runs.start("p", session_id, tool=tool)
    claim = await maestro.claims.claim(session_id, run.id, "owner")
    await maestro.claims.finish(claim, Ended(status="success", usage=usage))


async def spent(maestro: AsyncMaestro, clock: Clock) -> dict[str, str]:
    """Spend in a session that is archived, one that is live, and one that is both; return their ids."""
    first = await maestro.sessions.start("first")
    await spend(maestro, first.id, Usage(model="opus", tokens_input=100, tokens_output=10, cost=0.1))
    await spend(maestro, first.id, Usage(model="opus", tokens_input=200, tokens_output=20, cost=0.2), "cat")
    await maestro.sessions.end(first.id)
    clock.advance(seconds=2 * DAY_S)
    second = await maestro.sessions.start("second")
    await spend(maestro, second.id, Usage(model="mini", tokens_input=1, tokens_output=2))
    await spend(maestro, second.id, None)
    await maestro.runs.start("p", second.id, tool="echo", dry=True)
    await maestro.archive.checkpoint(second.id)  # on disk as well: counted once all the same
    return {"first": first.id, "second": second.id}


async def test_each_run_counts_once_by_whatever_it_is_added_up(backend: Backend):
    """Live, archived, and both: sums by day, tool, model, session and user are the same runs."""
    clock = Clock()
    async with backend.open_async(now_ms=clock, user="ana") as maestro:
        ids = await spent(maestro, clock)
        await maestro.archive.sweep()  # the ended one is let go: only the disk has it
        by = {name: await maestro.usage(by=name) for name in ("day", "tool", "model", "session", "user")}

    for report in by.values():
        total = report.total
        assert (total.runs, total.tokens_input, total.tokens_output, total.cost) == (4, 301, 32, 0.3)
        assert total.runs_without_cost == 2
        assert sum(row.runs for row in report.rows) == 4
        assert sum(row.cost for row in report.rows) == pytest.approx(0.3)
    assert [(row.runs, row.cost) for row in by["day"].rows] == [(2, 0.3), (2, 0.0)]
    assert sorted(row.key for row in by["day"].rows) == [row.key for row in by["day"].rows]
    assert {row.key: row.runs for row in by["tool"].rows} == {"cat": 1, "echo": 3}
    assert [row.key for row in by["model"].rows] == ["opus", "mini", "unknown"]
    assert {row.key: row.tokens_input for row in by["session"].rows} == {ids["first"]: 300, ids["second"]: 1}
    assert [row.key for row in by["user"].rows] == ["ana"]


async def test_since_leaves_out_what_was_asked_for_before(backend: Backend):
    """How long ago, or a date; what is neither is refused, as is anything else to add up by."""
    clock = Clock()
    async with backend.open_async(now_ms=clock) as maestro:
        await spent(maestro, clock)
        assert (await maestro.usage(since="24h")).total.runs == 2
        assert (await maestro.usage(since="30d")).total.runs == 4
        assert (await maestro.usage(since="2020-01-01")).total.runs == 4
        assert (await maestro.usage(since="2099-01-01")).rows == []
        for wrong in ({"since": "soon"}, {"by": "weather"}):
            with pytest.raises(InvalidValue):
                await maestro.usage(**wrong)


def test_the_sync_shell_tells_the_same(backend: Backend):
    """Nothing consumed is no rows and sums of nothing."""
    with backend.open() as maestro:
        maestro.sessions.start("empty")
        report = maestro.usage(by="tool")
        assert (report.by, report.rows, report.total.runs, report.total.cost) == ("tool", [], 0, 0)


async def test_what_cannot_be_read_is_named_and_the_rest_counted(backend: Backend):
    """Archives of other programs count without figures, damaged ones by what is left, none stops the others."""
    clock = Clock()
    async with backend.open_async(now_ms=clock) as maestro:
        await spent(maestro, clock)
        sessions = Path(backend.project) / ".maestro" / "sessions"
        for name, record in (("other--abc123", {"id": "other--abc123", "state": "com_saida"}), ("bad--abc123", None)):
            run = sessions / name / "runs" / "0001"
            run.mkdir(parents=True)
            (run / "meta.json").write_text(json.dumps({"tool": "sh -c x", "status": "success", "created_at": "never"}))
            (run / "prompt.txt").write_text("\n  what it was asked\n" + "x" * 10_000)
            text = "no json" if record is None else json.dumps(record)
            (sessions / name / "session.json").write_text(text)
        damaged = sessions / "odd--abc123"
        os.mkdir(damaged)
        os.symlink("/dev/zero", damaged / "maestro.json")
        report = await maestro.usage(by="tool")
        assert {row.key: row.runs for row in report.rows} == {"cat": 1, "echo": 3, "sh -c x": 1}
        assert report.skipped == ["bad--abc123", "odd--abc123"]
        assert (await maestro.runs.list("other--abc123"))[0].prompt_preview == "what it was asked"


async def test_a_damaged_run_on_the_server_stops_nobody(backend: Backend):
    """The session is named, the runs of others are counted."""
    clock = Clock()
    async with backend.open_async(now_ms=clock) as maestro:
        ids = await spent(maestro, clock)
        key = maestro.server.terms.keys.of_session(ids["second"], "runs")
        backend.raw.hset(key, "0001", b"{}")
        report = await maestro.usage(by="session")
        assert report.skipped == [ids["second"]]
        assert report.total.runs == 2


async def test_runs_of_another_type_stop_nobody(backend: Backend):
    """A stranger's key in the place of a session's runs: that session is named, the others are counted."""
    async with backend.open_async() as maestro:
        await spend(maestro, (await maestro.sessions.start("well")).id, Usage(tokens_input=7))
        damaged = (await maestro.sessions.start("damaged")).id
        key = maestro.server.terms.keys.of_session(damaged, "runs")
        backend.raw.set(key, "x")
        report = await maestro.usage(by="session")
        backend.raw.delete(key)
    assert report.skipped == [damaged]
    assert (report.total.runs, report.total.tokens_input) == (1, 7)
