"""Sessions of other frameworks kept in Maestro, beside what those frameworks keep them in themselves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from benchmarks.peers import Opened, opened
from benchmarks.rig import Rig, Row, race, rig

LENGTH = 1_000

#: The stores of each framework, Maestro's first; and how many times longer those on Redis have to take to append.
OPENAI = {
    "MaestroSession": ("adapted", "OpenAIItems"),
    "openai-agents RedisSession": ("openai_agents", "RedisHistory"),
    "openai-agents SQLiteSession": ("openai_agents", "SQLiteHistory"),
}
CLAUDE = {
    "MaestroSessionStore": ("adapted", "ClaudeEntries"),
    "Claude entries in a Redis list": ("adapted", "ClaudeRedisList"),
}
FASTER = {"openai-agents RedisSession": 3.0, "": 1.0}


def measure() -> Iterator[Row]:
    """Yield the figures."""
    with rig() as bench:
        yield from _beside(bench, ("append an OpenAI item", "last 20 OpenAI items", "1 000 OpenAI items"), OPENAI)
        yield from _beside(bench, ("append a Claude entry", "", "1 000 Claude entries"), CLAUDE)


def _beside(bench: Rig, questions: tuple[str, str, str], kinds: dict[str, tuple[str, str]]) -> Iterator[Row]:
    ours = next(iter(kinds))
    append, last, all_of_them = questions
    with closing(opened(kinds, bench, LENGTH)) as stores:
        if ours in stores.reasons:
            yield Row(append, ours, 0, None, "µs", peer=True, note=stores.reasons[ours])
            return
        others = Opened({name: one for name, one in stores.ready.items() if name != ours}, stores.reasons)
        stores.expect("all", LENGTH)
        for question, verb, calls in ((last, "last", 400), (all_of_them, "all", 20), (append, "append", 400)):
            if question:
                figures = race(stores.contenders(verb), calls=calls, rounds=11, timeout_s=0.6)
                yield from others.rows(question, figures, {"": ours}, FASTER if verb == "append" else {"": 1.0})
