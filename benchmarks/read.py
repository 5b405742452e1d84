"""Reading messages: the last 20, flat in length; all of them."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from benchmarks.rig import Row, race, rig, row


def measure() -> Iterator[Row]:
    """Yield the figures."""
    with rig() as bench:
        short, long = bench.session(1_000), bench.session(10_000)
        key = bench.maestro.server.terms.keys.of_session
        figures = race(
            {
                "redis-py XREVRANGE 20": lambda: bench.tcp.xrevrange(key(long, "messages"), count=20),
                "last 20 of 10 000": lambda: bench.maestro.messages.last(20, long),
                "last 20 of 1 000": lambda: bench.maestro.messages.last(20, short),
            },
            calls=800,
        )
        yield row("last 20 of 10 000", figures, "last 20 of 10 000", "redis-py XREVRANGE 20", limit=1.0, aim=0.8)
        yield row("last 20 of 10 000", figures, "last 20 of 10 000", "last 20 of 1 000", limit=1.1)

        class Plain(msgspec.Struct):
            id: str
            role: str
            content: str

        def plain() -> list[Plain]:
            rows = bench.tcp.xrange(key(long, "messages"))
            return [Plain(one.decode(), fields[b"role"].decode(), fields[b"content"].decode()) for one, fields in rows]

        def ours() -> object:
            return bench.maestro.messages.since(None, long)

        figures = race({"redis-py XRANGE + msgspec": plain, "all of 10 000": ours}, calls=5)
        yield row("all of 10 000", figures, "all of 10 000", "redis-py XRANGE + msgspec", limit=1.0, aim=0.8)
