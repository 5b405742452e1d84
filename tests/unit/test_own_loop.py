"""The event loop of an adapter's blocking half: who waits for a call is told when the loop is stopped."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import CancelledError, Future

import pytest

from maestro_state.adapters.blocking import OwnLoop


def test_a_call_under_way_ends_when_the_loop_is_stopped():
    """Another thread closes the adapter: the call is cancelled, not waited for, for ever."""
    own, begun, ended = OwnLoop(), threading.Event(), Future[str]()

    async def never() -> None:
        begun.set()
        await asyncio.get_running_loop().create_future()

    def wait() -> None:
        try:
            own.run(never())
        except CancelledError:
            ended.set_result("told")

    threading.Thread(target=wait, daemon=True).start()
    begun.wait()
    own.stop()

    assert ended.result(timeout=60) == "told"
    with pytest.raises(ZeroDivisionError):  # the next call begins another one
        own.run(fails())
    own.stop()
    for thread in threading.enumerate():
        if thread.name == "maestro-adapter":
            thread.join()


async def fails() -> None:
    """Fail."""
    raise ZeroDivisionError
