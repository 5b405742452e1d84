"""The one way out of the event loop: blocking work, done by threads of our own.

Not asyncio's own threads: what somebody else keeps waiting there must not keep sessions waiting, nor the other way
round. The generated twin of `live` calls straight instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import ParamSpec, TypeVar

from maestro_state.net.fork import let_go_in_child

P = ParamSpec("P")
T = TypeVar("T")

#: Each waits for the disk or the server most of the time; more would only keep the loop from its turn.
THREADS = 16
#: Whole verbs have threads of their own: one may wait for a lock, or for a worker, and then keeps only others of its
#: kind waiting, not whoever has a file to look at for a moment.
VERBS = 64


class _Threads:
    """An executor, and another one in a forked child, which has none of its parent's threads."""

    def __init__(self) -> None:
        self.forget()
        let_go_in_child(self)

    def forget(self) -> None:
        self.executor = ThreadPoolExecutor(THREADS, thread_name_prefix="maestro")
        self.verbs = ThreadPoolExecutor(VERBS, thread_name_prefix="maestro-verb")


_threads = _Threads()


async def in_thread(call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call something that blocks, in a thread. Canceled while it waits for one it is not called; later it is done."""
    context = copy_context()
    return await asyncio.get_running_loop().run_in_executor(
        _threads.executor, lambda: context.run(call, *args, **kwargs)
    )


async def in_verb_thread(call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a whole verb, which may take its time, in a thread; as `in_thread`."""
    context = copy_context()
    return await asyncio.get_running_loop().run_in_executor(_threads.verbs, lambda: context.run(call, *args, **kwargs))
