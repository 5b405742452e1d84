"""Requests that wait for something: as long as they may, and no longer than the server has."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Waits:
    """Those that wait now."""

    def __init__(self) -> None:
        """Begin with none."""
        self._limits: set[asyncio.Timeout] = set()
        self.is_over = False  #: nobody waits any more: the server stops

    @asynccontextmanager
    async def at_most(self, seconds: float) -> AsyncIterator[None]:
        """Do something for so long; TimeoutError when the time is over, or the server stops."""
        async with asyncio.timeout(0 if self.is_over else seconds) as limit:
            self._limits.add(limit)
            try:
                yield
            finally:
                self._limits.discard(limit)

    def end(self) -> None:
        """Have everybody answer now, with what there is."""
        self.is_over = True
        now = asyncio.get_running_loop().time()
        for limit in self._limits:
            limit.reschedule(now)
