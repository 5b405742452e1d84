"""The other products, each behind the few verbs that the questions ask for. Only `make bench` installs them.

One that cannot be imported or opened is shown with the reason, never left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from inspect import iscoroutinefunction
from typing import Any, Protocol

from benchmarks.rig import Rig, loop
from benchmarks.row import Row, row

#: What every message says: 300 characters, as in Maestro's own sessions.
BODY = "x" * 300


class History(Protocol):
    """One conversation of another product. A verb that the product only offers awaited is a coroutine function."""

    def __init__(self, bench: Rig, messages: int) -> None:
        """Open a new conversation with so many messages."""

    append: Callable[[], object]
    last: Callable[[], Any]  #: the last 20, with a length
    all: Callable[[], Any]  #: all of them, with a length

    def close(self) -> None:
        """Let go of files and connections."""


#: Products that keep a conversation, and where their verbs are.
HISTORIES = {
    "openai-agents RedisSession": ("openai_agents", "RedisHistory"),
    "openai-agents SQLiteSession": ("openai_agents", "SQLiteHistory"),
    "LangChain Redis history": ("langchain", "RedisHistory"),
    "ADK in memory": ("adk", "InMemory"),
    "ADK SQLite": ("adk", "SQLite"),
    "ADK database (SQLite)": ("adk", "Database"),
    "LangGraph SQLite saver": ("langgraph", "SQLiteSaver"),
}
#: As they come, without the TTL that all sessions of Maestro's have: less work, and so a figure of its own.
WITHOUT_TTL = {
    "openai-agents RedisSession, no TTL": ("openai_agents", "RedisForever"),
    "LangChain Redis history, no TTL": ("langchain", "RedisForever"),
}
#: Those of them that can list the conversations there are.
LISTS = {
    "ADK in memory": ("adk", "ListInMemory"),
    "ADK SQLite": ("adk", "ListSQLite"),
    "ADK database (SQLite)": ("adk", "ListDatabase"),
    "LangGraph SQLite saver": ("langgraph", "ListSaver"),
}


@dataclass
class Opened:
    """The peers of one question: those that opened, and why the others did not."""

    ready: dict[str, Any]
    reasons: dict[str, str]

    def contenders(self, verb: str) -> dict[str, Callable[[], object]]:
        """Return one verb of each."""
        return {name: getattr(peer, verb) for name, peer in self.ready.items()}

    def expect(self, verb: str, length: int) -> None:
        """Make sure that each reads as much as it should: a figure for anything less would say nothing."""
        for name, call in self.contenders(verb).items():
            found = loop().run_until_complete(call()) if iscoroutinefunction(call) else call()
            assert len(found) == length, f"{name}: {len(found)} read of {length}"

    def rows(self, question: str, figures: dict[str, list[float]], ours: dict[str, str],
             faster: dict[str, float]) -> Iterator[Row]:  # fmt: skip
        """Compare with each peer: `ours` names the contender to compare with, by peer, "" for all others."""
        for name in (*self.ready, *self.reasons):
            mine = ours.get(name, ours[""])
            wanted = faster.get(name, faster.get(""))
            if name in self.ready:
                yield row(question, figures, mine, name, faster=wanted, peer=True)
            else:
                took = figures[mine][len(figures[mine]) // 2]
                yield Row(question, name, took, None, "µs", faster=wanted, peer=True, note=self.reasons[name])

    def close(self) -> None:
        """Let go of them all."""
        for peer in self.ready.values():
            peer.close()


def opened(kinds: dict[str, tuple[str, str]], bench: Rig, size: int, without: Iterable[str] = ()) -> Opened:
    """Open each kind of peer with so many messages, or sessions."""
    found = Opened({}, {})
    for name, (module, attribute) in kinds.items():
        if name in without:
            continue
        try:
            found.ready[name] = getattr(import_module(f"benchmarks.peers.{module}"), attribute)(bench, size)
        except ImportError as error:
            found.reasons[name] = f"not installed: {error}"
        except Exception as error:  # noqa: BLE001 - another product may fail in any way; it is shown, not hidden
            found.reasons[name] = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:120]
    return found
