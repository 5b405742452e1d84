"""How many runs of a session, and of a user, may be open at once."""

from __future__ import annotations

import pytest

from maestro_state.errors import OverBudget, TooManyRuns
from tests.support.backends import Backend, Clock


async def test_only_so_many_runs_of_a_session_are_open(backend: Backend):
    """One more is refused with those that are; when one has ended, the next is taken."""
    async with backend.open_async(user="ana", runs_per_session=2) as maestro:
        session = await maestro.sessions.start("one")
        await maestro.runs.start("p", session.id, tool="echo")
        await maestro.runs.start("p", session.id, tool="echo")
        with pytest.raises(TooManyRuns, match=r"at most 2 runs of one session.* has 2: 0001, 0002"):
            await maestro.runs.start("p", session.id, tool="echo")
        assert (await maestro.runs.start("p", session.id, tool="echo", dry=True)).status == "dry"
        other = await maestro.sessions.start("two")
        await maestro.runs.start("p", other.id, tool="echo")
        await maestro.runs.cancel("0001", session.id)
        assert (await maestro.runs.start("p", session.id, tool="echo")).status == "pending"


async def test_only_so_many_runs_of_a_user_are_open(backend: Backend):
    """In whatever sessions; others are not kept out; a repeat of one that is open is the first one."""
    async with (
        backend.open_async(user="ana", runs_per_user=2) as ana,
        backend.open_async(user="ben", runs_per_user=2) as ben,
    ):
        one, two = await ana.sessions.start("one"), await ana.sessions.start("two")
        first = await ana.runs.start("p", one.id, tool="echo", idempotency_key="k1")
        await ana.runs.start("p", two.id, tool="echo")
        with pytest.raises(TooManyRuns, match=rf"ana has 2 open already \({one.id}/0001, {two.id}/0001\)") as refused:
            await ana.runs.start("p", two.id, tool="echo")
        assert f"maestro --session {one.id} wait 0001" in (refused.value.hint or "")
        assert (await ana.runs.start("p", one.id, tool="echo", idempotency_key="k1")).id == first.id
        assert (await ben.runs.start("p", one.id, tool="echo")).status == "pending"
        await ana.runs.cancel(first.id, one.id)
        assert (await ana.runs.start("p", two.id, tool="echo")).status == "pending"
        with pytest.raises(TooManyRuns):
            await ana.runs.start("p", two.id, tool="echo")


async def test_who_was_killed_on_the_way_keeps_nobody_out(backend: Backend):
    """A seat without a run goes after a minute; one whose start was refused, at once."""
    clock = Clock()
    async with backend.open_async(now_ms=clock, user="ana", runs_per_user=1) as maestro:
        session = await maestro.sessions.start("one")
        await maestro.ledger.take_seat(1)  # and nothing more is heard of it
        with pytest.raises(TooManyRuns, match="being asked for just now"):
            await maestro.runs.start("p", session.id, tool="echo")
        clock.advance(seconds=61)
        await maestro.budgets.set(user="ana", tokens=0)
        for _ in range(2):
            with pytest.raises(OverBudget):
                await maestro.runs.start("p", session.id, tool="echo")
        await maestro.budgets.remove(user="ana")
        assert (await maestro.runs.start("p", session.id, tool="echo")).status == "pending"
