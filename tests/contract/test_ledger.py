"""What runs consume is charged and counted once, budgets and limits hold, on every server."""

from __future__ import annotations

import pytest

from maestro_state import AsyncMaestro
from maestro_state.errors import InvalidValue, NotFound, OverBudget, Refused
from maestro_state.models.claim import Claim, Ended
from maestro_state.models.ledger import BudgetName, Over
from maestro_state.models.run import Usage
from tests.support.backends import Backend, Clock

DAY_S = 24 * 3600
USAGE = Usage(
    tokens_input=100, tokens_output=20, tokens_cache_read=60, tokens_cache_write=5, tokens_reasoning=8, cost=0.25
)


async def begun(maestro: AsyncMaestro, session_id: str, tool: str = "echo") -> Claim:
    """Ask for a run, claim it as a worker does, and put it down as begun."""
    run = await maestro.runs.start("p", session_id, tool=tool)
    claim = await maestro.claims.claim(session_id, run.id, f"owner-{run.id}")
    assert await maestro.ledger.begin(session_id, claim.run) is None
    return claim


async def done(maestro: AsyncMaestro, session_id: str, usage: Usage | None = USAGE, tool: str = "echo") -> Claim:
    """Carry a run out and count it."""
    claim = await begun(maestro, session_id, tool)
    await maestro.claims.finish(claim, Ended(status="success", usage=usage))
    await maestro.ledger.count(session_id, claim.run.id)
    return claim


async def test_a_run_is_counted_once(backend: Backend):
    """By whoever comes, as often as they come: by tool, outcome, time, kind of token and cost."""
    clock = Clock()
    async with backend.open_async(now_ms=clock, user="ana") as maestro:
        session = await maestro.sessions.start("one")
        run = await maestro.runs.start("p", session.id, tool="echo")
        clock.advance(seconds=2)
        claim = await maestro.claims.claim(session.id, run.id, "owner")
        await maestro.ledger.begin(session.id, claim.run)
        assert await maestro.ledger.count(session.id, run.id) is None, "it is not over"
        clock.advance(seconds=7)
        await maestro.claims.finish(claim, Ended(status="success", usage=USAGE))
        first = await maestro.ledger.count(session.id, run.id)
        again = [await maestro.ledger.count(session.id, run.id), *(await maestro.ledger.count_rest())]
        counters = await maestro.ledger.counters()
    assert first is not None
    assert (first.tool, first.status, first.seconds, first.waited) == ("echo", "success", 7.0, 2.0)
    assert again == [None]
    assert counters == {
        "runs|echo|success": 1, "run_seconds|echo|10": 1, "run_seconds_sum|echo": 7000,
        "wait_seconds||2.5": 1, "wait_seconds_sum|": 2000, "cost|echo": 250_000_000,
        "tokens|echo|input": 35, "tokens|echo|cache_read": 60, "tokens|echo|cache_write": 5,
        "tokens|echo|output": 12, "tokens|echo|reasoning": 8,
    }  # fmt: skip


async def test_what_nobody_counted_the_sweep_counts(backend: Backend):
    """A worker that is killed between a run's end and counting it leaves a run that is counted all the same."""
    async with backend.open_async(user="ana") as maestro:
        session = await maestro.sessions.start("one")
        claim = await begun(maestro, session.id)
        await maestro.claims.finish(claim, Ended(status="error", usage=USAGE))
        going_on = await begun(maestro, session.id)
        assert "runs|echo|error" not in await maestro.ledger.counters(), "the control: nobody counted it"
        await maestro.sweep()
        await maestro.sweep()
        counters = await maestro.ledger.counters()
        assert counters["runs|echo|error"] == 1
        assert counters["cost|echo"] == 250_000_000
        assert "runs|echo|success" not in counters, "the other one is not over"
        await maestro.claims.finish(going_on, Ended(status="success"))
        await maestro.sweep()
        assert (await maestro.ledger.counters())["runs|echo|success"] == 1


