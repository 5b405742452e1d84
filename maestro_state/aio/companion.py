"""The blocking Maestro beside an async one, and what rooms that are reached through it have in common."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar, cast

from maestro_state.api.maestro import Maestro
from maestro_state.net.fork import let_go_in_child
from maestro_state.net.threads import in_verb_thread

R = TypeVar("R")
T = TypeVar("T")

_END: Any = object()


class Companion:
    """A blocking Maestro that is made, used and closed in threads."""

    def __init__(self, make: Callable[[], Maestro]) -> None:
        """Take what makes it; nothing is done before it is needed."""
        self._make = make
        self._maestro: Maestro | None = None
        self.forget()
        let_go_in_child(self)

    def forget(self) -> None:
        """Forget the calls under way: a forked child has none of their threads."""
        self._lock = threading.RLock()
        self._is_idle = threading.Condition()
        self._running = 0

    def open(self) -> Maestro:
        """Return the blocking Maestro; whoever comes first makes it, which reads files."""
        with self._lock:
            if self._maestro is None:
                self._maestro = self._make()
            return self._maestro

    async def call(self, enter: Callable[[Maestro], R], verb: Callable[[R], T]) -> T:
        """Enter a room and call a verb there, in a thread. Canceled, the call is not made, or done to its end."""
        return await in_verb_thread(self._call, enter, verb)

    def _call(self, enter: Callable[[Maestro], R], verb: Callable[[R], T]) -> T:
        with self._counted():
            with self._lock:  # entered once, whichever thread comes first
                room = enter(self.open())
            return verb(room)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        with self._is_idle:
            self._running += 1
        try:
            yield
        finally:
            with self._is_idle:
                self._running -= 1
                self._is_idle.notify_all()

    def close(self) -> None:
        """Close it when the calls under way are done: those whose caller was canceled, too."""
        with self._is_idle:
            self._is_idle.wait_for(lambda: not self._running)
        if self._maestro is not None:
            self._maestro.close()


class Room(Generic[R]):
    """A room whose verbs are those of the blocking one. Callbacks are called in the thread that does the work."""

    def __init__(self, companion: Companion, enter: Callable[[Maestro], R], *args: Any) -> None:
        """Take which room of which Maestro this one stands for; what else there is, is for the room it extends."""
        super().__init__(*args)
        self._companion = companion
        self._enter = enter

    async def _call(self, verb: Callable[[R], T]) -> T:
        return await self._companion.call(self._enter, verb)

    async def _pull(self, verb: Callable[[R], Iterator[T]]) -> AsyncIterator[T]:
        """Yield what a verb yields, each pulled in a thread."""
        pulled, turn = cast(Generator[T, None, None], await self._call(verb)), threading.Lock()

        def following(_: R) -> T:
            with turn:
                return next(pulled, _END)

        def close(_: R) -> None:
            with turn:  # a pull whose caller was canceled goes on: it is closed after that
                pulled.close()

        try:
            while (one := await self._call(following)) is not _END:
                yield one
        finally:
            await self._call(close)
