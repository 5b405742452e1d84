"""What is said in a graph: messages in its channels, as messages of the session. Imported with the framework only."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, RemoveMessage, ToolMessage, message_to_dict

from maestro_state.adapters.binding import Entries
from maestro_state.adapters.items import named, packed, shown, text_of
from maestro_state.adapters.langgraph_checkpoints import SAID, name
from maestro_state.models.message import Message

KIND = "langgraph"
#: Where a message was said: namespace, channel, and what it is known by there.
AT = "langgraph_at"
#: What a message that removes all others is known by.
ALL = "__remove_all__"

_ROLES = {"human": "user", "user": "user", "ai": "assistant", "assistant": "assistant", "tool": "tool",
          "function": "tool", "system": "system", "developer": "system"}  # fmt: skip


class Said(NamedTuple):
    """A message in a channel, and what it is known by."""

    key: str
    channel: str
    item: Any


def messages_in(channel: str, value: Any, place: str = "") -> Iterator[Said]:
    """Yield the messages of a channel's value, one or a list of nothing else; without an id its place counts."""
    items = value if isinstance(value, list | tuple) else [value]
    if not items or not all(_is_message(item) for item in items):
        return
    for number, item in enumerate(items):
        if isinstance(item, RemoveMessage):
            continue
        if known := _id_of(item):
            yield Said(f"id {known}", channel, item)
        else:
            yield Said(f"at {place}{channel} {number} {digest_of(item)}", channel, item)


def digest_of(item: Any) -> str:
    """Return what tells one message from another that says something else."""
    return hashlib.sha256(repr(_parts(item)).encode(errors="replace")).hexdigest()[:16]


def is_same(message: Message, item: Any) -> bool:
    """Tell whether a message of the session says what a message of a graph does."""
    role, text, parts = _parts(item)
    found = (message.role, message.content, message.tool_calls or None, message.tool_results or None)
    return found == (role, text, parts.get("tool_calls"), parts.get("tool_results"))


def removed_in(value: Any) -> set[str]:
    """Return what the messages are known by that a write takes back."""
    items = value if isinstance(value, list | tuple) else [value]
    return {f"id {named(item.id)}" if item.id != ALL else ALL for item in items if isinstance(item, RemoveMessage)}


def say(step: Entries, namespace: str, said: Said) -> None:
    """Add a message to a step, once however often it comes."""
    role, text, parts = _parts(said.item)
    step.once(name(SAID, said.key))
    step.message(role, text, metadata=_metadata(said.item) | {AT: [namespace, said.channel, said.key]}, **parts)


def place_of(message: Message) -> tuple[str, str, str] | None:
    """Return where a message of the session was said; None when it was not said in a graph."""
    found = (message.metadata or {}).get(AT)
    return (str(found[0]), str(found[1]), str(found[2])) if isinstance(found, list) and len(found) == 3 else None


def _is_message(item: Any) -> bool:
    return isinstance(item, BaseMessage) or (
        isinstance(item, dict) and item.get("role") in _ROLES and "content" in item
    )


def _id_of(item: Any) -> str | None:
    found = item.get("id") if isinstance(item, dict) else item.id
    return named(found) if isinstance(found, str) and found else None


def _metadata(item: Any) -> dict[str, Any]:
    whole = item if isinstance(item, dict) else message_to_dict(item)
    try:
        return packed(KIND, whole)
    except (TypeError, ValueError, RecursionError):  # something beside the message that only its program knows
        return packed(KIND, json.loads(json.dumps(whole, default=str, skipkeys=True)))


def _parts(item: Any) -> tuple[str, str, dict[str, Any]]:
    """Return role, text and tool calls of a message."""
    if isinstance(item, dict):
        return _ROLES[item["role"]], text_of(item["content"]), {}
    kind = str(getattr(item, "role", item.type)).removesuffix("MessageChunk").lower()
    text = text_of(item.content if isinstance(item.content, str) else list(map(_block, item.content)))
    if isinstance(item, ToolMessage) and item.tool_call_id:
        return "tool", text, {"tool_results": [{"call_id": shown(item.tool_call_id), "content": text}]}
    calls = [
        {"id": shown(call["id"]), "name": shown(call["name"]), "arguments": packed("", call["args"]).get("")}
        for call in (item.tool_calls if isinstance(item, AIMessage) else [])
        if call.get("id")
    ]
    return _ROLES.get(kind, "assistant"), text, {"tool_calls": calls} if calls else {}


def _block(block: Any) -> Any:
    return {"type": "text", "text": block} if isinstance(block, str) else block
