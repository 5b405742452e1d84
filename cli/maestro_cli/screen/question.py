"""A question that is answered with yes or no, and that Ctrl-C leaves from the moment it is on the screen on."""

from __future__ import annotations

import os
import select
import signal
import sys

import click

from maestro_cli.output import safe


def confirmed(question: str) -> bool:
    """Ask a person; True for yes, and no is what a bare Enter means."""
    while True:
        sys.stdout.write(f"{safe(question)} [y/N]: ")
        sys.stdout.flush()
        answer = _typed_line().strip().lower()
        if answer in ("y", "yes"):
            return True
        if answer in ("", "n", "no"):
            return False
        sys.stdout.write("y for yes, n for no\n")


def _typed_line() -> str:
    """Return the next line; a signal that comes before anything waits for one wakes it.

    `input` shows its question and waits without a look at signals in between: a Ctrl-C of that moment is slept through.
    """
    woken, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    before = signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    try:
        while 0 not in (ready := select.select([0, woken], [], [])[0]):
            os.read(ready[0], 64)  # what interrupts is raised by the handlers, which run here
        line = os.read(0, 4096)
    finally:
        signal.set_wakeup_fd(before)
        os.close(woken)
        os.close(wake)
    if not line:
        raise click.Abort  # Ctrl-D, or the terminal is gone
    return line.decode(errors="replace")
