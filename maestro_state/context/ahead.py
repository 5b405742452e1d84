"""Reading ahead: the next batch is read and hashed while the server stores the one before."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Iterable
from contextlib import suppress
from typing import TypeVar

Batch = TypeVar("Batch")

#: Batches read but not yet sent: memory stays bounded however many files there are.
_AHEAD = 2

#: How long the reading thread waits for room before it looks whether it is still wanted, in seconds.
_LOOK_S = 0.1


def ahead(batches: Iterable[Batch]) -> Generator[Batch, None, None]:
    """Yield what `batches` yields, produced by a thread of its own; what it raises is raised here."""
    # None ends it; an exception stands for itself.
    waiting: queue.Queue[tuple[Batch | None, BaseException | None]] = queue.Queue(_AHEAD)
    stopped = threading.Event()

    def put(batch: Batch | None, error: BaseException | None) -> None:
        while not stopped.is_set():
            with suppress(queue.Full):
                waiting.put((batch, error), timeout=_LOOK_S)
                return

    def produce() -> None:
        try:
            for batch in batches:
                put(batch, None)
                if stopped.is_set():
                    return
        except BaseException as error:  # noqa: BLE001 - handed over, and raised where the batches are used
            put(None, error)
        else:
            put(None, None)

    thread = threading.Thread(target=produce, name="read-ahead")
    thread.start()
    try:
        while True:
            batch, error = waiting.get()
            if error is not None:
                raise error
            if batch is None:
                return
            yield batch
    finally:
        # Also when the caller stops early: the files it reads from are closed after this.
        stopped.set()
        thread.join()
