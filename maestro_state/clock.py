"""Time and identity behind two functions each, so that tests own them.

Times are integer milliseconds since the epoch everywhere inside; text only at the edges (`iso`).
"""

from __future__ import annotations

import os
import time
from binascii import b2a_base64
from datetime import UTC, datetime
from functools import lru_cache
from typing import Self

_BASE36 = "0123456789abcdefghijklmnopqrstuvwxyz"


def now_ms() -> int:
    """Return the wall clock in milliseconds."""
    return time.time_ns() // 1_000_000


def iso(ms: int) -> str:
    """Write milliseconds as ISO 8601 in UTC, the form every file and document uses."""
    minute, rest = divmod(ms, 60_000)
    return "%s:%06.3f+00:00" % (_minute(minute), rest / 1000)  # noqa: UP031 - a third faster than an f-string


@lru_cache(maxsize=4096)
def _minute(minutes: int) -> str:
    # Times come in runs of the same minute, and this is three quarters of what writing one costs.
    return datetime.fromtimestamp(minutes * 60, UTC).isoformat(timespec="minutes").removesuffix("+00:00")


def from_iso(text: str) -> int:
    """Read ISO 8601 back; a time without a zone, which Maestro never writes, is local time: its writer meant that."""
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def new_suffix() -> str:
    """Return six random base36 characters: the second half of a session id."""
    # 36**6 of 2**64: the bias is below one in a billion
    number = int.from_bytes(os.urandom(8))
    return "".join(_BASE36[number // 36**place % 36] for place in range(6))


def _random_text(size: int) -> str:
    # What the secrets module does, without the 6 ms that importing it costs every command.
    return b2a_base64(os.urandom(size), newline=False).decode().replace("+", "-").replace("/", "_")


def new_idempotency_key() -> str:
    """Return an id that makes one call recognisable when it is sent again (96 random bits, 16 characters)."""
    return _random_text(12)


def new_secret() -> str:
    """Return 256 random bits, as 43 characters that need no escaping anywhere."""
    return _random_text(32).rstrip("=")


class CallSequence:
    """A sequence of calls, one at a time: repeats are recognised by the number of the last one alone.

    Lent for as long as a `with` lasts, then idle again; without what a generator costs.
    """

    __slots__ = ("_idle", "_name", "_number")

    def __init__(self, idle: list[CallSequence]) -> None:
        """Take a name nobody else has (48 random bits: it must be unique within one session for a minute)."""
        self._idle = idle
        self._name = _random_text(6)
        self._number = 0

    def next_key(self) -> str:
        """Return the id of the next call."""
        self._number += 1
        return f"{self._name}:{self._number}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._idle.append(self)
