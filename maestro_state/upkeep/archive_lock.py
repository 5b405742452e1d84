"""Work under an archive's lock, begun as soon as whoever holds it lets go."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from maestro_state.errors import ArchiveBusy

T = TypeVar("T")

#: How often a lock is tried, and the pause between in seconds: a minute in all.
_TRIES = 3000
_PAUSE_S = 0.02


def once_unlocked(
    action: Callable[[], T],
    *,
    meanwhile: Callable[[], object] = lambda: None,
    tries: int = _TRIES,
    pause_s: float = _PAUSE_S,
) -> T:
    """Do something that raises ArchiveBusy while another has the lock; `meanwhile` is done before each pause."""
    for _ in range(tries):
        try:
            return action()
        except ArchiveBusy:
            meanwhile()
            time.sleep(pause_s)
    return action()