async def test_what_earlier_attempts_consumed_stays_charged(backend: Backend):
    """A run whose worker is lost again and again uses up a budget as any other; beginning twice adds nothing."""
    clock = Clock()
    async with backend.open_async(now_ms=clock, user="ana") as maestro:
        session = await maestro.sessions.start("one")
        await maestro.budgets.set(user="ana", tokens=100)
        claim = await begun(maestro, session.id)

        async def spent() -> float:
            return (await maestro.budgets.list())[0].spent

        assert await maestro.ledger.charge(session.id, claim.run, Usage(tokens_output=30, cost=0.1)) is None
        for _ in range(2):
            assert await maestro.ledger.begin(session.id, claim.run) is None
        assert await spent() == 30
        assert await maestro.ledger.charge(session.id, claim.run, Usage(tokens_output=10)) is None
        assert await maestro.ledger.charge(session.id, claim.run, Usage(tokens_output=40)) is None
        assert await spent() == 70, "of one attempt it is what was told last"
        clock.advance(seconds=DAY_S)
        await maestro.ledger.begin(session.id, claim.run)
        assert await spent() == 0, "a new day"
        await maestro.claims.finish(claim, Ended(status="success", usage=Usage(tokens_output=5, cost=0.2)))
        for _ in range(2):
            await maestro.ledger.count(session.id, claim.run.id)
        assert await spent() == 5
        await maestro.budgets.set(session=session.id, tokens=1000)
        await maestro.budgets.set(session=session.id, cost=1)
        assert [row.spent for row in await maestro.budgets.list() if row.scope == "session"] == [pytest.approx(0.3), 75]
        assert not backend.raw.exists(maestro.server.terms.keys.ledger()[2]), "nothing of it is open any more"


async def test_a_run_that_was_counted_is_charged_all_the_same(backend: Backend):
    """A record is its session's: who has a run carried out again, or calls it over for a moment, pays for what it
    consumes from then on, and is stopped; it is counted once.
    """
    clock = Clock()
    async with backend.open_async(now_ms=clock, user="ana") as maestro:
        session = await maestro.sessions.start("one")
        await maestro.budgets.set(user="ana", cost=1)
        first = await done(maestro, session.id, Usage(cost=0.4, tokens_output=10))
        runs = maestro.server.terms.keys.of_session(session.id, "runs")

        async def spent() -> float:
            return (await maestro.budgets.list())[0].spent

        # Once more: as if its record said that it waits.
        backend.raw.hset(runs, f"{first.run.id}:status", "pending")
        record = maestro.server.terms.keys.of_session(session.id, "session")
        backend.raw.hset(record, mapping={"state": "executando", "open_runs": first.run.id})
        again = await maestro.claims.claim(session.id, first.run.id, "somebody else")
        assert await maestro.ledger.begin(session.id, again.run) is None
        assert await maestro.ledger.charge(session.id, again.run, Usage(cost=0.3)) is None
        assert await maestro.ledger.charge(session.id, again.run, Usage(cost=0.5, tokens_output=1)) is None
        assert await spent() == pytest.approx(0.9)
        used_up = Over(BudgetName("user", "day", "cost", "ana"), 10**9, 10**9)
        assert await maestro.ledger.charge(session.id, again.run, Usage(cost=0.6)) is None, "all of it, and no more"
        assert await maestro.ledger.begin(session.id, again.run) == used_up

        # While it goes on: whoever looks in that moment counts it.
        await maestro.budgets.set(user="ana", cost=3)
        claim = await begun(maestro, session.id)
        await maestro.ledger.charge(session.id, claim.run, Usage(cost=0.5))
        backend.raw.hset(runs, f"{claim.run.id}:status", "success")
        assert await maestro.ledger.count(session.id, claim.run.id) is not None
        backend.raw.hset(runs, f"{claim.run.id}:status", "running")
        assert await maestro.ledger.charge(session.id, claim.run, Usage(cost=1.5)) is None
        assert await spent() == pytest.approx(2.5)
        assert await maestro.ledger.charge(session.id, claim.run, Usage(cost=2.5)) is not None
        await maestro.claims.finish(claim, Ended(status="success", usage=Usage(cost=2.5)))
        assert await maestro.ledger.count(session.id, claim.run.id) is None
        assert await spent() == pytest.approx(3.5)
        assert (await maestro.ledger.counters())["runs|echo|success"] == 2

        # What is known of it goes with the knowledge that it was counted.
        attempts = maestro.server.terms.keys.ledger()[3]
        assert backend.raw.hlen(attempts) == 2
        clock.advance(seconds=9 * DAY_S)
        await done(maestro, (await maestro.sessions.start("two")).id)
        assert backend.raw.hlen(attempts) == 1


