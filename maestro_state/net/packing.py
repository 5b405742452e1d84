"""Commands as they go over the wire, in parts: large arguments are sent from where they are, not copied first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hiredis import pack_command

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Arguments of at least so many bytes are parts of their own.
_LARGE: Final = 8 * 1024


def packed_parts(commands: Sequence[tuple[Any, ...]]) -> list[bytes]:
    """Return commands as parts that are to be sent one after the other."""
    parts: list[bytes] = []
    small: list[bytes] = []
    for command in commands:
        for argument in command:  # any() would take longer than packing does
            if type(argument) is bytes and len(argument) >= _LARGE:
                break
        else:
            small.append(pack_command(command))
            continue
        small.append(b"*%d\r\n" % len(command))
        for argument in command:
            value = argument if type(argument) is bytes else str(argument).encode()
            if len(value) < _LARGE:
                small.append(b"$%d\r\n%b\r\n" % (len(value), value))
                continue
            small.append(b"$%d\r\n" % len(value))
            parts += (b"".join(small), value)
            small = [b"\r\n"]
    if small:
        parts.append(b"".join(small))
    return parts
