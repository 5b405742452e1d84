"""Children of this process: what a fork needs is loaded already, and none outlives its parent."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import traceback
from collections.abc import Callable, Container
from contextlib import suppress
from dataclasses import dataclass, field

_PR_SET_PDEATHSIG = 1

#: First pause before something that ended is started again, in seconds; doubled each time,
FIRST_PAUSE_S = 0.5
#: up to this one.
LONGEST_PAUSE_S = 60.0
#: What lived this long is well again: its next pause is the first one.
WELL_AFTER_S = 60.0


@dataclass(slots=True)
class Backoff:
    """When to start something again that ends: what cannot live must not be started all the time."""

    due_s: float = field(default=0.0, init=False)
    pause_s: float = field(default=FIRST_PAUSE_S, init=False)

    def reset(self) -> None:
        """Note that it lived well."""
        self.pause_s = FIRST_PAUSE_S

    def delay(self, now_s: float) -> None:
        """Put the next start off, twice as long as the last time."""
        self.due_s = now_s + self.pause_s
        self.pause_s = min(2 * self.pause_s, LONGEST_PAUSE_S)


def fork(work: Callable[[], int]) -> int:
    """Do `work` in a child, in a session of its own, that is killed when this process dies; return its pid.

    Call it while there is no thread that could hold a lock the child needs.
    """
    bind = bound_to_parent()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.setsid()  # Ctrl-C in the terminal is for the parent to pass on
        signal.signal(signal.SIGQUIT, lambda _number, _frame: os._exit(1))  # without the core file it has by default
        if bind is not None:
            bind()
        code = work()
    except BaseException:  # noqa: BLE001  # whatever it is, a child never goes on as its parent
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):  # nobody reads it any more
                stream.flush()
        os._exit(code)


def bound_to_parent() -> Callable[[], None] | None:
    """Return what a child has to do first so that it is killed when this process dies, where that exists."""
    if sys.platform != "linux":
        return None
    # Loaded here: between fork and exec nothing may be imported.
    prctl = ctypes.CDLL(None).prctl
    parent = os.getpid()

    def bind() -> None:
        prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)  # it died before the line above; nobody will tell us

    return bind


def collect(pid: int) -> int | None:
    """Return how a child exited (negative: by which signal), None while it runs; what it started is killed then."""
    if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        return None
    # Before it is collected: its number cannot be anybody else's yet.
    signal_group(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def collect_orphans(own: Container[int]) -> None:
    """Collect what has exited and is nobody's: the first process of a container inherits what others leave behind.

    Its own children are collected by whoever started them.
    """
    with suppress(ChildProcessError):  # there are none
        while found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if found.si_pid in own:
                return  # the others come next
            os.waitpid(found.si_pid, 0)


def signal_group(group: int, number: signal.Signals) -> None:
    """Send a signal to a child with all of its group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
