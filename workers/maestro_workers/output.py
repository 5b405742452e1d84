"""Hand output on to the server while the tool goes on printing.

A slow tool's pieces are sent one by one as they come. A fast one's wait here while those before are on their way, and
go together: the tool, the worker and the server then work at the same time instead of in turns. What waits is bounded.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Condition

#: Bytes that go to the server together, about; and bytes that may wait before the tool is held up.
BATCH_BYTES = 4 << 20
WAITING_BYTES = 4 << 20


class Outbox:
    """The pieces of one run's output, in order. For one thread: what sending raises is raised in the next call."""

    def __init__(self, send: Callable[[int, list[bytes]], bool], piece_bytes: int) -> None:
        """Take what sends pieces from an offset on and says whether to stop; whole pieces are sent by a thread."""
        self._send = send
        self._piece_bytes = piece_bytes
        self._room = Condition()
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._is_draining = False
        #: Made for the first whole piece: most tools never print that fast.
        self._thread: ThreadPoolExecutor | None = None
        self._drained: Future[None] | None = None
        #: Bytes that the server has for certain.
        self.stored = 0
        self.is_canceled = False

    def put(self, data: bytes) -> None:
        """Send a piece, or leave it to be sent; comes back late when too much waits already."""
        with self._room:
            self._room.wait_for(lambda: not self._is_draining or self._waiting_bytes < WAITING_BYTES)
            if self._is_draining:
                self._append(data)
                return
        self.flush()
        if len(data) < self._piece_bytes:
            self._deliver([data])
            return
        self._append(data)
        self._is_draining = True
        self._thread = self._thread or ThreadPoolExecutor(1, "output")
        self._drained = self._thread.submit(self._drain)

    def flush(self) -> None:
        """Come back when the server has everything."""
        if self._drained is not None:
            self._drained.result()

    def close(self) -> None:
        """End the thread; what was not sent by then is dropped."""
        with self._room:
            self._waiting.clear()
        if self._thread is not None:
            self._thread.shutdown()

    def _append(self, data: bytes) -> None:
        self._waiting.append(data)
        self._waiting_bytes += len(data)

    def _drain(self) -> None:
        try:
            while batch := self._take():
                self._deliver(batch)
        except BaseException:
            with self._room:  # nobody is to wait for room that will not come
                self._is_draining = False
                self._room.notify()
            raise

    def _take(self) -> list[bytes]:
        """Take the next pieces; with none, the draining is over in the same moment, so that none is left behind."""
        with self._room:
            count, size = 0, 0
            while count < len(self._waiting) and size < BATCH_BYTES:
                size += len(self._waiting[count])
                count += 1
            batch, self._waiting = self._waiting[:count], self._waiting[count:]
            self._waiting_bytes -= size
            self._is_draining = bool(batch)
            self._room.notify()
            return batch

    def _deliver(self, pieces: list[bytes]) -> None:
        self.is_canceled = self._send(self.stored, pieces) or self.is_canceled
        self.stored += sum(map(len, pieces))
