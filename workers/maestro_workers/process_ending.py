"""Ending the processes below one: all that it started, and all that they did, in whatever groups and sessions they are.

A process that adopts orphans stays above everything its children start, however often they fork and let go. So it can
end them all, and the kernel tells it when there is none left. Where there is no such call, or no /proc, only direct
children are found.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable

from maestro_state.local.process_tree import Process, below, start_of

#: Seconds between two polls of what was killed: the first, and the longest.
_PAUSES_S = (0.001, 0.05)
#: Times that new processes are searched for before those found are killed: each finds only what slipped through before.
_FREEZES = 50


def send(process: Process, number: signal.Signals) -> bool:
    """Send a signal to exactly this process; False when it may not be."""
    try:
        if not hasattr(os, "pidfd_open"):
            os.kill(process.pid, number)
            return True
        handle = os.pidfd_open(process.pid)
        try:
            if start_of(process.pid) == process.started:
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False  # it became another user, as `sudo` does
    return True


def reap() -> tuple[dict[int, int], bool]:
    """Collect children that have ended, by pid with their exit codes (negative for a signal); tell if any is left."""
    codes: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return codes, False
        if pid == 0:
            return codes, True
        codes[pid] = os.waitstatus_to_exitcode(status)


def kill(found: Iterable[Process]) -> list[Process]:
    """Kill processes; return those that may not be killed."""
    return [process for process in found if not send(process, signal.SIGKILL)]


def freeze(root: int) -> list[Process]:
    """Stop everything below a process, so that nobody forks while others are killed; return what was found."""
    frozen: set[Process] = set()
    for _ in range(_FREEZES):
        found = set(below(root)) - frozen
        if not found:
            break
        for process in found:
            send(process, signal.SIGSTOP)
        frozen |= found
    return list(frozen)


def end_all(within_s: float) -> tuple[dict[int, int], int]:
    """End everything below this process, which adopts orphans.

    Returns the exit codes of those that were its children, and how many are left: another user's, or in the kernel's
    hands for longer than `within_s`.
    """
    codes: dict[int, int] = {}
    until_s = time.monotonic() + within_s
    pause_s, longest_s = _PAUSES_S
    while True:
        ended, are_more = reap()
        codes |= ended
        if not are_more:
            return codes, 0
        found = freeze(os.getpid())
        if len(refused := kill(found)) == len(found) > 0 or time.monotonic() > until_s:
            return codes, len(refused or found)
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, longest_s)
