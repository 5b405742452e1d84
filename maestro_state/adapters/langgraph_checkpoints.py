"""How checkpoints of a graph are kept in a session: their names and their form. Knows no framework.

    ["head", ns]                         the id of the newest checkpoint of a namespace
    ["checkpoint", ns, id]               a checkpoint without its values, its metadata, its parent
    ["writes", ns, id]                   what tasks wrote for the step after it, a log
    ["value", ns, channel, version]      a value, once for all checkpoints that have it
    ["said", key]                        that a message was said already

Names are JSON: namespaces, channels and ids are only data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from maestro_state.errors import FileCorrupt, InvalidValue

HEAD, CHECKPOINT, WRITES, VALUE, SAID = "head", "checkpoint", "writes", "value", "said"

#: A value as a serializer writes it: the name of its form, and bytes.
Typed = tuple[str, bytes]

_SIZE = 4


class Stored(msgspec.Struct, frozen=True, array_like=True):
    """A checkpoint as it is kept; its values are kept beside it, by channel and version."""

    parent: str | None
    checkpoint: Typed
    metadata: Typed


class Write(msgspec.Struct, frozen=True, array_like=True):
    """What a task wrote to a channel; a negative number is one of the framework's own channels."""

    task_id: str
    number: int
    channel: str
    value: Typed
    task_path: str

    @property
    def order(self) -> tuple[str, str, int]:
        """Where it stands among the writes of its step: as they are applied."""
        return self.task_path, self.task_id, self.number


_encode = msgspec.msgpack.encode
_stored = msgspec.msgpack.Decoder(Stored).decode
_write = msgspec.msgpack.Decoder(Write).decode
_name = msgspec.json.Decoder(list[Any]).decode


def name(kind: str, *parts: Any) -> str:
    """Write a name."""
    return msgspec.json.encode([kind, *parts]).decode()


def parts_of(kind: str, names: Iterable[str]) -> list[list[Any]]:
    """Return the parts of all names of a kind."""
    begin = f'["{kind}",'
    return [_name(one)[1:] for one in names if one.startswith(begin)]


def checked(value: Typed) -> Typed:
    """Refuse a value that only pickle could read again."""
    if value[0].split("+")[0] == "pickle":
        raise InvalidValue(
            "this value can only be kept by pickle, which is never read back",
            hint="make the value of plain types, dataclasses or pydantic models, or give a serde for it",
        )
    return value


def pack(value: Typed) -> bytes:
    """Write a value."""
    return _encode(checked(value))


def unpack(data: bytes) -> Typed:
    """Read a value."""
    form, content = msgspec.msgpack.decode(data, type=Typed)
    return checked((form, content))


def pack_checkpoint(stored: Stored) -> bytes:
    """Write a checkpoint."""
    checked(stored.checkpoint)
    checked(stored.metadata)
    return _encode(stored)


def unpack_checkpoint(data: bytes) -> Stored:
    """Read a checkpoint."""
    found = _stored(data)
    checked(found.checkpoint)
    checked(found.metadata)
    return found


def pack_writes(writes: Iterable[Write]) -> bytes:
    """Write some entries of the log of writes, each with its size before it."""
    packed = [_encode(write) for write in writes if checked(write.value)]
    return b"".join(len(one).to_bytes(_SIZE, "big") + one for one in packed)


def unpack_writes(log: bytes) -> list[Write]:
    """Read a log of writes, in the order they are applied: of one task and number the first counts, of the
    framework's own channels the last.
    """
    found: dict[tuple[str, int], Write] = {}
    for write in _entries(log):
        checked(write.value)
        place = (write.task_id, write.number)
        if write.number < 0 or place not in found:
            found[place] = write
    return sorted(found.values(), key=lambda write: write.order)


def _entries(log: bytes) -> Iterator[Write]:
    at = 0
    while at < len(log):
        size = int.from_bytes(log[at : at + _SIZE], "big")
        entry = log[at + _SIZE : at + _SIZE + size]
        if len(entry) < size:
            raise FileCorrupt("the writes of a checkpoint are cut off")
        yield _write(entry)
        at += _SIZE + size
