"""Events of Google's ADK as messages, and its state as a log of changes. Knows values only, not the framework."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from typing import Any

import msgspec

from maestro_state.adapters.items import packed, shown, text_of, unpacked
from maestro_state.models.message import Message

KIND = "adk"
APP, USER, TEMP = "app:", "user:", "temp:"

#: Changes of a state, or bytes of them, after which its log is made one again.
_LONG, _LARGE = 64, 8 << 20

_decode = msgspec.json.Decoder(dict[str, Any]).decode


def scoped(delta: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return a change of the state by what it is of: the app, the user, the session; what is temporary is of none."""
    found: dict[str, dict[str, Any]] = {APP: {}, USER: {}, "": {}}
    for key, value in delta.items():
        scope = next((one for one in (APP, USER, TEMP) if key.startswith(one)), "")
        if scope != TEMP:
            found[scope][key.removeprefix(scope)] = value
    return found


def shared(app: dict[str, Any], user: dict[str, Any]) -> dict[str, Any]:
    """Return what is of the app and the user as a session's state shows it."""
    return {APP + key: one for key, one in app.items()} | {USER + key: one for key, one in user.items()}


def change(delta: dict[str, Any]) -> bytes:
    """Write a change of a state, as a line of its log."""
    return json.dumps(delta, default=str).encode() + b"\n"


def state_of(log: bytes) -> dict[str, Any]:
    """Read a state: all changes, one after another."""
    found: dict[str, Any] = {}
    for line in log.splitlines():
        if line != b"{}":
            found |= _read(line)
    return found


class Growth:
    """How much a log of changes has grown since it was one change, as far as is known here."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._changes = self._size = 0

    def read(self, log: bytes) -> dict[str, Any]:
        """Read a state, and note how long its log is."""
        self._changes, self._size = max(0, log.count(b"\n") - 1), len(log) - log.find(b"\n") - 1
        return state_of(log)

    def added(self, line: bytes) -> None:
        """Note a change."""
        self._changes += 1
        self._size += len(line)

    def is_long(self) -> bool:
        """Tell, once, whether it should be made one change again: what a state costs is its size."""
        if self._changes < _LONG and self._size < _LARGE:
            return False
        self._changes = self._size = 0
        return True


def _read(line: bytes) -> dict[str, Any]:
    """Read a change: ten times faster where JSON has a form for it, as in most; not NaN, nor half a character."""
    if b"\\ud" not in line:
        with suppress(msgspec.MsgspecError):
            return _decode(line)
    found: dict[str, Any] = json.loads(line)
    return found


def known_by(item: dict[str, Any]) -> str:
    """Return what an event is known by: its id, and that it is equal."""
    try:
        written = msgspec.json.encode(item, order="sorted")
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError):
        written = json.dumps(item, sort_keys=True, default=str).encode()
    return f"event {item.get('id', '')} {hashlib.sha256(written).hexdigest()[:32]}"


def metadata_of(item: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata of a message that holds an event."""
    return packed(KIND, item)


def item_of(message: Message) -> dict[str, Any] | None:
    """Return the event that a message holds; None when somebody else said it."""
    found = unpacked(KIND, message)
    return found if isinstance(found, dict) else None


def said(item: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    """Return role, text and tool calls of an event; one that only changes the state says nothing."""
    parts = [part for part in ((item.get("content") or {}).get("parts") or []) if isinstance(part, dict)]
    spoken = [{"type": "text", "text": part["text"]} for part in parts if part.get("text") and not part.get("thought")]
    text = text_of(spoken)
    calls = [
        {"id": _id(one), "name": shown(str(one.get("name") or "")), "arguments": packed("", one.get("args")).get("")}
        for part in parts
        if isinstance(one := part.get("function_call"), dict)
    ]
    results = [
        {"call_id": _id(one), "content": shown(json.dumps(one.get("response"), default=str, ensure_ascii=False))}
        for part in parts
        if isinstance(one := part.get("function_response"), dict)
    ]
    if results:
        return "tool", text or "\n".join(one["content"] for one in results), {"tool_results": results}
    if not parts:
        return "system", "", {}
    return "user" if item.get("author") == "user" else "assistant", text, {"tool_calls": calls} if calls else {}


def _id(part: dict[str, Any]) -> str:
    return shown(str(part.get("id") or part.get("name") or "call"))
