"""Appending a message: validated, done once, in order, TTL of all keys renewed; flat in the session's length."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from benchmarks.peers import BODY, HISTORIES, WITHOUT_TTL, opened
from benchmarks.rig import Rig, Row, loop, race, rig, row
from maestro_state import AsyncMaestro

#: What a client could do at best: append, set and renew in one script of the same size.
LIMIT = """
redis.call('XADD', KEYS[1], '*', 'role', ARGV[1], 'content', ARGV[2])
redis.call('HSET', KEYS[2], 'last_activity', ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[4]) redis.call('PEXPIRE', KEYS[2], ARGV[4])
return 'OK'
"""
#: How many times longer each peer has to take, at every length.
FASTER = {"openai-agents RedisSession": 8.0, "LangChain Redis history": 1.3}
#: Peers that offer no call but an awaited one are compared with our awaited call.
PLAIN = ("LangChain Redis history", "LangChain Redis history, no TTL", "LangGraph SQLite saver")


def measure() -> Iterator[Row]:
    """Yield the figures."""
    with rig() as bench:
        sessions = {length: bench.session(length) for length in (10, 1_000, 100_000)}
        yield from _beside_the_limit(bench, sessions[10], sessions[100_000])
        for length, session in sessions.items():
            yield from _beside_peers(bench, length, session)


def _beside_the_limit(bench: Rig, short: str, long: str) -> Iterator[Row]:
    import redis.asyncio

    sha = bench.tcp.script_load(LIMIT)
    arguments = ("limit:{1}", "limit:{1}:h", "user", BODY, "1800000000000", "1000000")
    ours, theirs = AsyncMaestro(bench.folder), redis.asyncio.Redis(port=bench.port, protocol=2)

    async def ours_awaited() -> None:
        await ours.messages.add("user", BODY, short)

    async def limit_awaited() -> None:
        await theirs.evalsha(sha, 2, *arguments)

    figures = race(
        {
            "redis-py EVALSHA over TCP": lambda: bench.tcp.evalsha(sha, 2, *arguments),
            "session of 10": lambda: bench.maestro.messages.add("user", BODY, short),
            "session of 100 000": lambda: bench.maestro.messages.add("user", BODY, long),
            "redis-py async EVALSHA over TCP": limit_awaited,
            "awaited": ours_awaited,
        },
        calls=500,
    )
    loop().run_until_complete(ours.close())
    loop().run_until_complete(theirs.aclose())
    yield row("append a message", figures, "session of 10", "redis-py EVALSHA over TCP", limit=1.3, aim=0.8)
    yield row("append to 100 000", figures, "session of 100 000", "session of 10", limit=1.1)
    yield row("append, async", figures, "awaited", "redis-py async EVALSHA over TCP", limit=1.3, aim=0.8)


def _beside_peers(bench: Rig, length: int, session: str) -> Iterator[Row]:
    maestro = AsyncMaestro(bench.folder)

    async def awaited() -> None:
        await maestro.messages.add("user", BODY, session)

    with closing(opened({**HISTORIES, **WITHOUT_TTL}, bench, length)) as peers:
        ours = {"plain": lambda: bench.maestro.messages.add("user", BODY, session), "awaited": awaited}
        figures = race({**ours, **peers.contenders("append")}, calls=400, rounds=11, timeout_s=0.6)
        by_peer = {"": "awaited", **dict.fromkeys(PLAIN, "plain")}
        yield from peers.rows(f"append to {length:_}".replace("_", " "), figures, by_peer, FASTER)
    loop().run_until_complete(maestro.close())
