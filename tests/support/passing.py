"""Letting time pass for one session on both of its clocks, without waiting."""

from __future__ import annotations

from typing import Any

import redis

from maestro_state.clock import now_ms
from tests.support.backends import Clock

#: How long ago the sessions of these tests were last active, and how long they live.
AGO_S = 100
TTL_S = 60


def long_ago() -> Clock:
    """Return a clock that stood still then: whoever writes by it leaves records and archives of that time."""
    return Clock(now_ms() - AGO_S * 1000)


def let_pass(raw: redis.Redis, maestro: Any, session_id: str, seconds: float = AGO_S) -> None:
    """Take time off the life that the server counts; a key that has none left is gone, as at its end."""
    for key in maestro.server.terms.keys.session(session_id):
        left = raw.pttl(key)
        if left > 0:
            raw.pexpire(key, int(left - seconds * 1000))
