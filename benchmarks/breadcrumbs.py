"""Breadcrumbs: added and applied exactly once, beside a raw append and one script; statistics flat in their number."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from benchmarks.rig import Rig, Row, race, rig, row
from maestro_state.models.work import Breadcrumb, TokenCount
from maestro_state.state.calls.breadcrumbs import add_breadcrumb

#: What a client could do at best: an append, then one script that logs, counts and moves the cursor.
LIMIT = """
redis.call('XADD', KEYS[2], '*', 'entry', ARGV[1])
redis.call('HINCRBY', KEYS[3], 'breadcrumbs', 1) redis.call('HINCRBY', KEYS[3], 'input', ARGV[2])
redis.call('HSET', KEYS[3], 'cursor', ARGV[1])
return 'OK'
"""
BODY = "x" * 300
#: Breadcrumbs added before they are applied together, as they come from busy producers.
TOGETHER = 50
TREE, EACH = 10, 10_000


def _crumb(number: int) -> Breadcrumb:
    return Breadcrumb(
        timestamp="20261116_093000_000001",
        breadcrumb_id=f"b-{number}",
        prompt="p",
        response=BODY,
        model_used="opus",
        token_count=TokenCount(input=10, output=5),
        cost=0.01,
        tools_called=[{"tool": "sh"}],
    )


def measure() -> Iterator[Row]:
    """Yield the figures."""
    with rig() as bench:
        yield from _end_to_end(bench)
        yield _statistics(bench)


def _end_to_end(bench: Rig) -> Iterator[Row]:
    work, sha, numbers = bench.maestro.work, bench.tcp.script_load(LIMIT), count()
    one, many = work.start("one").session_id, work.start("many").session_id

    def ours() -> None:
        work.add_breadcrumb(one, _crumb(next(numbers)))
        work._store.apply(one)

    def ours_together() -> None:
        for _ in range(TOGETHER):
            work.add_breadcrumb(many, _crumb(next(numbers)))
        while work._store.apply(many):
            pass

    def limit() -> None:
        entry = bench.tcp.xadd("raw:{1}", {"id": next(numbers), "model": "opus", "input": 10, "body": BODY})
        bench.tcp.evalsha(sha, 3, "raw:{1}", "raw:{1}:log", "raw:{1}:h", entry, "10")

    def limit_together() -> None:
        for _ in range(TOGETHER):
            limit()

    figures = race({"ours": ours, "redis-py XADD + one script": limit}, calls=500)
    yield row("breadcrumb added and applied", figures, "ours", "redis-py XADD + one script", limit=2.0, aim=1.5)
    name = f"redis-py XADD + one script, ×{TOGETHER}"
    figures = race({"ours": ours_together, name: limit_together}, calls=20)
    yield row(f"{TOGETHER} breadcrumbs added, applied", figures, "ours", name, limit=1.2, aim=0.8)


def _statistics(bench: Rig) -> Row:
    work, server, numbers = bench.maestro.work, bench.maestro.server, count()
    tops = {}
    for each in (1, EACH):
        top = work.start("top").session_id
        tops[each] = top
        first, *others = [work.start("child", parent=top).session_id for _ in range(TREE)]
        with server.sequence() as sequence:
            bench.send(
                add_breadcrumb(server.terms, server.stamp(sequence.next_key()), first, _crumb(next(numbers)))
                for _ in range(each)
            )
        while work._store.apply(first):
            pass
        for child in others:
            path = bench.tcp.hget(server.terms.keys.of_work(child, "session"), "path")
            bench.copy(server.terms.keys.work(first), server.terms.keys.work(child))
            bench.tcp.hset(server.terms.keys.of_work(child, "session"), "path", path)
        assert work.stats(top).breadcrumbs == TREE * each
    figures = race({str(each): lambda top=top: work.stats(top) for each, top in tops.items()}, calls=100, rounds=9)
    few, lots = figures["1"], figures[str(EACH)]
    named = {f"tree of {TREE}": few, f"tree of {TREE * EACH}": lots}
    ours, theirs = f"tree of {TREE * EACH}", f"tree of {TREE}"
    return row(f"statistics of {TREE * EACH} breadcrumbs", named, ours, theirs, limit=1.1)
