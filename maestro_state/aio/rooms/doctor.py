# Generated from maestro_state.upkeep.doctor by `make generate`. Do not edit.
"""Checking a set-up: what `maestro doctor` checks and repairs."""

from __future__ import annotations

from maestro_state.aio.companion import Room
from maestro_state.state.calls.health import Check
from maestro_state.upkeep.doctor import Health


class AsyncHealth(Room[Health]):
    """The checks, each with what to do about it."""

    async def checks(self) -> list[Check]:
        """Check everything; never raises for what it finds."""
        return await self._call(lambda room: room.checks())

    async def repair(self) -> list[str]:
        """Set a damaged index.json aside and rebuild it from the live and the archived sessions, have a damaged
        log of the embedded server start from what is whole, and save what can be saved of damaged records; say what was
        done.
        """
        return await self._call(lambda room: room.repair())
