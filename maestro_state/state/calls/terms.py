"""The terms every call is made under: whose keys, who asks, how long things live. Built once by a shell."""

from __future__ import annotations

import msgspec

from maestro_state.state.keys import Keyspace

#: How far ahead a server's clock may be set by mistake, in seconds, before keys that are not on disk go with it.
CLOCK_MARGIN_S = 400 * 86_400


def unwritten_ms(grace_s: int) -> int:
    """Return how much longer keys live that are not on disk: the grace, and what a clock set wrong may take off it.

    The server counts the life of its keys by its own clock alone. Who asks for less than a day means it.
    """
    return (grace_s + (CLOCK_MARGIN_S if grace_s >= 86_400 else 0)) * 1000


class Terms(msgspec.Struct, frozen=True):
    """What a call needs to know besides its own arguments."""

    keys: Keyspace
    user: str
    ttl_ms: int  #: time to live of a new session
    grace_ms: int  #: how much longer keys live while the archive is not up to date
    idle_after_ms: int
    max_value_bytes: int  #: largest message or field
    skew_ms: int = 0  #: how far the clocks of those who use the server may differ
    wait_replicas: int = 0  #: replicas that must have a change that matters


class Stamp(msgspec.Struct, frozen=True):
    """When a call is made, and the id that makes a repeat of it recognisable."""

    now_ms: int
    idempotency_key: str
