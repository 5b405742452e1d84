"""Reading messages: the last 20, flat in length; all of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import msgspec

from benchmarks.append import PLAIN
from benchmarks.peers import HISTORIES, opened
from benchmarks.rig import Rig, Row, loop, race, rig, row
from maestro_state import AsyncMaestro

#: Lengths at which peers read the last 20; all of the longest.
LENGTHS = (1_000, 10_000)


class Plain(msgspec.Struct):
    """A message as a client would read it at best."""

    id: str
    role: str
    content: str


def measure() -> Iterator[Row]:
    """Yield the figures."""
    with rig() as bench:
        yield from _beside_the_limit(bench)
        for length in LENGTHS:
            yield from _beside_peers(bench, length)


def _beside_the_limit(bench: Rig) -> Iterator[Row]:
    short, long, longest = bench.session(1_000), bench.session(10_000), bench.session(100_000)
    key = bench.maestro.server.terms.keys.of_session
    figures = race(
        {
            "redis-py XREVRANGE 20": lambda: bench.tcp.xrevrange(key(long, "messages"), count=20),
            "last 20 of 10 000": lambda: bench.maestro.messages.last(20, long),
            "last 20 of 1 000": lambda: bench.maestro.messages.last(20, short),
            "last 20 of 100 000": lambda: bench.maestro.messages.last(20, longest),
        },
        calls=800,
    )
    yield row("last 20 of 10 000", figures, "last 20 of 10 000", "redis-py XREVRANGE 20", limit=1.0, aim=0.8)
    yield row("last 20 of 100 000", figures, "last 20 of 100 000", "last 20 of 1 000", limit=1.1)

    def plain() -> list[Plain]:
        rows = bench.tcp.xrange(key(long, "messages"))
        return [
            Plain(one.decode(), role.decode(), content.decode())
            for one, fields in rows
            for role, content in fields.items()
        ]

    def ours() -> object:
        return bench.maestro.messages.since(None, long)

    figures = race({"redis-py XRANGE + msgspec": plain, "all of 10 000": ours}, calls=5, rounds=9)
    yield row("all of 10 000", figures, "all of 10 000", "redis-py XRANGE + msgspec", limit=1.0, aim=0.8)


def _beside_peers(bench: Rig, length: int) -> Iterator[Row]:
    session = bench.session(length)
    maestro = AsyncMaestro(bench.folder)

    async def last_awaited() -> object:
        return await maestro.messages.last(20, session)

    async def all_awaited() -> object:
        return await maestro.messages.since(None, session)

    by_peer = {"": "awaited", **dict.fromkeys(PLAIN, "plain")}
    said = f"{length:_}".replace("_", " ")
    with closing(opened(HISTORIES, bench, length)) as peers:
        peers.expect("last", 20)
        ours = {"plain": lambda: bench.maestro.messages.last(20, session), "awaited": last_awaited}
        figures = race({**ours, **peers.contenders("last")}, calls=400, rounds=11, timeout_s=0.6)
        yield from peers.rows(f"last 20 of {said}", figures, by_peer, {"": 1.5})
        if length == max(LENGTHS):
            peers.expect("all", length)
            ours = {"plain": lambda: bench.maestro.messages.since(None, session), "awaited": all_awaited}
            figures = race({**ours, **peers.contenders("all")}, calls=3, rounds=9, timeout_s=0.6)
            yield from peers.rows(f"all of {said}", figures, by_peer, {"": 1.2})
    loop().run_until_complete(maestro.close())
