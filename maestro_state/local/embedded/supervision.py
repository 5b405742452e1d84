"""The supervisor as seen from outside: is it there, start it, stop it.

It is a process of its own, of a package above this one: nothing of it is known here but that it can be started, and
nobody waits for it. Without it a command still works, only the workers, the sweep and the idle stop are missing.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from maestro_state.fs import locks
from maestro_state.local.embedded import paths
from maestro_state.local.log_files import open_stack_log
from maestro_state.local.program import SUPERVISOR, command

if TYPE_CHECKING:
    from collections.abc import Callable

    Root = str | os.PathLike[str]

#: How the names of variables begin that a stack needs: where things are, how to read and tell time, its settings.
_NEEDED = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_", "TZ", "TMPDIR", "XDG_", "SSL_CERT_", "PYTHON", "MAESTRO_",
           "LD_LIBRARY_PATH", "DYLD_", "VIRTUAL_ENV")  # fmt: skip
#: Settings of one terminal.
_TERMINALS = ("MAESTRO_SESSION", "MAESTRO_COOKIE", "MAESTRO_TOOL")
#: Seconds between two polls of how far an exiting supervisor got.
_POLL_S = 0.5

#: Supervisors started by this process, by pid, and whose: collected when they end so that none stays a zombie.
_started: dict[int, str] = {}


def supervisor_alive(root: Root) -> bool:
    """Say whether a supervisor looks after this project."""
    folder = paths.open_folder(root, paths.SERVER_FOLDER, create=False)
    if folder is None:
        return False
    try:
        return locks.is_locked(folder, paths.STACK_LOCK)
    finally:
        os.close(folder)


def ensure_supervisor(root: Root) -> bool:
    """Start the supervisor unless there is one; False when it cannot be started. Does not wait for it."""
    _collect()
    return supervisor_alive(root) or _spawn(root)


def is_starting(root: Root) -> bool:
    """Say whether a supervisor that this process started for this project may still be on its way to its lock."""
    _collect()
    return os.path.realpath(root) in _started.values()


def heal(root: Root) -> None:
    """Start a supervisor for a server that has none: it was killed, and with it everything that it looked after.

    Reads two locks where all is well. Starts no server, and creates nothing; one that never had a supervisor was
    started without on purpose.
    """
    folder = paths.open_folder(root, paths.SERVER_FOLDER, create=False)
    if folder is None:
        return
    try:
        is_alone = (
            paths.STACK_LOCK in os.listdir(folder)
            and not locks.is_locked(folder, paths.STACK_LOCK)
            and locks.is_locked(folder, paths.SERVER_LOCK)
        )
    finally:
        os.close(folder)
    if is_alone:
        ensure_supervisor(root)


def await_supervisor(root: Root, timeout_s: float = 30.0) -> bool:
    """Start the supervisor unless there is one, and wait until it is at work; False when it ends or takes too long."""
    deadline = time.monotonic() + timeout_s
    if not ensure_supervisor(root):
        return False
    while not supervisor_alive(root):
        # One that ends because somebody else's came first left that one at work.
        if time.monotonic() > deadline or not (is_starting(root) or supervisor_alive(root)):
            return False
        time.sleep(0.01)
    return True


def stop_supervisor(folder: int, timeout_s: float, is_moving: Callable[[], bool] = lambda: False) -> bool:
    """Ask the supervisor to exit and wait for it; False when it is still there after so long without progress."""
    asked, polled = None, time.monotonic()
    moved = polled
    while locks.is_locked(folder, paths.STACK_LOCK):
        pid = _pid_of_supervisor(folder)
        if pid is not None and pid != asked:
            asked = pid
            with suppress(ProcessLookupError):  # it was exiting already
                os.kill(pid, signal.SIGTERM)
        now = time.monotonic()
        if now - polled > _POLL_S:
            polled = now
            moved = now if is_moving() else moved
        if now - moved > timeout_s:
            return False
        time.sleep(0.01)
    _collect()
    return True


def _spawn(root: Root) -> bool:
    words = command(SUPERVISOR, root)
    log = open_stack_log(root)
    quiet = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        (os.POSIX_SPAWN_DUP2, log, 2),  # why it does not start, if it does not
    ]
    try:
        # Not this terminal's whole environment: a run brings its own, and the rest is nobody's business for that long.
        own = {name: value for name, value in os.environ.items() if name not in _TERMINALS and name.startswith(_NEEDED)}
        try:
            pid = os.posix_spawn(words[0], words, own, file_actions=quiet, setsid=True)
        except NotImplementedError:
            # macOS: a group of its own still keeps Ctrl-C in this terminal away from it.
            pid = os.posix_spawn(words[0], words, own, file_actions=quiet, setpgroup=0)
    except OSError:
        return False
    finally:
        os.close(log)
    _started[pid] = os.path.realpath(root)
    return True


def _collect() -> None:
    for pid in list(_started):
        try:
            ended, _ = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            ended = pid
        if ended == pid:
            _started.pop(pid, None)


def _pid_of_supervisor(folder: int) -> int | None:
    """Read the pid the holder of the lock wrote; None when it is not certain to be that process."""
    pid = paths.noted_pid(folder, paths.STACK_LOCK)
    if pid is None:
        return None
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read()
    except FileNotFoundError:
        # No such process, or a system without /proc, where the held lock has to be enough.
        return None if os.path.isdir("/proc/self") else pid
    # The second is how one of an earlier version was started.
    is_one = SUPERVISOR.encode() in words.split(b"\0") or b"stack.supervisor" in words
    return pid if is_one else None


def take_lock(folder: int) -> int | None:
    """Take the supervisor's lock and write the pid into it; None when there is a supervisor already."""
    # Somebody who only asks has the lock for microseconds; one that stays taken is a supervisor's.
    for _ in range(5):
        lock = locks.try_lock(folder, paths.STACK_LOCK)
        if lock is not None:
            os.ftruncate(lock, 0)
            os.pwrite(lock, b"%d\n" % os.getpid(), 0)
            return lock
        time.sleep(0.01)
    return None


def holds(lock: int, folder: int) -> bool:
    """Say whether the lock is still the one that others would try to take: its folder may have been removed."""
    return locks.is_current(lock, folder, paths.STACK_LOCK)
