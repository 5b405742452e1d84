"""Being told to leave: SIGTERM and SIGINT as something to wait for."""

from __future__ import annotations

import signal
import threading
from types import FrameType


def leave_on_signal() -> threading.Event:
    """Return what is set when this process is asked to leave; a second signal says nothing new."""
    leaving = threading.Event()

    def leave(number: int, frame: FrameType | None) -> None:
        del number, frame
        leaving.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, leave)
    return leaving
