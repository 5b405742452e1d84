"""Leases that are none, or of a time to come: nobody is kept from writing sessions to disk by what stands there."""

from __future__ import annotations

import pytest

from maestro_state.state.calls import checkpoints as archiving
from maestro_state.state.calls import leases
from tests.support.backends import Backend

#: What somebody may have put in the place of a lease, or a server's clock that was a day ahead may have left there.
ODD_LEASES = {
    "held for a day": {"holder": "x", "fence": "{later}", "until": "{later}"},
    "done tomorrow": {"holder": "x", "fence": "7", "until": "0", "swept_at": "{later}", "cleaned_at": "{later}"},
    "nonsense": {"holder": b"\xff", "fence": "nan", "until": "inf", "swept_at": "nan", "cursor": "x", "since": "1e9"},
    "of another type": None,
}


@pytest.mark.parametrize("what", ODD_LEASES)
async def test_no_lease_keeps_sessions_off_the_disk(backend: Backend, what: str):
    """One that ends later than any does, or is none, is taken; what was done in a time to come is done again."""
    async with backend.open_async() as maestro:
        session = await maestro.sessions.start("x")
        keys = maestro.server.terms.keys
        now_ms = await maestro.server.fetch(archiving.read_time())
        tasks = [leases.SCHEDULE, leases.SWEEP, *(leases.of_shard(number) for number in range(len(keys.shards)))]
        for task in tasks:
            (key,) = keys.lease(task)
            if (row := ODD_LEASES[what]) is None:
                backend.raw.set(key, "x", ex=600)
                continue
            later = str(now_ms + 24 * 3600 * 1000)
            fields = {name: value.replace("{later}", later) if isinstance(value, str) else value
                      for name, value in row.items()}  # fmt: skip
            backend.raw.hset(key, mapping=fields)
            backend.raw.expire(key, 600)
        schedule = maestro.blocking.schedule
        lease = schedule.take()
        assert lease.fence is not None
        assert schedule.note_swept(lease)
        assert abs(schedule.take(lease).swept_at - now_ms) < 600_000
        assert leases.is_due(lease.swept_at, now_ms, 1000)
        report = await maestro.archive.sweep_shards(600_000)
        assert (report.busy, report.checkpointed) == (None, [session.id])
        await maestro.messages.add("user", "more")
        assert (await maestro.archive.sweep_shards(600_000)).checkpointed == [], "the control: now it is known"
        report = await maestro.archive.sweep()
        assert (report.busy, report.checkpointed, report.errors) == (None, [session.id], [])
        left = [key for task in tasks for key in keys.lease(task) if backend.raw.type(key) == b"string"]
        assert not left or len(left) == len(keys.shards) - 1, "those of shards with nothing to do"
        backend.raw.delete("-", *left)
