"""Waiting in tests: for something to become true, with a message for when it does not."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_POLL_S = 0.01
#: Longest wait, in seconds. It costs nothing when all is well; a busy machine may hold a process up for many seconds.
TIMEOUT_S = 60.0


def wait_until(predicate: Callable[[], object], message: str, timeout_s: float = TIMEOUT_S) -> None:
    """Return when `predicate()` is true; fail with `message` when it is not in time."""
    pause = threading.Event()
    ends_at = time.monotonic() + timeout_s
    while not predicate():
        if time.monotonic() >= ends_at:
            raise AssertionError(f"waited {timeout_s} s: {message}")
        pause.wait(_POLL_S)