async def test_a_command_line_is_counted_as_other(backend: Backend):
    """A label is a name of the catalogue, or `other`; dry runs and runs that nobody began are what they are."""
    async with backend.open_async() as maestro:
        session = await maestro.sessions.start("one")
        await done(maestro, session.id, None, tool="cat -n")
        dry = await maestro.runs.start("p", session.id, tool="echo", dry=True)
        await maestro.ledger.count(session.id, dry.id)
        waiting = await maestro.runs.start("p", session.id, tool="echo")
        await maestro.runs.cancel(waiting.id, session.id)
        await maestro.ledger.count(session.id, waiting.id)
        counters = await maestro.ledger.counters()
    runs = {name: count for name, count in counters.items() if name.startswith("runs|")}
    assert runs == {"runs|other|success": 1, "runs|echo|canceled": 1}
    assert [name for name in counters if name.startswith("run_seconds|echo")] == []


async def test_a_budget_that_is_used_up_refuses_the_next_run(backend: Backend):
    """Of a user, a session, or everybody; of a day or in all; with the sum; and nothing is recorded."""
    clock = Clock()
    async with backend.open_async(now_ms=clock, user="ana") as maestro:
        session = await maestro.sessions.start("one")
        other = await maestro.sessions.start("two")
        await maestro.budgets.set(user="ana", cost=0.5)
        await maestro.budgets.set(session=session.id, tokens=120)
        await done(maestro, session.id)
        with pytest.raises(OverBudget, match=rf"session {session.id} is used up: 120 tokens of 120 tokens"):
            await maestro.runs.start("p", session.id, tool="echo")
        assert [run.id for run in await maestro.runs.list(session.id)] == ["0001"]
        assert (await maestro.runs.start("p", session.id, tool="echo", dry=True)).status == "dry"
        await done(maestro, other.id)
        with pytest.raises(OverBudget, match=r"the budget of ana for today is used up: \$0.50 of \$0.50"):
            await maestro.runs.start("p", other.id, tool="echo")
        clock.advance(seconds=DAY_S)
        await done(maestro, other.id)
        await maestro.budgets.set(everyone=True, period="total", cost=0.75)
        with pytest.raises(OverBudget, match=r"everybody's budget is used up: \$0.75 of \$0.75") as refused:
            await maestro.runs.start("p", other.id, tool="echo")
        assert refused.value.exit_code == 4
        assert "maestro budget" in (refused.value.hint or "")
        rows = [(one.scope, one.name, one.period, one.spent, one.left) for one in await maestro.budgets.list()]
    assert rows == [
        ("everyone", "", "total", 0.75, 0.0),
        ("user", "ana", "day", 0.25, 0.25),
        ("session", session.id, "total", 120, 0),
    ]


async def test_a_budget_of_one_is_not_anothers(backend: Backend):
    """Ana's is used up; Ben's runs, and those of other sessions, go on."""
    async with backend.open_async(user="ana") as ana, backend.open_async(user="ben") as ben:
        session = await ana.sessions.start("one")
        await ana.budgets.set(user="ana", tokens=0)
        with pytest.raises(OverBudget):
            await ana.runs.start("p", session.id, tool="echo")
        assert (await ben.runs.start("p", session.id, tool="echo")).status == "pending"
        await ben.budgets.set(user="ana", tokens=1)
        assert (await ana.runs.start("p", session.id, tool="echo")).status == "pending"
        assert [(one.limit, one.set_by) for one in await ana.budgets.list()] == [(1, "ben")]


async def test_a_repeat_gets_its_run_whatever_was_consumed_since(backend: Backend):
    """The key of a run that was asked for before is answered with that run; another key is refused."""
    async with backend.open_async(user="ana") as maestro:
        session = await maestro.sessions.start("one")
        first = await maestro.runs.start("p", session.id, tool="echo", idempotency_key="k1")
        await maestro.budgets.set(everyone=True, tokens=0)
        assert (await maestro.runs.start("p", session.id, tool="echo", idempotency_key="k1")).id == first.id
        with pytest.raises(OverBudget):
            await maestro.runs.start("p", session.id, tool="echo", idempotency_key="k2")


