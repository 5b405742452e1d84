"""The files of a new generation, made while the next ones are still being fetched.

A few are made by the caller. Many are made by threads: each has folders of its own, so that none waits for another's,
and what is written to one file stays in order. Everything is read back and compared at once, byte by byte.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from maestro_state.errors import ArchiveFailed
from maestro_state.fs.tree import Tree

#: Threads: as many as it takes to keep a disk's queue filled while one of them waits.
_SCRIBES = 2
#: Files, and bytes, that are handed to the threads together; fewer are not worth starting them.
_BATCH_FILES, _BATCH_BYTES = 32, 1 << 20
#: Bytes that may wait for one thread before the caller is held up.
_WAITING_BYTES = 8 << 20

#: Path, content, and the size of the file made before to whose end it goes; None for a new one.
Writing = tuple[str, bytes, int | None]


class Scribes:
    """All writing to one tree, for one caller; what fails in a thread is raised in a later call, at last by `drain`."""

    def __init__(self, open_tree: Callable[[], Tree]) -> None:
        """Take what opens the tree: every thread has handles of its own."""
        self._open_tree = open_tree
        self._batch: list[Writing] = []
        self._batch_bytes = 0
        self._scribes: list[_Scribe] = []
        self._scribe_of: dict[str, int] = {}

    def write(self, path: str, content: bytes, at: int | None = None) -> None:
        """Make a file with this content, or add to one made before; it is there after `drain`."""
        self._batch.append((path, content, at))
        self._batch_bytes += len(content)
        if len(self._batch) >= _BATCH_FILES or self._batch_bytes >= _BATCH_BYTES:
            self._hand_over()

    def _hand_over(self) -> None:
        while len(self._scribes) < _SCRIBES:  # one by one: `close` ends those there are if the next cannot be had
            self._scribes.append(_Scribe(self._open_tree()))
        shares: list[list[Writing]] = [[] for _ in self._scribes]
        for writing in self._batch:
            folder = writing[0].rpartition("/")[0]
            shares[self._scribe_of.setdefault(folder, len(self._scribe_of) % _SCRIBES)].append(writing)
        self._batch, self._batch_bytes = [], 0
        for scribe, share in zip(self._scribes, shares, strict=True):
            if share:
                scribe.put(share)

    def drain(self) -> None:
        """Come back when everything is done; raise what failed."""
        if self._scribes:
            self._hand_over()
        elif self._batch:
            batch, self._batch, self._batch_bytes = self._batch, [], 0
            with self._open_tree() as tree:
                _write(tree, batch)
        for scribe in self._scribes:
            scribe.wait(0)

    def close(self) -> None:
        """End the threads; what waits is not done any more. Repeatable."""
        self._batch, self._batch_bytes = [], 0
        for scribe in self._scribes:
            scribe.close()
        self._scribes = []


class _Scribe:
    """One thread that writes one batch after the other."""

    def __init__(self, tree: Tree) -> None:
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
