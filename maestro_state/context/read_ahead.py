"""Reading ahead: the next batch is read and hashed while the server stores the one before."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future

Batch = TypeVar("Batch")

#: Batches read, or being read, and not yet asked for: memory stays bounded however many files there are.
_AHEAD = 3


def ahead(batches: Iterable[Batch]) -> Generator[Batch, None, None]:
    """Yield what `batches` yields, produced by a thread of its own; what it raises is raised here."""
    from concurrent.futures import ThreadPoolExecutor  # takes longer to import than a few files to read

    source = iter(batches)
    # Also when the caller stops early: the files it reads from are closed after the thread has ended.
    with ThreadPoolExecutor(1, thread_name_prefix="read-ahead") as thread:
        coming: deque[Future[Batch | None]] = deque(thread.submit(next, source, None) for _ in range(_AHEAD))
        try:
            while (batch := coming.popleft().result()) is not None:
                coming.append(thread.submit(next, source, None))
                yield batch
        finally:
            thread.shutdown(cancel_futures=True)
