"""Appending a message: validated, done once, in order, TTL of all keys renewed; flat in the session's length."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterator

from benchmarks.rig import ROUNDS, Rig, Row, race, rig, row

#: What a client could do at best: append, set and renew in one script of the same size.
LIMIT = """
redis.call('XADD', KEYS[1], '*', 'role', ARGV[1], 'content', ARGV[2])
redis.call('HSET', KEYS[2], 'last_activity', ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[4]) redis.call('PEXPIRE', KEYS[2], ARGV[4])
return 'OK'
"""
BODY = "x" * 300


def measure() -> Iterator[Row]:
    """Yield the figures."""
    with rig() as bench:
        sha = bench.tcp.script_load(LIMIT)
        short, long = bench.session(10), bench.session(100_000)
        figures = race(
            {
                "redis-py EVALSHA over TCP": lambda: bench.tcp.evalsha(
                    sha, 2, "limit:{1}", "limit:{1}:h", "user", BODY, "1800000000000", "1000000"
                ),
                "session of 10": lambda: bench.maestro.messages.add("user", BODY, short),
                "session of 100 000": lambda: bench.maestro.messages.add("user", BODY, long),
            },
            calls=1500,
        )
        yield row("append a message", figures, "session of 10", "redis-py EVALSHA over TCP", limit=1.3, aim=0.8)
        yield row("append to 100 000", figures, "session of 100 000", "session of 10", limit=1.1)
        yield asyncio.run(_async(bench, sha))


async def _async(bench: Rig, sha: str) -> Row:
    import redis.asyncio

    from maestro_state import AsyncMaestro

    async with AsyncMaestro(bench.folder) as maestro, redis.asyncio.Redis(port=bench.port, protocol=2) as limit:
        session = (await maestro.sessions.start("async")).id
        figures: dict[str, list[float]] = {"ours": [], "redis-py async EVALSHA over TCP": []}
        for _ in range(ROUNDS):
            for name, took in figures.items():
                times = []
                for _ in range(600):
                    start = time.perf_counter_ns()
                    if name == "ours":
                        await maestro.messages.add("user", BODY, session)
                    else:
                        await limit.evalsha(sha, 2, "limit:{2}", "limit:{2}:h", "user", BODY, "1800000000", "1000000")
                    times.append(time.perf_counter_ns() - start)
                took.append(statistics.median(times) / 1000)
        return row("append, async", figures, "ours", "redis-py async EVALSHA over TCP", limit=1.3, aim=0.8)
