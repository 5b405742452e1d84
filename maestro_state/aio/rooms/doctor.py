# Generated from maestro_state.upkeep.doctor by `make generate`. Do not edit.
"""Checking a set-up: what `maestro doctor` checks and repairs."""

from __future__ import annotations

from maestro_state.aio.companion import Room
from maestro_state.state.calls.health import Check
from maestro_state.upkeep.doctor import SERVE_PORT, Health


class AsyncHealth(Room[Health]):
    """The checks, each with what to do about it."""

    async def checks(self, duty: str | None = None, port: int = SERVE_PORT) -> list[Check]:
        """Check everything, and with a duty (worker, scheduler, or serve on a port) that this machine does it; never
        raises for what it finds.
        """
        return await self._call(lambda room: room.checks(duty, port))

    async def repair(self) -> list[str]:
        """Set a damaged index.json aside and rebuild it from the live and the archived sessions, have a damaged
        log of the embedded server start from what is whole, and save what can be saved of damaged records; say what was
        done.
        """
        return await self._call(lambda room: room.repair())
