"""The files of a new generation, made while the next ones are still being fetched.

A few are made by the caller. Many are made by threads: each has folders of its own, so that none waits for another's,
and what is written to one file stays in order. Everything is read back and compared at once, byte by byte.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from maestro_state.errors import ArchiveFailed
from maestro_state.fs.entry import FileEntry
from maestro_state.fs.tree import Tree

if TYPE_CHECKING:
    from concurrent.futures import Future

#: Threads: as many as it takes to keep a disk's queue filled while one of them waits.
_THREADS = 2
#: Files, and bytes, that are handed to the threads together; fewer are not worth starting them.
_BATCH_FILES, _BATCH_BYTES = 32, 1 << 20
#: Bytes that may wait for one thread before the caller is held up.
_WAITING_BYTES = 8 << 20

#: What a file gathers before it is written; most are complete by then.
_BUFFER_BYTES = 1 << 19

#: Path, content, and the size of the file made before to whose end it goes; None for a new one.
Writing = tuple[str, bytes, int | None]


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


class Writers:
    """All writing to one tree, for one caller; what fails in a thread is raised in a later call, at last by `drain`."""

    def __init__(self, open_tree: Callable[[], Tree]) -> None:
        """Take what opens the tree: every thread has handles of its own."""
        self._open_tree = open_tree
        self._batch: list[Writing] = []
        self._batch_bytes = 0
        self._writers: list[_Writer] = []
        self._writer_of: dict[str, int] = {}

    def write(self, path: str, content: bytes, at: int | None = None) -> None:
        """Make a file with this content, or add to one made before; it is there after `drain`."""
        self._batch.append((path, content, at))
        self._batch_bytes += len(content)
        if len(self._batch) >= _BATCH_FILES or self._batch_bytes >= _BATCH_BYTES:
            self._hand_over()

    def _hand_over(self) -> None:
        while len(self._writers) < _THREADS:  # one by one: `close` ends those there are if the next cannot be had
            self._writers.append(_Writer(self._open_tree()))
        shares: list[list[Writing]] = [[] for _ in self._writers]
        for writing in self._batch:
            folder = writing[0].rpartition("/")[0]
            shares[self._writer_of.setdefault(folder, len(self._writer_of) % _THREADS)].append(writing)
        self._batch, self._batch_bytes = [], 0
        for writer, share in zip(self._writers, shares, strict=True):
            if share:
                writer.put(share)

    def drain(self) -> None:
        """Come back when everything is done; raise what failed."""
        if self._writers:
            self._hand_over()
        elif self._batch:
            batch, self._batch, self._batch_bytes = self._batch, [], 0
            with self._open_tree() as tree:
                _write(tree, batch)
        for writer in self._writers:
            writer.wait(0)

    def close(self) -> None:
        """End the threads; what waits is not done any more. Repeatable."""
        self._batch, self._batch_bytes = [], 0
        for writer in self._writers:
            writer.close()
        self._writers = []


class _Writer:
    """One thread that writes one batch after the other."""

    def __init__(self, tree: Tree) -> None:
        from concurrent.futures import ThreadPoolExecutor  # takes longer to import than a few files to write

        self._tree = tree
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="archive")
        self._waiting: deque[tuple[int, Future[None]]] = deque()
        self._waiting_bytes = 0

    def put(self, batch: list[Writing]) -> None:
        self.wait(_WAITING_BYTES)
        size = sum(len(content) for _, content, _ in batch)
        try:
            self._waiting.append((size, self._thread.submit(_write, self._tree, batch)))
        except RuntimeError as error:
            raise ArchiveFailed(f"the archive could not be written: {error}", hint="try again") from error
        self._waiting_bytes += size

    def wait(self, most: int) -> None:
        """Come back when no more than so many bytes wait; raise what failed."""
        while self._waiting and (self._waiting_bytes > most or not most or self._waiting[0][1].done()):
            size, done = self._waiting.popleft()
            self._waiting_bytes -= size
            done.result()

    def close(self) -> None:
        self._thread.shutdown(cancel_futures=True)
        self._tree.close()


def _write(tree: Tree, batch: list[Writing]) -> None:
    for path, content, at in batch:
        tree.write(path, content, at)
