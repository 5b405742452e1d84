# Generated from maestro_state/_async by `make generate`. Do not edit.
"""Taking turns at keeping house: one scheduler is active in a whole team, and its place is taken when it is gone."""

from __future__ import annotations

import os

from maestro_state._sync.server import Server
from maestro_state.clock import new_command_id
from maestro_state.ops import scheduling as ops
from maestro_state.ops.scheduling import CLEANED, SWEPT, Turn


class Schedule:
    """One scheduler among others."""

    def __init__(self, server: Server) -> None:
        """Take a name nobody else has."""
        self._server = server
        self._holder = f"{os.uname().nodename}:{os.getpid()}:{new_command_id()}"

    def take(self, turn: Turn | None = None) -> Turn:
        """Take the turn, or keep the one given; one without a fence says that it is somebody else's. Repeatable."""
        holder, fence = (turn.holder, turn.fence or "0") if turn else (self._holder, "0")
        call = ops.take_turn(self._server.terms, holder, self.now_ms(), fence)
        taken: Turn = self._server.run(call)
        return taken

    def leave(self, turn: Turn) -> None:
        """Let the next one in without waiting for the lease to end."""
        self._server.run(ops.leave_turn(self._server.terms, turn))

    def note_swept(self, turn: Turn | None = None) -> bool:
        """Remember that a pass was made; False when the turn was lost meanwhile."""
        return self._note(SWEPT, turn)

    def note_cleaned(self, turn: Turn | None = None) -> bool:
        """Remember that the disk was cleaned up; False when the turn was lost meanwhile."""
        return self._note(CLEANED, turn)

    def _note(self, field: str, turn: Turn | None) -> bool:
        fence = turn.fence if turn and turn.fence else "0"
        call = ops.note_upkeep(self._server.terms, field, self.now_ms(), fence)
        is_believed: bool = self._server.run(call)
        return is_believed

    def now_ms(self) -> int:
        """Return the server's time."""
        now: int = self._server.fetch(ops.server_time())
        return now
