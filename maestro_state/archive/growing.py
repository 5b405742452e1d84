"""A file of a new generation that is written piece by piece."""

from __future__ import annotations

import hashlib
import os

from maestro_state.archive import layout
from maestro_state.archive.tree import Tree
from maestro_state.disk import write_all

#: What a file that grows in small pieces gathers before it is written.
_BUFFER_BYTES = 1 << 17


class Growing:
    """One such file; its descriptor is let go of while others are written."""

    def __init__(self, tree: Tree, path: str) -> None:
        """Make the file, which must not be there."""
        self.path = path
        self._tree = tree
        self._hash = hashlib.sha256()
        self.size = 0
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._descriptor: int | None = tree.create(path)

    def write(self, content: bytes) -> None:
        """Add to its end."""
        self._waiting.append(content)
        self._waiting_bytes += len(content)
        if self._waiting_bytes >= _BUFFER_BYTES:
            self._flush()

    def _flush(self) -> None:
        if not self._waiting:
            return
        content = b"".join(self._waiting)
        self._waiting.clear()
        self._waiting_bytes = 0
        if self._descriptor is None:
            self._descriptor = self._tree.reopen(self.path)
        write_all(self._descriptor, content)
        self._hash.update(content)
        self.size += len(content)

    def finish(self) -> layout.FileEntry:
        """Write what waits, close it, and say what it is."""
        self._flush()
        self.close()
        return layout.FileEntry(self._hash.hexdigest(), self.size)

    def rest(self) -> None:
        """Write what waits and let the descriptor go until there is more."""
        self._flush()
        self.close()

    def close(self) -> None:
        """Let the descriptor go. Repeatable."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def entry(self) -> layout.FileEntry:
        """Say what it is so far."""
        self._flush()
        return layout.FileEntry(self._hash.hexdigest(), self.size)
