"""Sessions of openai-agents. Their verbs are only offered awaited."""

from __future__ import annotations

from typing import Any

from agents import SQLiteSession
from agents.extensions.memory import RedisSession

from benchmarks.peers import BODY
from benchmarks.rig import Rig, loop

ITEM: Any = {"role": "user", "content": BODY}
#: Items added in one call while filling.
_TOGETHER = 1000


class _History:
    _session: Any

    def _fill(self, messages: int) -> None:
        for start in range(0, messages, _TOGETHER):
            loop().run_until_complete(self._session.add_items([ITEM] * min(_TOGETHER, messages - start)))

    async def append(self) -> object:
        return await self._session.add_items([ITEM])

    async def last(self) -> Any:
        return await self._session.get_items(20)

    async def all(self) -> Any:
        return await self._session.get_items()


class RedisHistory(_History):
    """RedisSession, with a TTL as every session of Maestro's has one."""

    ttl_s: int | None = 100_000

    def __init__(self, bench: Rig, messages: int) -> None:
        """Open a session on the same server."""
        name, url = f"bench-{messages}-{self.ttl_s}", f"redis://127.0.0.1:{bench.port}"
        self._session = RedisSession.from_url(name, url=url, ttl=self.ttl_s)
        self._fill(messages)

    def close(self) -> None:
        """Close its connections."""
        loop().run_until_complete(self._session.close())


class RedisForever(RedisHistory):
    """RedisSession without TTL."""

    ttl_s = None


class SQLiteHistory(_History):
    """SQLiteSession, in a file."""

    def __init__(self, bench: Rig, messages: int) -> None:
        """Open a session in a file of its own."""
        self._session = SQLiteSession(f"bench-{messages}", bench.folder / f"agents-{messages}.db")
        self._fill(messages)

    def close(self) -> None:
        """Close its file."""
        self._session.close()
