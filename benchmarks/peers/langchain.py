"""LangChain's message history on a Redis list."""

from __future__ import annotations

import json
import warnings
from typing import Any

from benchmarks.peers import BODY
from benchmarks.rig import Rig

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it announces the end of the package when imported
    from langchain_community.chat_message_histories import RedisChatMessageHistory
    from langchain_core.messages import HumanMessage, message_to_dict

#: Entries pushed in one call while filling.
_TOGETHER = 1000


class RedisHistory:
    """RedisChatMessageHistory, with a TTL as every session of Maestro's has one."""

    ttl_s: int | None = 100_000

    def __init__(self, bench: Rig, messages: int) -> None:
        """Open a history on the same server; it is filled in its own form, many entries in one write."""
        name, url = f"bench-{messages}-{self.ttl_s}", f"redis://127.0.0.1:{bench.port}"
        self._history = RedisChatMessageHistory(name, url=url, ttl=self.ttl_s)
        self._history.add_message(HumanMessage(BODY))
        entry = json.dumps(message_to_dict(HumanMessage(BODY)))
        for start in range(1, messages, _TOGETHER):
            bench.tcp.lpush(self._history.key, *[entry] * min(_TOGETHER, messages - start))

    def append(self) -> None:
        """Add one message."""
        self._history.add_message(HumanMessage(BODY))

    def last(self) -> Any:
        """Read the last 20; there is no other way than to read them all."""
        return self._history.messages[-20:]

    def all(self) -> Any:
        """Read all."""
        return self._history.messages

    def close(self) -> None:
        """Close its connection."""
        self._history.redis_client.close()


class RedisForever(RedisHistory):
    """RedisChatMessageHistory without TTL."""

    ttl_s = None
