"""Breadcrumbs under kill -9, lost replies and many hands at once: each takes effect exactly once, in order."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter

import redis

from maestro_state import AsyncMaestro, Maestro
from maestro_state.state.calls.breadcrumbs import read_log
from tests.support.backends import Backend
from tests.support.programs import ROOT
from tests.support.seeds import seeded
from tests.support.servers import lossy_proxy, valkey
from tests.support.work_samples import age, crumb, post

COUNT = 3000
NAIVE_COUNT = 1000


def run_mortals(kind: str, project, work_id: str, count: int) -> int:
    """Run producers and consumers that die at random; return how often they did."""
    command = [sys.executable, "-m", "tests.support.work_programs", kind, str(project), work_id, str(count)]
    seed = seeded().randrange(1 << 30)
    done = subprocess.run([*command, str(seed)], cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_killed_consumers_apply_each_breadcrumb_exactly_once(real: Backend):
    """3000 breadcrumbs, four consumers and two producers killed at random: none lost, none doubled, all in order."""
    with real.open() as maestro:
        work_id = maestro.work.start("t").session_id
        killed = run_mortals("ours", real.project, work_id, COUNT)
        assert killed >= 20, "too few were killed for this to prove anything"
        accepted = [one.breadcrumb.breadcrumb_id for one in maestro.work.breadcrumbs(work_id)]
        log = maestro.server.fetch(read_log(maestro.server.terms, work_id, None))
        applied = [entry.data["breadcrumb_id"] for entry in log]
        assert len(accepted) == len(set(accepted)) == COUNT
        assert applied == accepted
        for name in ("p0", "p1"):
            numbers = [int(one.split("-")[1]) for one in accepted if one.startswith(name)]
            assert numbers == list(range(COUNT // 2))
        stats = maestro.work.stats(work_id)
        assert (stats.breadcrumbs, stats.cost) == (COUNT, COUNT / 1000)
        assert stats.tokens == {"input": COUNT * 3, "output": COUNT * 2}


def test_consumers_that_acknowledge_afterwards_double(real: Backend):
    """Control: effect and acknowledgement in two calls double what lies between them when a consumer dies."""
    raw: redis.Redis = real.raw
    raw.xgroup_create("naive", "all", "0", mkstream=True)
    for number in range(NAIVE_COUNT):
        raw.xadd("naive", {"n": number})
    killed = run_mortals("naive", real.project, "none", NAIVE_COUNT)
    effects = Counter(raw.lrange("naive:log", 0, -1))
    raw.delete("naive", "naive:log", "naive:seen")
    assert killed > 0
    assert len(effects) == NAIVE_COUNT
    assert sum(effects.values()) > NAIVE_COUNT


def test_lost_replies_double_nothing(project, tmp_path):
    """With one reply in twenty lost, every breadcrumb is accepted, applied and reported once."""
    chance = seeded()
    with (
        valkey(tmp_path) as server,
        lossy_proxy(server, lambda number: number > 4 and chance.random() < 0.05) as proxy,
        Maestro(project, redis_url=proxy.url) as maestro,
    ):
        maestro.server.connection.retry_s = 60.0
        work_id = maestro.work.start("t").session_id
        maestro.work._store.batch = 5
        applied = 0
        for number in range(300):
            maestro.work.add_breadcrumb(work_id, crumb(str(number)))
            if number % 10 == 9:
                while count := maestro.work._store.apply(work_id):
                    applied += count
        assert applied == 300
        assert maestro.work.stats(work_id).breadcrumbs == 300
        assert proxy.lost >= 5, "too few replies were lost for this to prove anything"


async def test_ten_producers_and_ten_work_sessions_keep_apart(real: Backend):
    """Ten producers write to ten work sessions at once while they are consumed: each has its own, whole, in order."""
    async with real.open_async() as maestro:
        ids = [(await maestro.work.start(f"type-{number}")).session_id for number in range(10)]

        async def produce(name: int) -> None:
            async with AsyncMaestro(real.project) as own:
                for number in range(20):
                    for at, work_id in enumerate(ids):
                        await own.work.add_breadcrumb(work_id, crumb(f"{at}.{name}.{number}", cost=float(at)))

        async def consume(work_id: str) -> None:
            async with AsyncMaestro(real.project) as own:
                while (await own.work.read(work_id)).applied < 200:
                    await asyncio.to_thread(own.blocking.work._store.apply, work_id)

        await asyncio.gather(*(produce(name) for name in range(10)), *(consume(work_id) for work_id in ids))
        for at, work_id in enumerate(ids):
            found = [one.breadcrumb.breadcrumb_id.split(".") for one in await maestro.work.breadcrumbs(work_id)]
            assert len(found) == 200
            assert {one[0] for one in found} == {str(at)}
            for name in range(10):
                assert [int(one[2]) for one in found if one[1] == str(name)] == list(range(20))
            stats = await maestro.work.stats(work_id)
            assert (stats.sessions, stats.breadcrumbs, stats.cost) == (1, 200, 200.0 * at)


async def test_two_consumers_of_one_mailbox(real: Backend):
    """Consumers that empty the same mailbox at once take each file once and set each bad one aside once."""
    async with real.open_async() as maestro, real.open_async() as other:
        work_id = (await maestro.work.start("t")).session_id
        for number in range(200):
            good = number % 4
            content = {"breadcrumb_id": f"b{number}"} if good else b"no breadcrumb"
            age(post(real.project, (work_id,), f"20261116_000000_{number:06}", content))
        outcomes = await asyncio.gather(maestro.work.consume(work_id), other.work.consume(work_id))
        assert sum(one.applied for one in outcomes) == 150
        rejected = [one.source for outcome in outcomes for one in outcome.rejected]
        assert len(rejected) == len(set(rejected)) == 50
        aside = real.project / "docs/sessions" / work_id / "rejected"
        assert len(list(aside.glob("*.json"))) == len(list(aside.glob("*.reason"))) == 50
        assert [(await one.work.consume(work_id)).applied for one in (maestro, other)] == [0, 0]
