"""One thread that waits for everything at once: signals, sockets, children that end, and the time.

A process that forks its workers has no threads, so nothing may keep it waiting but this.
"""

from __future__ import annotations

import os
import selectors
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, Self


class HasDescriptor(Protocol):
    """Something that can be waited for and closed."""

    def fileno(self) -> int:
        """Return its descriptor."""

    def close(self) -> None:
        """Close it."""


class Loop:
    """Calls whoever waits for something when that is ready. SIGCHLD only ends a wait; `on_stop` hears the others."""

    #: Signals by which a process is asked to stop.
    STOP = (signal.SIGTERM, signal.SIGINT)

    def __init__(self, on_stop: Callable[[], None]) -> None:
        self._on_stop = on_stop
        self._selector = selectors.DefaultSelector()
        self._open: dict[int, HasDescriptor] = {}
        #: Further descriptors that a forked child must not keep.
        self.own: list[int] = []

    def __enter__(self) -> Self:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        signal.set_wakeup_fd(self._writer)
        for number in self.STOP:
            signal.signal(number, lambda _number, _frame: self._on_stop())
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        self._selector.register(self._reader, selectors.EVENT_READ, self._heard)
        return self

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(-1)
        self._selector.close()
        os.close(self._reader)
        os.close(self._writer)

    def add(self, source: HasDescriptor, when_readable: Callable[[], None]) -> None:
        """Have something called whenever there is something to read."""
        self._selector.register(source.fileno(), selectors.EVENT_READ, when_readable)
        self._open[source.fileno()] = source

    def drop(self, source: HasDescriptor) -> None:
        """Wait for it no longer, and close it."""
        if source.fileno() in self._open:
            self._selector.unregister(source.fileno())
            del self._open[source.fileno()]
        source.close()

    def wait(self, timeout_s: float) -> None:
        """Wait until something is ready or a signal comes, at most this long, and call who waits for it."""
        for key, _ in self._selector.select(max(0.0, timeout_s)):
            # One that was called before may have taken this one away.
            if key.fd == self._reader or key.fd in self._open:
                key.data()

    def forget(self) -> None:
        """Be a forked child: close what is the parent's, and hear signals as any process does."""
        signal.set_wakeup_fd(-1)
        for number in (*self.STOP, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        for source in self._open.values():
            source.close()
        self._open.clear()
        self._selector.close()
        for descriptor in (self._reader, self._writer, *self.own):
            os.close(descriptor)

    def _heard(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._reader, 1024)
