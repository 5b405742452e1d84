"""A framework's own item in a message's metadata: whole, under the framework's name, and equal when it comes back."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from maestro_state.models.message import Message
from maestro_state.state.calls.messages import message_of

#: What follows a framework's name where its item is kept as text, since JSON in UTF-8 has no form for it.
_AS_TEXT = "_json"


def packed(kind: str, item: Any) -> dict[str, Any]:
    """Return metadata that holds an item: as JSON, so that everybody can read it, or as text of JSON where that would
    come back as another one (half a character, NaN, a number of more than 64 bits).
    """
    with suppress(TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        if msgspec.json.decode(msgspec.json.encode(item)) == item:
            return {kind: item}
    return {kind + _AS_TEXT: json.dumps(item)}


def written(item: Any) -> bytes:
    """Write what JSON has a form for, also half a character or NaN; `read` reads both."""
    try:
        return msgspec.json.encode(item)
    except UnicodeEncodeError:
        return json.dumps(item).encode()


def read(data: bytes) -> Any:
    """Read what `written` wrote."""
    return json.loads(data) if b"\\ud" in data else msgspec.json.decode(data)


def named(text: str) -> str:
    """Return a text as a part of a name that is kept; one with half a character as JSON writes it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return f"\0{json.dumps(text)}"
    return text


def unpacked(kind: str, message: Message) -> Any:
    """Return the item that a message holds; None when another framework, or a terminal, wrote it."""
    return item_in(kind, message.metadata or {})


def item_in(kind: str, metadata: dict[str, Any]) -> Any:
    """Return the item that the metadata of a message holds, or None."""
    if kind in metadata:
        return metadata[kind]
    text = metadata.get(kind + _AS_TEXT)
    return json.loads(text) if isinstance(text, str) else None


def reader(kind: str, otherwise: Callable[[Message], Any]) -> Callable[[list[Any]], Any]:
    """Return what takes an item from a stored message: straight where it is all that is beside the text, as in most."""
    decode = msgspec.json.decode

    def read(entry: list[Any]) -> Any:
        fields = entry[1]
        if len(fields) == 4 and fields[2] == b"metadata" and kind in (metadata := decode(fields[3])):
            return metadata[kind]
        return otherwise(message_of(entry))

    return read


def shown(text: str) -> str:
    """Return a text as it can be shown everywhere: half a character is none."""
    return text.encode(errors="replace").decode()


def text_of(content: Any, kinds: tuple[str, ...] = ("text", "input_text", "output_text", "refusal")) -> str:
    """Return the text of what a model was told or said, a string or a list of blocks."""
    if isinstance(content, str):
        return shown(content)
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    found = (block.get("text", block.get("refusal")) for block in blocks if block.get("type") in kinds)
    return shown("\n".join(text for text in found if isinstance(text, str)))
