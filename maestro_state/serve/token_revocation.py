"""Who is let in for longer than a moment: streams that end when the token they were opened with does.

A token may be revoked by another process. While somebody who has one follows anything, the tokens in use are read
once a second, all in one call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from maestro_state.errors import MaestroError
from maestro_state.local.logs import get_logger

if TYPE_CHECKING:
    from maestro_state.aio.maestro import AsyncMaestro
    from maestro_state.serve.request import Caller

log = get_logger("maestro.serve")

#: Seconds after which a revoked token's streams end, at most.
CHECK_S = 1.0


class RevocationWatch:
    """The streams that are open, by token."""

    def __init__(self, maestro: AsyncMaestro) -> None:
        """Take what reads tokens."""
        self._maestro = maestro
        self._open: dict[str, set[Callable[[], None]]] = {}
        self._checking: asyncio.Task[None] | None = None

    @contextmanager
    def staying(self, caller: Caller, end: Callable[[], None]) -> Iterator[None]:
        """Have `end` called when the caller's token does not count any more, while this lasts."""
        token_id = caller.token_id
        if token_id is None:
            yield
            return
        self._open.setdefault(token_id, set()).add(end)
        if self._checking is None or self._checking.done():
            self._checking = asyncio.create_task(self._check())
        try:
            yield
        finally:
            ends = self._open.get(token_id, set())
            ends.discard(end)
            if not ends:
                self._open.pop(token_id, None)

    async def _check(self) -> None:
        while self._open:
            await asyncio.sleep(CHECK_S)
            with suppress(MaestroError):  # who cannot be asked says nothing against anybody
                counting = await self._maestro.tokens.counting([*self._open])
                for token_id in set(self._open) - counting:
                    ends = self._open.pop(token_id)
                    log.info("streams_ended", by=token_id, streams=len(ends), reason="the token does not count")
                    for end in ends:
                        end()

    async def close(self) -> None:
        """Stop checking."""
        if self._checking is not None:
            self._checking.cancel()
            with suppress(asyncio.CancelledError):
                await self._checking
