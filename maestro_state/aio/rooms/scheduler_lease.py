# Generated from maestro_state.upkeep.scheduler_lease by `make generate`. Do not edit.
"""The lease of the one scheduler that is active in a whole team; its place is taken when it is gone."""

from __future__ import annotations

from maestro_state.aio.companion import Room
from maestro_state.models.lease import Lease
from maestro_state.upkeep.scheduler_lease import Schedule


class AsyncSchedule(Room[Schedule]):
    """One scheduler among others."""

    async def take(self, lease: Lease | None = None) -> Lease:
        """Take the lease, or keep the one given; one without a fence says that it is somebody else's. Repeatable."""
        return await self._call(lambda room: room.take(lease))

    async def release(self, lease: Lease) -> None:
        """Let the next one in without waiting for the lease to end."""
        await self._call(lambda room: room.release(lease))

    async def note_swept(self, lease: Lease | None = None) -> bool:
        """Remember that a pass was made; False when the lease was lost meanwhile."""
        return await self._call(lambda room: room.note_swept(lease))

    async def note_cleaned(self, lease: Lease | None = None) -> bool:
        """Remember that the disk was cleaned up; False when the lease was lost meanwhile."""
        return await self._call(lambda room: room.note_cleaned(lease))

    async def now_ms(self) -> int:
        """Return the server's time."""
        return await self._call(lambda room: room.now_ms())

    async def has_work(self, within_s: float) -> bool:
        """Tell whether a pass would find something: changes that are not on disk, open runs, sessions that end soon."""
        return await self._call(lambda room: room.has_work(within_s))
