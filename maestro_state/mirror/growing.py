"""A file of an archive that is written piece by piece."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from maestro_state.fs.entry import FileEntry

#: What a file gathers before it is written; most are complete by then.
_BUFFER_BYTES = 1 << 19


class Growing:
    """One such file. No handle of it is kept: others are written meanwhile, and there may be many."""

    def __init__(self, path: str, write: Callable[[str, bytes, int | None], None], *, in_place: bool = False) -> None:
        """Name the file and what writes pieces of it, each with the size it has before; None for a new one."""
        self.path = path
        self.in_place = in_place  #: it was there before, and grows where it is
        self._write = write
        self._hash = hashlib.sha256()
        self._size = 0
        #: Bytes that were handed on to be written; None before the first.
        self._written: int | None = None
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0

    def has(self, content: bytes) -> None:
        """Take note of a piece that it has already."""
        self._hash.update(content)
        self._size += len(content)
        self._written = self._size

    def write(self, content: bytes) -> None:
        """Add to its end."""
        self._hash.update(content)
        self._size += len(content)
        self._waiting.append(content)
        self._waiting_bytes += len(content)
        if self._waiting_bytes >= _BUFFER_BYTES:
            self.rest()

    def rest(self) -> None:
        """Have what waits written."""
        if not self._waiting and self._written is not None:
            return
        content = self._waiting[0] if len(self._waiting) == 1 else b"".join(self._waiting)
        self._waiting, self._waiting_bytes = [], 0
        self._write(self.path, content, self._written)
        self._written = self._size

    def entry(self) -> FileEntry:
        """Say what the file is so far, what waits included."""
        return FileEntry(self._hash.hexdigest(), self._size)
