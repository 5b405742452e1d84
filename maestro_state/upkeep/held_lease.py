"""A lease in the hands of one who sweeps: taken, kept between two sessions, and given back with what the next one
goes on from.
"""

from __future__ import annotations

import os
import secrets
import time

from maestro_state._sync.server import Server
from maestro_state.models.lease import Lease
from maestro_state.state.calls import leases
from maestro_state.state.calls.checkpoints import read_time

#: Seconds between two reads of the server's clock.
_READ_S = 1.0


class LeaseLostError(Exception):
    """Somebody else took over, because we were silent for too long."""


def new_holder() -> str:
    """Return a name for one pass that no other has."""
    return f"{os.uname().nodename}:{os.getpid()}:{secrets.token_hex(4)}"


class HeldLease:
    """A lease that one pass tries to have; `fence` is None when it is somebody else's."""

    def __init__(self, server: Server, task: str, holder: str) -> None:
        """Take it, if it is free."""
        self._server, self.task, self._holder = server, task, holder
        self.taken_ms = self._renewed_ms = self._now_ms()
        self.lease: Lease = self._take("0")
        self.is_ours = self.lease.fence is not None

    def _now_ms(self) -> int:
        self._read_s = time.monotonic()
        now_ms: int = self._server.fetch(read_time())
        return now_ms

    def _take(self, fence: str) -> Lease:
        call = leases.take_lease(self._server.terms, self.task, self._holder, self._renewed_ms, fence)
        lease: Lease = self._server.run(call)
        return lease

    def beat(self) -> None:
        """Keep it; raises LeaseLostError when somebody else has it by now. Mostly costs nothing."""
        if time.monotonic() - self._read_s < _READ_S:
            return
        now_ms = self._now_ms()
        if now_ms - self._renewed_ms > leases.lease_ms(self.task) // 5:
            self._renewed_ms = now_ms
            if self._take(self.lease.fence or "0").fence is None:
                raise LeaseLostError

    def release(self, notes: dict[str, str] | None = None) -> None:
        """Let the next one in, and tell it what to go on from."""
        self._server.run(leases.release_lease(self._server.terms, self.task, self.lease, notes))
