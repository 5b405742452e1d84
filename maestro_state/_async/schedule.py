"""Taking turns at keeping house: one scheduler is active in a whole team, and its place is taken when it is gone."""

from __future__ import annotations

import os

from maestro_state._async.server import AsyncServer
from maestro_state.clock import new_command_id
from maestro_state.ops import scheduling as ops
from maestro_state.ops.scheduling import CLEANED, SWEPT, Turn


class AsyncSchedule:
    """One scheduler among others."""

    def __init__(self, server: AsyncServer) -> None:
        """Take a name nobody else has."""
        self._server = server
        self._holder = f"{os.uname().nodename}:{os.getpid()}:{new_command_id()}"

    async def take(self, turn: Turn | None = None) -> Turn:
        """Take the turn, or keep the one given; one without a fence says that it is somebody else's. Repeatable."""
        holder, fence = (turn.holder, turn.fence or "0") if turn else (self._holder, "0")
        call = ops.take_turn(self._server.terms, holder, await self.now_ms(), fence)
        taken: Turn = await self._server.run(call)
        return taken

    async def leave(self, turn: Turn) -> None:
        """Let the next one in without waiting for the lease to end."""
        await self._server.run(ops.leave_turn(self._server.terms, turn))

    async def note_swept(self, turn: Turn | None = None) -> bool:
        """Remember that a pass was made; False when the turn was lost meanwhile."""
        return await self._note(SWEPT, turn)

    async def note_cleaned(self, turn: Turn | None = None) -> bool:
        """Remember that the disk was cleaned up; False when the turn was lost meanwhile."""
        return await self._note(CLEANED, turn)

    async def _note(self, field: str, turn: Turn | None) -> bool:
        fence = turn.fence if turn and turn.fence else "0"
        call = ops.note_upkeep(self._server.terms, field, await self.now_ms(), fence)
        is_believed: bool = await self._server.run(call)
        return is_believed

    async def now_ms(self) -> int:
        """Return the server's time."""
        now: int = await self._server.fetch(ops.server_time())
        return now
