"""The lease of the one scheduler that is active in a whole team; its place is taken when it is gone."""

from __future__ import annotations

import os

from maestro_state.api.server import AsyncServer
from maestro_state.clock import new_idempotency_key
from maestro_state.state.calls import leases as ops
from maestro_state.state.calls.checkpoints import read_time
from maestro_state.state.calls.leases import CLEANED, SCHEDULE, SWEPT, Lease


class AsyncSchedule:
    """One scheduler among others."""

    def __init__(self, server: AsyncServer) -> None:
        """Take a name nobody else has."""
        self._server = server
        self._holder = f"{os.uname().nodename}:{os.getpid()}:{new_idempotency_key()}"

    async def take(self, lease: Lease | None = None) -> Lease:
        """Take the lease, or keep the one given; one without a fence says that it is somebody else's. Repeatable."""
        holder, fence = (lease.holder, lease.fence or "0") if lease else (self._holder, "0")
        call = ops.take_lease(self._server.terms, SCHEDULE, holder, await self.now_ms(), fence)
        taken: Lease = await self._server.run(call)
        return taken

    async def leave(self, lease: Lease) -> None:
        """Let the next one in without waiting for the lease to end."""
        await self._server.run(ops.release_lease(self._server.terms, SCHEDULE, lease))

    async def note_swept(self, lease: Lease | None = None) -> bool:
        """Remember that a pass was made; False when the lease was lost meanwhile."""
        return await self._note(SWEPT, lease)

    async def note_cleaned(self, lease: Lease | None = None) -> bool:
        """Remember that the disk was cleaned up; False when the lease was lost meanwhile."""
        return await self._note(CLEANED, lease)

    async def _note(self, field: str, lease: Lease | None) -> bool:
        fence = lease.fence if lease and lease.fence else "0"
        call = ops.note_upkeep(self._server.terms, field, await self.now_ms(), fence)
        is_believed: bool = await self._server.run(call)
        return is_believed

    async def now_ms(self) -> int:
        """Return the server's time."""
        now: int = await self._server.fetch(read_time())
        return now