async def test_a_damaged_session_keeps_no_other_from_being_counted(backend: Backend):
    """Its run is passed over by the sweep; the others' runs are counted, and its seat is given up."""
    async with backend.open_async(user="ana", runs_per_user=2) as maestro:
        bad, good = await maestro.sessions.start("bad"), await maestro.sessions.start("good")
        claims = [await begun(maestro, session.id) for session in (bad, good)]
        key = maestro.server.terms.keys.of_session(bad.id, "runs")
        backend.raw.delete(key)
        backend.raw.set(key, "x", ex=1000)
        assert (await maestro.runs.start("p", good.id, tool="echo")).status == "pending"
        await maestro.claims.finish(claims[1], Ended(status="success"))
        await maestro.sweep()
        assert (await maestro.ledger.counters())["runs|echo|success"] == 1
        backend.raw.delete(*maestro.server.terms.keys.session(bad.id))


async def test_what_running_runs_consume_counts_at_once(backend: Backend):
    """Charges replace each other, those of several runs add up, and the one that goes beyond is told."""
    async with backend.open_async(user="ana") as maestro:
        session = await maestro.sessions.start("one")
        await maestro.budgets.set(user="ana", tokens=100)
        first, second = await begun(maestro, session.id), await begun(maestro, session.id)
        charge = maestro.ledger.charge
        assert await charge(session.id, first.run, Usage(tokens_input=60)) is None
        assert await charge(session.id, first.run, Usage(tokens_input=60)) is None, "not twice"
        assert await charge(session.id, second.run, Usage(tokens_input=40)) is None, "all of it, and no more"
        over = await charge(session.id, second.run, Usage(tokens_input=41))
        assert over == Over(BudgetName("user", "day", "tokens", "ana"), 101, 100)
        # What the tool tells at last counts: here, less than it had told before.
        await charge(session.id, second.run, Usage(tokens_input=10))
        await maestro.claims.finish(second, Ended(status="success", usage=Usage(tokens_input=10)))
        await maestro.ledger.count(session.id, second.run.id)
        assert [one.spent for one in await maestro.budgets.list()] == [70]


async def test_a_lost_run_keeps_what_it_had_consumed(backend: Backend):
    """Its worker is gone: the record tells what was told until then, and so does the ledger."""
    clock = Clock()
    async with backend.open_async(now_ms=clock, user="ana") as maestro:
        session = await maestro.sessions.start("one")
        claim = await begun(maestro, session.id)
        await maestro.claims.renew(claim, Usage(tokens_input=30, cost=0.1))
        for _ in range(3):
            clock.advance(seconds=10)
            await maestro.claims.recover()
        await maestro.ledger.count_rest()
        run = await maestro.runs.read(claim.run.id, session.id)
        assert (run.status, run.usage) == ("error", Usage(tokens_input=30, cost=0.1))
        counters = await maestro.ledger.counters()
    assert (counters["runs|echo|error"], counters["tokens|echo|input"]) == (1, 30)


async def test_budgets_are_listed_replaced_and_removed(backend: Backend):
    """One limit for each; what is not one is refused with what to say instead."""
    async with backend.open_async(user="ana") as maestro:
        session = await maestro.sessions.start("one")
        await maestro.budgets.set(user="ana", cost=1)
        changed = await maestro.budgets.set(user="ana", cost=2.5)
        assert (changed.limit, changed.period, changed.set_by) == (2.5, "day", "ana")
        await maestro.budgets.set(user="ana", period="total", tokens=10)
        await maestro.budgets.set(session="one", cost=1)
        assert len(await maestro.budgets.list()) == 3
        assert await maestro.budgets.remove(user="ana", unit="cost") == 1
        assert await maestro.budgets.remove(user="ana") == 1
        with pytest.raises(NotFound, match="ana is not there"):
            await maestro.budgets.remove(user="ana")
        await maestro.sessions.end(session.id)
        await maestro.sessions.delete(session.id)
        assert await maestro.budgets.remove(session=session.id) == 1
        assert await maestro.budgets.list() == []
        for wrong in (
            {"user": "ana"}, {"user": "ana", "cost": 1, "tokens": 1}, {"cost": 1}, {"user": "", "cost": 1},
            {"user": "ana", "everyone": True, "cost": 1}, {"user": "ana", "cost": -1}, {"user": "ana", "tokens": 0.5},
            {"user": "ana", "cost": float("nan")}, {"user": "ana", "cost": 1e9}, {"user": "a\nb", "cost": 1},
        ):  # fmt: skip
            with pytest.raises(InvalidValue):
                await maestro.budgets.set(**wrong)
        with pytest.raises(NotFound):
            await maestro.budgets.set(session="nobody", cost=1)
        assert await maestro.budgets.list() == []


