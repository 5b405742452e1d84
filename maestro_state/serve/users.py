"""Who things are done for: a Maestro for each user, so that what is changed is changed in that name."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from maestro_state.aio.maestro import AsyncMaestro

#: Users whose connections are kept open at a time, beside those who are being served.
_KEPT = 64


class Users:
    """The Maestros of users."""

    def __init__(self, own: AsyncMaestro, project: Any, settings: dict[str, Any]) -> None:
        """Take the one of whoever started the server, and what others are made of."""
        self._own, self._project, self._settings = own, project, settings
        self._open: OrderedDict[str, AsyncMaestro] = OrderedDict()
        self._busy: Counter[str] = Counter()
        self._opening = asyncio.Lock()

    @asynccontextmanager
    async def acting_for(self, user: str) -> AsyncIterator[AsyncMaestro]:
        """Have the Maestro that does things in a user's name, for as long as this lasts."""
        if user == self._own.settings.user:
            yield self._own
            return
        self._busy[user] += 1
        try:
            yield self._open.get(user) or await self._opened(user)
        finally:
            self._busy[user] -= 1
            if user in self._open:
                self._open.move_to_end(user)
            await self._close_some()

    async def _opened(self, user: str) -> AsyncMaestro:
        async with self._opening:
            if user not in self._open:
                self._open[user] = await AsyncMaestro(self._project, **{**self._settings, "user": user}).open()
            return self._open[user]

    async def _close_some(self) -> None:
        """Close those that were used longest ago, while there are too many; nobody's who is being served."""
        for user in list(self._open)[: max(0, len(self._open) - _KEPT)]:
            if user in self._open and not self._busy[user]:  # else another request has closed it meanwhile
                del self._busy[user]
                await self._open.pop(user).close()

    async def close(self) -> None:
        """Close all of them."""
        for maestro in self._open.values():
            await maestro.close()
        self._open.clear()
