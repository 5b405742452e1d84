"""A file of a new generation that is written piece by piece."""

from __future__ import annotations

import hashlib

from maestro_state.fs.entry import FileEntry
from maestro_state.mirror.scribes import Scribes

#: What a file gathers before it is written; most are complete by then.
_BUFFER_BYTES = 1 << 19


class Growing:
    """One such file. No handle of it is kept: others are written meanwhile, and there may be many."""

    def __init__(self, scribes: Scribes, path: str) -> None:
        """Name the file; one that is there is written over."""
        self.path = path
        self._scribes = scribes
        self._hash = hashlib.sha256()
        self._size = 0
        #: Bytes that were handed on to be written; None before the first.
        self._written: int | None = None
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0

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
        self._scribes.write(self.path, content, at=self._written)
        self._written = self._size

    def entry(self) -> FileEntry:
        """Say what the file is so far, what waits included."""
        return FileEntry(self._hash.hexdigest(), self._size)
