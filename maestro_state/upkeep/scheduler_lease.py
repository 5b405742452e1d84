"""The lease of the one scheduler that is active in a whole team; its place is taken when it is gone."""

from __future__ import annotations

import os

from maestro_state._sync.server import Server
from maestro_state.clock import new_idempotency_key
from maestro_state.models.lease import Lease
from maestro_state.state.calls import checkpoints, index
from maestro_state.state.calls import leases as ops
from maestro_state.state.calls.checkpoints import read_time
from maestro_state.state.calls.leases import CLEANED, LEASE_MS, SCHEDULE, SWEPT, is_due

__all__ = ["BEAT_S", "Schedule", "is_due"]

#: Seconds between two heartbeats of the active one: two may be lost.
BEAT_S = LEASE_MS[SCHEDULE] / 1000 / 3


class Schedule:
    """One scheduler among others."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._holder = f"{os.uname().nodename}:{os.getpid()}:{new_idempotency_key()}"

    def take(self, lease: Lease | None = None) -> Lease:
        """Take the lease, or keep the one given; one without a fence says that it is somebody else's. Repeatable."""
        holder, fence = (lease.holder, lease.fence or "0") if lease else (self._holder, "0")
        call = ops.take_lease(self._server.terms, SCHEDULE, holder, self.now_ms(), fence)
        taken: Lease = self._server.run(call)
        return taken

    def release(self, lease: Lease) -> None:
        """Let the next one in without waiting for the lease to end."""
        self._server.run(ops.release_lease(self._server.terms, SCHEDULE, lease))

    def note_swept(self, lease: Lease | None = None) -> bool:
        """Remember that a pass was made; False when the lease was lost meanwhile."""
        return self._note(SWEPT, lease)

    def note_cleaned(self, lease: Lease | None = None) -> bool:
        """Remember that the disk was cleaned up; False when the lease was lost meanwhile."""
        return self._note(CLEANED, lease)

    def _note(self, field: str, lease: Lease | None) -> bool:
        fence = lease.fence if lease and lease.fence else "0"
        call = ops.note_upkeep(self._server.terms, field, self.now_ms(), fence)
        is_believed: bool = self._server.run(call)
        return is_believed

    def now_ms(self) -> int:
        """Return the server's time."""
        now: int = self._server.fetch(read_time())
        return now

    def has_work(self, within_s: float) -> bool:
        """Tell whether a pass would find something: changes that are not on disk, open runs, sessions that end soon."""
        terms = self._server.terms
        soon_ms = self.now_ms() + int(within_s * 1000)
        queries = [
            *checkpoints.count_dirty(terms),
            *index.running_sessions(terms),
            *checkpoints.any_due(terms, soon_ms),
        ]
        return any(self._server.fetch_all(queries))
