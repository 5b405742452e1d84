"""Which faults are worth another try, and after what pause: the one retry policy.

Pure: decides, never sleeps or connects. One loop asks it (`async_calls`, and `sync_calls` made from that), for the wire
client and for redis-py alike, so that a lost server looks the same from everywhere. Every call Maestro makes is safe to
repeat (a change carries an idempotency key), so repeating is the answer to every fault that passes.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from maestro_state.net.faults import Fault, ReplyError, is_passing, refusal, unreachable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from maestro_state.net.url import Address

#: Seconds a client that had been connected keeps trying.
RETRY_S: Final = 5.0
#: Seconds to wait for a connection or an answer.
TIMEOUT_S: Final = 5.0
#: Seconds that a blocking read may come later than it promised.
BLOCK_MARGIN_S: Final = 5.0
#: First and longest pause between two tries, in seconds; the queue's client has the same.
PAUSE_S: Final = 0.01
PAUSE_MAX_S: Final = 0.5


class RetryPolicy:
    """Decide after each fault of one call whether, and after what pause, it is tried again.

    A client that had been connected keeps trying for `retry_s` from the first fault on. One that never was
    gives up after a second try, so that a wrong address is known at once, except that answers such as LOADING
    prove the address right. Reviving the server, once per call, buys the whole `retry_s` too.
    """

    __slots__ = ("_clock", "_ends_at", "_pause_s", "_revived", "_tries", "address", "known", "retry_s")

    def __init__(
        self, address: Address, *, known: bool, retry_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Start with the first fault of a call; `known` says that this client had been connected before."""
        self.address = address
        self.known = known
        self.retry_s = retry_s
        self._clock = clock
        self._ends_at: float | None = None
        self._pause_s = 0.0
        self._tries = 0
        self._revived = False

    def wants_revival(self, fault: Fault) -> bool:
        """Tell, once, that nobody listens at the address: the moment to start the server there."""
        if self._revived or not isinstance(fault, (ConnectionRefusedError, FileNotFoundError)):
            return False
        self._revived = self.known = True
        return True

    def pause_after(self, fault: Fault) -> float:
        """Return the seconds to wait before the next try, or raise ServerUnavailable when it is over."""
        now = self._clock()
        if self._ends_at is None:
            self._ends_at = now + self.retry_s
        self._tries += 1
        if isinstance(fault, ReplyError):
            self.known = True
        if now >= self._ends_at or (not self.known and self._tries > 1):
            raise unreachable(self.address, fault)
        pause_s = min(self._pause_s, self._ends_at - now)
        # The first repeat comes at once: most often it was an idle connection that the server had closed.
        self._pause_s = min(max(self._pause_s * 2, PAUSE_S), PAUSE_MAX_S)
        return pause_s


class Caller:
    """What the clients of both worlds share: what they know of their server, and what its replies mean."""

    #: One command may name keys of several sessions; a cluster refuses that.
    is_one_server = True

    def __init__(self, address: Address, *, revive: Callable[[], object] | None = None) -> None:
        """Remember where the server is; `revive` starts one that is not there."""
        self.retry_s = RETRY_S
        self.address = address
        self._revive = revive
        #: It has answered once: its address is right.
        self._known = False

    def _policy(self) -> RetryPolicy:
        return RetryPolicy(self.address, known=self._known, retry_s=self.retry_s)

    def _after(self, fault: Fault) -> None:
        """Take note of a fault before it is decided what follows."""

    def _passing(self, replies: Sequence[Any]) -> ReplyError | None:
        """Return the first reply that would be another one later; raise the first error, if there is no such reply."""
        errors = [reply for reply in replies if type(reply) is ReplyError]
        passing = next(filter(is_passing, errors), None)
        if errors and passing is None:
            raise refusal(errors[0], self.address)
        return passing


def block_limit_s(block_ms: int) -> float:
    """Return how long a read that waits in the server may take, in seconds; 0 is without limit."""
    return block_ms / 1000 + BLOCK_MARGIN_S if block_ms else 0.0
