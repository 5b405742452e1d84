"""Waiting for what a person types, and hearing signals from the first moment of the wait on."""

from __future__ import annotations

import os
import select
import signal


def await_typed(descriptor: int) -> None:
    """Return when there is something to read, or the end of it.

    A signal that comes just before the wait is slept through by anything that only reads: a Ctrl-C of the moment in
    which a question appears. The wakeup descriptor ends the wait, and the handlers run.
    """
    woken, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    before = signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    try:
        while descriptor not in (ready := select.select([descriptor, woken], [], [])[0]):
            os.read(ready[0], 64)  # what interrupts is raised by the handlers, which run here
    finally:
        signal.set_wakeup_fd(before)
        os.close(woken)
        os.close(wake)
