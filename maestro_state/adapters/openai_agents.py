"""Sessions of the OpenAI Agents SDK, kept in Maestro.

    session = MaestroSession("customer-42")        # or MaestroSession.current(): the session of this checkout
    await Runner.run(agent, "hello", session=session)

Every item is a message of the session, with the item whole beside it. What others say in the session (terminals, other
frameworks) is handed to the agent as plain messages.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, Self

from maestro_state.adapters.binding import Adapter, Entries, settled
from maestro_state.adapters.items import packed, reader, shown, text_of, unpacked
from maestro_state.aio.maestro import AsyncMaestro
from maestro_state.errors import MaestroError, SessionNotFound
from maestro_state.models.message import Message

try:
    from agents.memory import SessionSettings
    from agents.memory.session_settings import coerce_session_settings
except ImportError as error:
    raise ImportError("this needs the OpenAI Agents SDK: pip install 'maestro-state[openai-agents]'") from error

KIND = "openai"
_ROLES = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}

Item = Any


class MaestroSession(Adapter):
    """A `Session` of the OpenAI Agents SDK."""

    def __init__(
        self, session_id: str, *, session_settings: SessionSettings | dict[str, Any] | None = None, **options: Any
    ) -> None:
        """Take the session's key, or the full id of a Maestro session; `project`, `maestro`, `ttl_seconds`, settings.

        Nothing is opened yet.
        """
        super().__init__(**options)
        self.session_id = session_id
        self.session_settings = coerce_session_settings(session_settings or SessionSettings())
        self._binding = self.binding(KIND, session_id)
        self._is_closed = False

    @classmethod
    def current(cls, *, maestro: AsyncMaestro | None = None, **options: Any) -> Self:
        """Join the session this checkout is on. Reads a file; raises NoActiveSession when it is on none."""
        own = {name: options.pop(name) for name in ("ttl_seconds", "session_settings") if name in options}
        chosen = maestro or AsyncMaestro(**options)
        session = cls(chosen.blocking.sessions.resolve(), maestro=chosen, **own)
        session._is_own = maestro is None
        return session

    def _check(self) -> None:
        if self._is_closed:
            raise RuntimeError("the session is closed")

    async def get_items(self, limit: int | None = None, *, wrapper: Any = None) -> list[Item]:  # noqa: ARG002
        """Return the conversation, or the latest `limit` items of it, oldest first."""
        self._check()
        wanted = limit if limit is not None else self.session_settings.limit
        if wanted is None:
            return [item for item in await self._binding.items(_read, _item) if item is not None]
        window = wanted
        while window > 0:
            messages = await self._binding.messages(last=window)
            found = _items(messages)
            if len(found) >= wanted or len(messages) < window:
                return found[-wanted:]
            window *= 2
        return []

    async def add_items(self, items: list[Item], *, wrapper: Any = None) -> None:  # noqa: ARG002
        """Add items, all of them or none."""
        self._check()
        if items:
            await settled(self._binding.write(_added(Entries(), items)))

    async def pop_item(self, *, wrapper: Any = None) -> Item | None:  # noqa: ARG002
        """Take the latest item back and return it; None when there is none."""
        self._check()
        return await settled(self._pop())

    async def _pop(self) -> Item | None:
        while (message := await self._binding.pop()) is not None:
            if (found := _item(message)) is not None:
                return found
        return None

    async def clear_session(self, *, wrapper: Any = None) -> None:  # noqa: ARG002
        """Take every item back; they stay in the record."""
        self._check()
        with suppress(SessionNotFound):
            await settled(self._binding.write(Entries().clear(), begins=False))

    async def _atomic_replace_items(self, items: list[Item]) -> bool:
        """Replace the conversation in one step, as compaction does; False for classes that may keep items elsewhere."""
        self._check()
        if type(self) is not MaestroSession:
            return False
        await settled(self._binding.write(_added(Entries().clear(), items)))
        return True

    async def maestro_id(self) -> str | None:
        """Return the id of the Maestro session; None when nothing was added yet."""
        self._check()
        return await self._binding.find()

    async def ping(self) -> bool:
        """Tell whether the server can be reached."""
        self._check()
        try:
            await (await self.here()).server.connection.call("PING")
        except MaestroError:
            return False
        return True

    async def close(self) -> None:
        """Close for good; a Maestro that was given stays open. Closing twice is nothing."""
        if not self._is_closed:
            self._is_closed = True
            await super().close()


def _added(step: Entries, items: list[Item]) -> Entries:
    for item in items:
        role, content, parts = _said(item)
        step.message(role, content, metadata=packed(KIND, item), **parts)
    return step


def _said(item: Item) -> tuple[str, str, dict[str, Any]]:
    """Return role, text and tool calls of an item."""
    if not isinstance(item, dict):
        return "system", "", {}
    kind, call_id = str(item.get("type", "message")), item.get("call_id")
    if item.get("role") in _ROLES:
        return _ROLES[item["role"]], text_of(item.get("content")), {}
    if kind.endswith("_output") and isinstance(call_id, str) and call_id:
        output = item.get("output")
        text = text_of(output) if isinstance(output, str | list) else shown(json.dumps(output, default=str))
        return "tool", text, {"tool_results": [{"call_id": shown(call_id), "content": text}]}
    if kind.endswith("_call") and isinstance(call_id or item.get("id"), str) and (call_id or item["id"]):
        asked = item.get("arguments", item.get("input", item.get("action")))
        name = shown(str(item.get("name", kind)))
        call = {
            "id": shown(call_id or item["id"]),
            "name": name,
            "arguments": packed("", asked).get("", shown(str(asked))),
        }
        return "assistant", "", {"tool_calls": [call]}
    return "assistant", text_of(item.get("summary"), ("summary_text",)), {}


def _items(messages: list[Message]) -> list[Item]:
    found = map(_item, messages)
    return [item for item in found if item is not None]


def _item(message: Message) -> Item | None:
    """Return a message as an item: its own, or what a terminal or another framework said; results have no call here."""
    item = unpacked(KIND, message)
    if item is not None or message.role == "tool" or not message.content:
        return item
    return {"role": message.role, "content": message.content}


_read = reader(KIND, _item)
