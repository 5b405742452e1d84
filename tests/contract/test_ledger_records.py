"""What a run's record says is not believed where it would lower what was charged, on every server."""

from __future__ import annotations

from maestro_state.models.claim import Ended
from maestro_state.models.run import Usage
from tests.contract.test_ledger import USAGE, begun
from tests.support.backends import Backend


async def test_a_record_takes_nothing_back(backend: Backend):
    """Whoever may write a session may write any usage into it: what was charged stays, and sums never sink."""
    async with backend.open_async(user="ana") as maestro:
        session = await maestro.sessions.start("one")
        await maestro.budgets.set(user="ana", cost=1)
        await maestro.budgets.set(user="ana", tokens=1000)
        claim = await begun(maestro, session.id)
        await maestro.ledger.charge(session.id, claim.run, USAGE)
        for forged in (
            Usage(tokens_input=0, tokens_output=0, cost=0.0),
            Usage(tokens_input=-5000, tokens_output=1, tokens_cache_read=-1, tokens_reasoning=-9, cost=-100.0),
            Usage(),
        ):
            await maestro.claims.finish(claim, Ended(status="success", usage=forged))
            await maestro.ledger.count(session.id, claim.run.id)
            spent = {one.unit: one.spent for one in await maestro.budgets.list()}
            assert spent == {"cost": 0.25, "tokens": 120 if claim.run.id == "0001" else 121}
            assert all(value >= 0 for value in (await maestro.ledger.counters()).values())
            claim = await begun(maestro, session.id)
        await maestro.claims.finish(claim, Ended(status="success", usage=Usage(tokens_output=2**62, cost=1e300)))
        await maestro.ledger.count(session.id, claim.run.id)
        assert {one.left for one in await maestro.budgets.list()} == {0}, "what is too large to add up uses it up"
