"""Time and identity behind two functions each, so that tests own them.

Times are integer milliseconds since the epoch everywhere inside; text only at the edges (`iso`).
"""

from __future__ import annotations

import secrets
import time
from datetime import UTC, datetime

_BASE36 = "0123456789abcdefghijklmnopqrstuvwxyz"


def now_ms() -> int:
    """Return the wall clock in milliseconds."""
    return time.time_ns() // 1_000_000


def iso(ms: int) -> str:
    """Write milliseconds as ISO 8601 in UTC, the form every file and document uses."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")


def from_iso(text: str) -> int:
    """Read ISO 8601 back; a time without a zone is taken as UTC."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def new_suffix() -> str:
    """Return six random base36 characters: the second half of a session id."""
    return "".join(secrets.choice(_BASE36) for _ in range(6))


def new_command_id() -> str:
    """Return an id that makes one call recognisable when it is sent again (96 random bits, 16 characters)."""
    return secrets.token_urlsafe(12)


class Lane:
    """A sequence of calls, one at a time: repeats are recognised by the number of the last one alone."""

    __slots__ = ("_name", "_number")

    def __init__(self) -> None:
        """Take a name nobody else has (48 random bits: it must be unique within one session for a minute)."""
        self._name = secrets.token_urlsafe(6)
        self._number = 0

    def next_command_id(self) -> str:
        """Return the id of the next call."""
        self._number += 1
        return f"{self._name}:{self._number}"
