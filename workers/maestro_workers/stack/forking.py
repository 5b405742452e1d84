"""Children that are forks of this process: what they need is loaded already, and they die with it."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress

from maestro_workers.guard import bound_to_parent


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
            try:
                stream.flush()
            except (OSError, ValueError):
                continue  # nobody reads it any more
        os._exit(code)


def collect(pid: int) -> int | None:
    """Return how a child left (negative: by which signal), None while it runs; what it started is killed then."""
    if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        return None
    # Before it is collected: its number cannot be anybody else's yet.
    kill_group(pid)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def kill_group(group: int) -> None:
    """Kill a child with all of its group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
