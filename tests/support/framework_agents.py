"""Agents of every framework with an adapter, and of none, behind two verbs: say one thing more, and read it all."""

from __future__ import annotations

from typing import Any

from claude_agent_sdk import fold_session_summary
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from langgraph.checkpoint.base import empty_checkpoint

from maestro_state import AsyncMaestro, record
from maestro_state.adapters.adk import MaestroSessionService
from maestro_state.adapters.claude_agent import MaestroSessionStore
from maestro_state.adapters.langgraph import MaestroSaver
from maestro_state.adapters.openai_agents import MaestroSession
from maestro_state.errors import MaestroError

THREAD = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
KEY = {"project_key": "-work-shop", "session_id": "11111111-2222-4333-8444-555555555555"}
ADK = {"app_name": "app", "user_id": "user", "session_id": "s"}


class OpenAI:
    """A conversation of the OpenAI Agents SDK."""

    ref = "openai:t"

    def __init__(self, **place: Any) -> None:
        """Take where it is kept."""
        self.store = MaestroSession("t", **place)

    async def say(self, number: int, *, together: int = 1) -> None:
        """Add a batch."""
        await self.store.add_items([{"n": number, "part": part} for part in range(together)])

    async def read(self) -> list[int]:
        """Return the numbers, in order."""
        return [item["n"] for item in await self.store.get_items()]


class LangGraph:
    """A thread of LangGraph; of a batch, the last part is a checkpoint and the others are what a task wrote."""

    ref = "langgraph:t"

    def __init__(self, **place: Any) -> None:
        """Take where it is kept."""
        self.store = MaestroSaver(**place)

    async def say(self, number: int, *, together: int = 1) -> None:
        """Put a checkpoint whose values are the batch."""
        values = {f"part {part}": number for part in range(together)}
        versions = dict.fromkeys(values, f"{number + 1:032}.0")
        made = empty_checkpoint() | {"channel_values": values, "channel_versions": versions}
        await self.store.aput(THREAD, made, {"n": number}, versions)

    async def read(self) -> list[int]:
        """Return the numbers, in order, each as often as it has values."""
        found = [one async for one in self.store.alist({"configurable": {"thread_id": "t"}})]
        return [one.metadata["n"] for one in reversed(found) for _ in one.checkpoint["channel_values"]]


class Adk:
    """A session of ADK, with state of all scopes; a batch is one event."""

    ref = "adk:app/user/s"
    beside = ("adk:app", "adk:app/user")  #: where the states are that it shares with others

    def __init__(self, **place: Any) -> None:
        """Take where it is kept."""
        self.store = MaestroSessionService(**place)
        self.session: Any = None

    async def say(self, number: int, *, together: int = 1) -> None:
        """Append an event with a change of the session's, the app's and the user's state."""
        if self.session is None:
            await self._begin()
        names = [name for part in range(together) for name in (f"n{number} {part}", f"app:{number} {part}")]
        delta = EventActions(state_delta=dict.fromkeys([*names, f"user:{number}"], number))
        await self.store.append_event(self.session, Event(id=str(number), author="user", actions=delta))

    async def _begin(self) -> None:
        from google.adk.errors.already_exists_error import AlreadyExistsError

        try:
            self.session = await self.store.get_session(**ADK) or await self.store.create_session(**ADK)
        except AlreadyExistsError:
            self.session = await self.store.get_session(**ADK)

    async def read(self) -> list[int]:
        """Return the numbers of events, in order, each as often as the state knows it."""
        found = await self.store.get_session(**ADK)
        if found is None:
            return []
        numbers = [int(event.id) for event in found.events]
        assert all(found.state[f"user:{number}"] == number for number in numbers)
        for name in found.state:
            assert not name.startswith("n") or f"app:{name[1:]}" in found.state
        return [number for number in numbers for name in found.state if name.startswith(f"n{number} ")]


class Claude:
    """A transcript of the Claude Agent SDK."""

    ref = f"claude:{KEY['project_key']}/{KEY['session_id']}"

    def __init__(self, **place: Any) -> None:
        """Take where it is kept."""
        self.store = MaestroSessionStore(**place)

    async def say(self, number: int, *, together: int = 1) -> None:
        """Append entries that say something, and one that does not."""
        said = {"role": "user", "content": f"turn {number}"}
        stamp = "2026-01-01T00:00:00.000Z"
        entries = [
            {"type": "user", "uuid": f"u{number} {part}", "timestamp": stamp, "message": said, "n": number}
            for part in range(together)
        ]
        await self.store.append(KEY, [*entries, {"type": "note", "of": number}])

    async def read(self) -> list[int]:
        """Return the numbers, in order; the summary has seen all of them."""
        found = await self.store.load(KEY) or []
        for row in await self.store.list_session_summaries(KEY["project_key"]):
            assert row["data"] == fold_session_summary(None, KEY, found)["data"]
        numbers = [one["n"] for one in found if "n" in one]
        assert [one["of"] for one in found if "of" in one] == list(dict.fromkeys(numbers))
        return numbers


class Recorded:
    """An agent without a framework."""

    ref = "record:t"

    def __init__(self, **place: Any) -> None:
        """Take where it is kept."""
        self.store = AsyncMaestro(**place)
        self._record = record("t", **place)

    async def say(self, number: int, *, together: int = 1) -> None:
        """Record something, and wait until it is written."""
        async with self._record as r:
            for _ in range(together):
                r.assistant(str(number))

    async def read(self) -> list[int]:
        """Return the numbers, in order."""
        try:
            return [int(one.content) for one in await self.store.messages.since(ref=self.ref)]
        except MaestroError:
            return []


FRAMEWORKS = (OpenAI, LangGraph, Adk, Claude)
ALL: tuple[Any, ...] = (*FRAMEWORKS, Recorded)


def refs(one: Any) -> list[str]:
    """Return the references of all sessions that an agent writes to, its own last."""
    return [*getattr(one, "beside", ()), one.ref]


def ids(one: Any) -> str:
    """Return how a test's parameter is called."""
    return str(one.__name__)
