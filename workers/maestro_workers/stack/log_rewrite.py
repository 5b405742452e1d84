"""When the embedded server writes its log anew: once it is large and nothing much is being written to it.

The server would do that by itself in the middle of a large output, when it doubles the work of server and disk.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Size in bytes from which on a log is worth it: reading one of that size costs the next start a second or so.
LARGE_BYTES = 64 << 20
#: The server is quiet when its log has grown by less than so many bytes
_LITTLE_BYTES = 1 << 20
#: in so many seconds.
QUIET_S = 5.0


@dataclass(slots=True)
class Tidying:
    """Follows the size of one log."""

    _size: int = 0
    _since_s: float = 0.0

    def is_due(self, now_s: float, size: int, rewritten_size: int) -> bool:
        """Tell whether to write the log anew, by its size now and after it was last written anew."""
        if not self._size <= size < self._size + _LITTLE_BYTES:
            self._size, self._since_s = size, now_s
        is_large = size >= LARGE_BYTES and size >= 2 * rewritten_size
        return is_large and now_s - self._since_s >= QUIET_S