async def test_states_are_counted_where_the_index_is(backend: Backend):
    """As sessions change and go; and of an index from before they were counted."""
    async with backend.open_async() as maestro:
        await maestro.sessions.start("one")
        two = await maestro.sessions.start("two")
        key = maestro.server.terms.keys.of_index("states", two.id)
        await maestro.context.add(b"a note", ref=two.id)
        assert await states(maestro) == {"iniciada": 1, "com_contexto": 1}
        backend.raw.delete(key)
        await maestro.sessions.end(two.id)
        assert await states(maestro) == {"iniciada": 1, "finalizada": 1}
        await maestro.sessions.delete(two.id)
        assert await states(maestro) == {"iniciada": 1}
        backend.raw.hset(key, "executando", 3)  # as a program that does not count leaves it
        assert await states(maestro) != {"iniciada": 1}
        await maestro.health.repair()
        assert await states(maestro) == {"iniciada": 1}


async def states(maestro: AsyncMaestro) -> dict[str, int]:
    """Return how many sessions are in each state, as the metrics tell it."""
    return {state: count for state, count in (await maestro.metrics.read()).sessions.items() if count}


@pytest.mark.parametrize("damage", ["no number", "another type"])
async def test_damaged_counts_are_made_anew(backend: Backend, damage: str):
    """What others put in the place of counts stops no change and no metrics: all is counted again."""
    async with backend.open_async() as maestro:
        one = await maestro.sessions.start("one")
        keys = maestro.server.terms.keys
        for key, fields in ((keys.of_index("states", one.id), ("iniciada", "x")), (keys.tally[0], ("messages", "x"))):
            backend.raw.delete(key)
            backend.raw.hset(key, *fields) if damage == "no number" else backend.raw.set(key, "x", ex=1000)
        await maestro.messages.add("user", "a change that is indexed", one.id)
        await maestro.context.add(b"another", ref=one.id)
        assert await states(maestro) == {"com_contexto": 1}
        assert (await maestro.metrics.read()).messages == 1


async def test_one_damaged_session_costs_no_other_its_count(backend: Backend):
    """Messages of the others are told, and times that no clock says stop neither metrics nor pages."""
    async with backend.open_async() as maestro:
        one, two = [await maestro.sessions.start(name) for name in ("one", "two")]
        keys = maestro.server.terms.keys
        await maestro.messages.add("user", "counted", one.id)
        backend.raw.set(keys.of_session(two.id, "messages"), "x", ex=1000)
        for name, score in (("recent", "inf"), ("dirty", "-inf")):
            backend.raw.zadd(keys.of_index(name, two.id), {two.id: score})
        assert (await maestro.metrics.read()).messages == 1
        page = await maestro.sessions.page(limit=1)
        rest = await maestro.sessions.page(limit=1, cursor=page.cursor)
        assert [row.id for row in (*page, *rest)] == [two.id, one.id]
        backend.raw.delete(keys.of_session(two.id, "messages"))


async def test_a_damaged_ledger_stops_no_run(backend: Backend):
    """Somebody else put something in its place: runs go on, and the error says what is damaged."""
    async with backend.open_async(user="ana") as maestro:
        session = await maestro.sessions.start("one")
        await maestro.budgets.set(user="ana", tokens=0)
        for key in maestro.server.terms.keys.ledger():
            backend.raw.delete(key)
            backend.raw.set(key, "x", ex=1000)
        run = await maestro.runs.start("p", session.id, tool="echo")
        assert run.status == "pending"
        assert (await maestro.sweep()).errors == []
        await done(maestro, session.id)
        assert (await maestro.ledger.counters())["runs|echo|success"] == 1
        assert await maestro.budgets.list() == []
        backend.raw.delete(*maestro.server.terms.keys.ledger())


async def test_there_are_not_more_budgets_than_may_be(backend: Backend):
    """A limit of budgets holds: more are refused, those there are can be changed."""
    async with backend.open_async(user="ana") as maestro:
        await maestro.budgets.set(user="ana", tokens=1)
        from maestro_state.state.calls import ledger

        before, ledger.BUDGETS_MAX = ledger.BUDGETS_MAX, 1
        try:
            with pytest.raises(Refused, match="1 budgets already"):
                await maestro.budgets.set(user="ben", tokens=1)
            assert (await maestro.budgets.set(user="ana", tokens=2)).limit == 2
        finally:
            ledger.BUDGETS_MAX = before
