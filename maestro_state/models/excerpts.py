"""What a message keeps of a long text whose whole is kept elsewhere: its two ends."""

from __future__ import annotations

#: Largest text that a message of a run holds itself, in bytes; of a longer one it holds as much of both ends together.
INLINE_BYTES = 16_384

_HALF = INLINE_BYTES // 2


class Excerpt:
    """A text that comes in pieces, of which only what a message keeps is held."""

    def __init__(self) -> None:
        self._head = b""
        self._tail = b""
        self.size = 0

    def add(self, data: bytes) -> None:
        """Take the next piece."""
        if room := INLINE_BYTES - len(self._head):
            self._head += data[:room]
        self._tail = data[-_HALF:] if len(data) >= _HALF else (self._tail + data)[-_HALF:]
        self.size += len(data)

    @property
    def is_cut(self) -> bool:
        """Tell whether something is left out."""
        return self.size > INLINE_BYTES

    def text(self) -> str:
        """Return what is kept, with a line in place of what is not."""
        if not self.is_cut:
            return self._head.decode(errors="replace")
        return joined(self._head[:_HALF], self._tail, self.size)


def joined(head: bytes, tail: bytes, size: int) -> str:
    """Join the two ends of a text of `size` bytes; a character that was cut through is left out."""
    left_out = size - len(head) - len(tail)
    return f"{head.decode(errors='ignore')}\n[… {left_out} bytes left out …]\n{tail.decode(errors='ignore')}"


def excerpt_of(content: bytes) -> tuple[str, bool]:
    """Return what a message keeps of a text, and whether that is not all."""
    if len(content) <= INLINE_BYTES:
        return content.decode(errors="replace"), False
    return joined(content[:_HALF], content[-_HALF:], len(content)), True
