"""Sessions of other frameworks in Maestro, and in the plainest Redis where a framework ships no store of its own."""

from __future__ import annotations

import json
import time
from itertools import count
from typing import Any

from redis import WatchError

from benchmarks.peers import BODY
from benchmarks.rig import Rig, loop

#: Added in one call while filling.
_TOGETHER = 500
KEY = {"project_key": "bench", "session_id": "one"}


class _Filled:
    async def put(self, number: int) -> object:
        """Add so many in one call."""
        raise NotImplementedError

    def _fill(self, messages: int) -> None:
        for start in range(0, messages, _TOGETHER):
            loop().run_until_complete(self.put(min(_TOGETHER, messages - start)))

    async def append(self) -> object:
        return await self.put(1)


class OpenAIItems(_Filled):
    """MaestroSession, over the same TCP as its peers."""

    def __init__(self, bench: Rig, messages: int) -> None:
        """Open a session."""
        from maestro_state.adapters.openai_agents import MaestroSession

        url = f"redis://127.0.0.1:{bench.port}"
        self._session = MaestroSession(f"bench-{messages}", project=bench.folder, redis_url=url)
        self._fill(messages)

    async def put(self, number: int) -> object:
        return await self._session.add_items([{"role": "user", "content": BODY}] * number)

    async def last(self) -> Any:
        return await self._session.get_items(20)

    async def all(self) -> Any:
        return await self._session.get_items()

    def close(self) -> None:
        """Close its connections."""
        loop().run_until_complete(self._session.close())


class _Entries(_Filled):
    _numbers = count()

    def _made(self, number: int) -> list[dict[str, Any]]:
        said = {"role": "user", "content": BODY}
        stamp = "2026-01-01T00:00:00.000Z"
        return [
            {"type": "user", "uuid": f"{next(self._numbers):032}", "timestamp": stamp, "message": said}
            for _ in range(number)
        ]


class ClaudeEntries(_Entries):
    """MaestroSessionStore, over the same TCP as its peer."""

    def __init__(self, bench: Rig, messages: int) -> None:
        """Open a store."""
        from maestro_state.adapters.claude_agent import MaestroSessionStore

        self._store = MaestroSessionStore(project=bench.folder, redis_url=f"redis://127.0.0.1:{bench.port}")
        self._fill(messages)

    async def put(self, number: int) -> object:
        return await self._store.append(KEY, self._made(number))

    async def all(self) -> Any:
        return await self._store.load(KEY)

    def close(self) -> None:
        """Close its connections."""
        loop().run_until_complete(self._store.close())


class _RedisList(_Entries):
    """Entries in a list of a Redis, by redis-py."""

    name = ""

    def __init__(self, bench: Rig, messages: int) -> None:
        """Open a client."""
        import redis.asyncio

        self._redis = redis.asyncio.Redis(port=bench.port, protocol=2)
        self._fill(messages)

    async def all(self) -> Any:
        return [json.loads(one) for one in await self._redis.lrange(self.name, 0, -1)]

    def close(self) -> None:
        """Close its connections."""
        loop().run_until_complete(self._redis.aclose())


class ClaudeRedisList(_RedisList):
    """The least that keeps the SDK's contracts: the list, a set of ids, a summary under a watch, a TTL."""

    name = "claude:list"

    async def put(self, number: int) -> object:
        from claude_agent_sdk import fold_session_summary

        entries, names = self._made(number), (self.name, "claude:ids", "claude:summary")
        while True:
            async with self._redis.pipeline() as pipe:
                await pipe.watch(*names)
                known = await pipe.smismember(names[1], [one["uuid"] for one in entries])
                before = await pipe.get(names[2])
                new = [one for one, is_known in zip(entries, known, strict=True) if not is_known]
                after = json.dumps(fold_session_summary(json.loads(before) if before else None, KEY, new))
                pipe.multi()
                pipe.rpush(names[0], *map(json.dumps, new))
                pipe.sadd(names[1], *(one["uuid"] for one in new))
                pipe.set(names[2], after)
                for name in names:
                    pipe.pexpire(name, 100_000_000)
                try:
                    return await pipe.execute()
                except WatchError:
                    continue


class ClaudeBareList(_RedisList):
    """What the SDK's example does, and no more: entries twice stay twice, nothing expires, nothing is summed up."""

    name = "claude:bare"

    async def put(self, number: int) -> object:
        async with self._redis.pipeline() as pipe:
            pipe.rpush(self.name, *map(json.dumps, self._made(number)))
            pipe.zadd("claude:sessions", {KEY["session_id"]: time.time()})
            return await pipe.execute()
