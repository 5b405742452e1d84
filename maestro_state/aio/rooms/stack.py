# Generated from maestro_state.local.stack by `make generate`. Do not edit.
"""The embedded stack of a project, seen from a command: is it there, stop it."""

from __future__ import annotations

from collections.abc import Callable

from maestro_state.aio.companion import Room
from maestro_state.local.stack import Stack, StackStatus, StackStopped


class AsyncStack(Room[Stack]):
    """The embedded server; a server of somebody else's is asked about, never stopped."""

    async def status(self) -> StackStatus:
        """Tell whether the embedded server runs, and where."""
        return await self._call(lambda room: room.status())

    async def stop(self, progress: Callable[[int], None] = lambda _: None) -> StackStopped:
        """Stop the embedded server when everything is on disk; `progress` is told how many sessions are not yet.

        Takes as long as the disk gets on. What could not be written is counted in the answer: it is safe in the
        server's own file, and written the next time.
        """
        return await self._call(lambda room: room.stop(progress))
