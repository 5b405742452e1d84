"""Rate limits: how often a token or an address may ask."""

from __future__ import annotations

from collections import OrderedDict
from time import monotonic

from maestro_state.serve.request import Failure

#: Most callers that are remembered; who has asked least lately is forgotten first.
_MOST = 4096


class RateLimit:
    """A token bucket for each caller: so often a second on the long run, so often at once."""

    def __init__(self, rate: float, burst: float) -> None:
        """Take both."""
        self._rate, self._burst = rate, burst
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def spend(self, who: str) -> None:
        """Let somebody do it once more; refuse who has spent what flowed to them."""
        now = monotonic()
        left, since = self._left.pop(who, (self._burst, now))
        left = min(self._burst, left + (now - since) * self._rate) - 1
        self._left[who] = (max(0.0, left), now)
        if len(self._left) > _MOST:
            self._left.popitem(last=False)
        if left < 0:
            wait_s = str(max(1, round(1 / self._rate)))
            raise Failure(429, "too_many_requests", "too many requests", "wait a moment", {"retry-after": wait_s})
