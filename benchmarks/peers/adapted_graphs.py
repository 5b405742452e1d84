"""Checkpoints of LangGraph, in Maestro and in the framework's own savers: the same graph's steps for each.

A thread has a conversation in one channel and a counter in another; a step says one thing more, as graphs do.
"""

from __future__ import annotations

import uuid
from contextlib import AsyncExitStack
from typing import Any

from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint

from benchmarks.peers import BODY
from benchmarks.rig import Rig, loop


class _Thread:
    """One thread with so many steps behind it; verbs awaited."""

    saver: Any

    def __init__(self, bench: Rig, steps: int) -> None:
        self._stack = AsyncExitStack()
        self.bench, self.run = bench, loop().run_until_complete
        self.run(self._open())
        self._messages = [HumanMessage(BODY, id=str(uuid.uuid4())) for _ in range(50)]
        self._at: Any = {"configurable": {"thread_id": f"bench-{uuid.uuid4().hex[:8]}", "checkpoint_ns": ""}}
        self._step = 0
        for _ in range(steps):
            self.run(self.append())

    async def _open(self) -> None:
        raise NotImplementedError

    async def append(self) -> Any:
        """Put the next checkpoint: the conversation has one message more, of which 50 are kept."""
        self._step += 1
        self._messages = [*self._messages[1:], HumanMessage(BODY, id=str(uuid.uuid4()))]
        values = {"messages": self._messages, "count": self._step}
        versions = dict.fromkeys(values, f"{self._step:032}.0")
        made = empty_checkpoint() | {"channel_values": values, "channel_versions": versions}
        metadata = {"source": "loop", "step": self._step}
        self._at = await self.saver.aput(self._at, made, metadata, versions)
        return self._at

    async def last(self) -> Any:
        """Read the newest checkpoint, with its 50 messages."""
        found = await self.saver.aget_tuple({"configurable": {"thread_id": self._at["configurable"]["thread_id"]}})
        return found.checkpoint["channel_values"]["messages"]

    async def all(self) -> Any:
        """List the newest 100 checkpoints."""
        thread = {"configurable": {"thread_id": self._at["configurable"]["thread_id"]}}
        return [one async for one in self.saver.alist(thread, limit=100)]

    def close(self) -> None:
        """Let go of files and connections."""
        self.run(self._stack.aclose())


class Maestro(_Thread):
    """MaestroSaver, over the same TCP as its peers."""

    async def _open(self) -> None:
        from maestro_state.adapters.langgraph import MaestroSaver

        saver = MaestroSaver(project=self.bench.folder, redis_url=f"redis://127.0.0.1:{self.bench.port}")
        self.saver = await self._stack.enter_async_context(saver)


class Memory(_Thread):
    """InMemorySaver: gone with its process, seen by no other."""

    async def _open(self) -> None:
        from langgraph.checkpoint.memory import InMemorySaver

        self.saver = InMemorySaver()


class SQLite(_Thread):
    """AsyncSqliteSaver, in a file."""

    async def _open(self) -> None:
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        path = self.bench.folder / f"graph-{uuid.uuid4().hex[:8]}.db"
        self.saver = await self._stack.enter_async_context(AsyncSqliteSaver.from_conn_string(str(path)))
        await self.saver.setup()


class Postgres(_Thread):
    """AsyncPostgresSaver, on a server of its own over TCP."""

    async def _open(self) -> None:
        from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

        from benchmarks.postgres import served

        address = self._stack.enter_context(served())
        self.saver = await self._stack.enter_async_context(AsyncPostgresSaver.from_conn_string(address))
        await self.saver.setup()


class Redis(_Thread):
    """AsyncRedisSaver: needs the modules RedisJSON and RediSearch in the server."""

    async def _open(self) -> None:
        from langgraph.checkpoint.redis.aio import AsyncRedisSaver

        url = f"redis://127.0.0.1:{self.bench.port}"
        self.saver = await self._stack.enter_async_context(AsyncRedisSaver.from_conn_string(url))
        await self.saver.asetup()
