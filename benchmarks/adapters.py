"""Sessions of other frameworks kept in Maestro, beside what those frameworks keep them in themselves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple

from benchmarks.peers import Opened, opened
from benchmarks.rig import Rig, Row, race, rig

#: Messages, entries or events of a session; steps of a thread; sessions of a list.
LENGTH, STEPS, SESSIONS = 1_000, 120, 100

Kinds = dict[str, tuple[str, str]]


class Framework(NamedTuple):
    """What is asked of a framework's stores: question → verb and calls in a turn; its stores, Maestro's first."""

    size: int
    read: int  #: how much `all` reads
    questions: dict[str, tuple[str, int]]
    kinds: Kinds


FRAMEWORKS = (
    Framework(
        LENGTH,
        LENGTH,
        {
            "last 20 OpenAI items": ("last", 400),
            "1 000 OpenAI items": ("all", 20),
            "append an OpenAI item": ("append", 400),
        },
        {
            "MaestroSession": ("adapted", "OpenAIItems"),
            "openai-agents RedisSession": ("openai_agents", "RedisHistory"),
            "openai-agents SQLiteSession": ("openai_agents", "SQLiteHistory"),
        },
    ),
    Framework(
        LENGTH,
        LENGTH,
        {"1 000 Claude entries": ("all", 20), "append a Claude entry": ("append", 400)},
        {
            "MaestroSessionStore": ("adapted", "ClaudeEntries"),
            "Claude entries in a Redis list": ("adapted", "ClaudeRedisList"),
            "Claude entries in a bare Redis list": ("adapted", "ClaudeBareList"),
        },
    ),
    Framework(
        STEPS,
        100,
        {
            "newest LangGraph checkpoint": ("last", 200),
            "100 LangGraph checkpoints": ("all", 5),
            "put a LangGraph checkpoint": ("append", 200),
        },
        {
            "MaestroSaver": ("adapted_graphs", "Maestro"),
            "LangGraph in memory": ("adapted_graphs", "Memory"),
            "LangGraph SQLite": ("adapted_graphs", "SQLite"),
            "LangGraph Postgres": ("adapted_graphs", "Postgres"),
            "LangGraph Redis": ("adapted_graphs", "Redis"),
        },
    ),
    Framework(
        LENGTH,
        LENGTH,
        {"last 20 ADK events": ("last", 100), "1 000 ADK events": ("all", 5), "append an ADK event": ("append", 200)},
        {
            "MaestroSessionService": ("adapted_adk", "Events"),
            "ADK in memory": ("adk", "InMemory"),
            "ADK SQLite": ("adk", "SQLite"),
            "ADK database (SQLite)": ("adk", "Database"),
        },
    ),
    Framework(
        SESSIONS,
        SESSIONS,
        {"list 100 ADK sessions": ("all", 20)},
        {
            "MaestroSessionService, list": ("adapted_adk", "Sessions"),
            "ADK in memory": ("adk", "ListInMemory"),
            "ADK SQLite": ("adk", "ListSQLite"),
            "ADK database (SQLite)": ("adk", "ListDatabase"),
        },
    ),
)
#: How many times longer stores on Redis have to take to append; durable ones must not be faster at anything.
ON_REDIS = {"openai-agents RedisSession": 3.0, "LangGraph Redis": 3.0}
#: Kept by one process and gone with it: shown, and nothing to be beside.
IN_MEMORY = ("LangGraph in memory", "ADK in memory")


def measure() -> Iterator[Row]:
    """Yield the figures."""
    with rig() as bench:
        for framework in FRAMEWORKS:
            yield from _beside(bench, framework)


def _beside(bench: Rig, framework: Framework) -> Iterator[Row]:
    ours, first = next(iter(framework.kinds)), next(iter(framework.questions))
    with closing(opened(framework.kinds, bench, framework.size)) as stores:
        if ours in stores.reasons:
            yield Row(first, ours, 0, None, "µs", peer=True, note=stores.reasons[ours])
            return
        others = Opened({name: one for name, one in stores.ready.items() if name != ours}, stores.reasons)
        stores.expect("all", framework.read)
        for question, (verb, calls) in framework.questions.items():
            figures = race(stores.contenders(verb), calls=calls, rounds=11, timeout_s=0.6)
            wanted: dict[str, float] = {name: 1.0 for name in framework.kinds if name not in IN_MEMORY}
            yield from others.rows(question, figures, {"": ours}, wanted | (ON_REDIS if verb == "append" else {}))
