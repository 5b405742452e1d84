"""The blocking half of an adapter: an event loop in a thread of its own, which others wait for."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import AsyncIterator, Coroutine, Iterator
from concurrent.futures import Future
from typing import Any, TypeVar

from maestro_state.net.fork import let_go_in_child

T = TypeVar("T")


class OwnLoop:
    """An event loop that runs while it is used; begun by the first call, again after it was stopped or forked."""

    def __init__(self) -> None:
        """Begin nothing yet."""
        self._beginning = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        let_go_in_child(self)

    @property
    def is_running(self) -> bool:
        """Whether anybody has used it."""
        return self._loop is not None

    def forget(self) -> None:
        """Have none: a forked child has not got its parent's threads."""
        self._beginning = threading.Lock()
        self._loop = None

    def submit(self, call: Coroutine[Any, Any, T]) -> Future[T]:
        """Have a call awaited there."""
        with self._beginning:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=_serve, args=(self._loop,), name="maestro-adapter", daemon=True).start()
                weakref.finalize(self, _stop, self._loop)
            return asyncio.run_coroutine_threadsafe(call, self._loop)

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """Wait for a call; whoever is interrupted meanwhile takes it along."""
        future = self.submit(call)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def each(self, items: AsyncIterator[T]) -> Iterator[T]:
        """Yield items one by one as they are asked for."""

        async def following() -> tuple[T] | None:
            async for item in items:
                return (item,)
            return None

        while (found := self.run(following())) is not None:
            yield found[0]

    def stop(self) -> None:
        """End it; the next call begins another one."""
        with self._beginning:
            loop, self._loop = self._loop, None
        if loop is not None:
            _stop(loop)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:  # somebody waits for each: he is told, and not left to wait for ever
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left))
        loop.close()


def _stop(loop: asyncio.AbstractEventLoop) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(loop.stop)
