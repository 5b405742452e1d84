# Generated from maestro_state.api.bindings by `make generate`. Do not edit.
"""Bindings: the key of another framework stands for one session, made once, gone on with when it has ended."""

from __future__ import annotations

from maestro_state.aio.companion import Room
from maestro_state.api.bindings import Bindings
from maestro_state.live.bindings import AsyncBoundKeys


class AsyncBindings(Room[Bindings], AsyncBoundKeys):
    """Keys of other frameworks, each bound to one session."""

    async def ensure(self, kind: str, key: str, *, ttl_seconds: int | None = None) -> str:
        """Return a session to write to under a key: found, made, or a fork of one that has ended.

        However many ask at once, they get the same one. Whoever is killed here has done nothing, or what the next one
        goes on with.
        """
        return await self._call(lambda room: room.ensure(kind, key, ttl_seconds=ttl_seconds))

    async def delete(self, kind: str, key: str) -> bool:
        """Remove every session of a key, live and archived, and the binding; tell whether there was one."""
        return await self._call(lambda room: room.delete(kind, key))
