"""Messages between processes of one user: a length, then parts with a NUL between them. None can be in a part: ids have
none, and the kernel ends each variable with one. Imports nothing: the command that asks for a run comes through here.
"""

from __future__ import annotations

#: Largest message taken, in bytes: an environment is bounded by the kernel to less.
MAX_BYTES = 8 << 20


def packed(*parts: bytes) -> bytes:
    """Return a message as it is sent."""
    body = b"\0".join(parts)
    return len(body).to_bytes(4, "big") + body


class Unpacked:
    """Puts messages together from whatever pieces they come in."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> list[list[bytes]]:
        """Take some bytes and return the messages that are whole by now; ValueError for one that is too large."""
        self._data += data
        found = []
        while len(self._data) >= 4:
            size = int.from_bytes(self._data[:4], "big")
            if size > MAX_BYTES:
                raise ValueError("the message is too large")
            if len(self._data) < 4 + size:
                break
            found.append(bytes(self._data[4 : 4 + size]).split(b"\0"))
            del self._data[: 4 + size]
        return found
