"""A program in this terminal, as if it had been typed: it has the terminal, and this process only waits for it.

Both are in one process group, so that keys which signal reach the program as ever. This process takes nothing of them
for itself: it stops when the program stops and goes on when the shell says so, and exits with the program's code.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress

from maestro_cli.terminal_modes import TerminalModes

#: What must not end or stop this process while the program runs.
_HELD = frozenset({
    signal.SIGCHLD, signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGHUP, signal.SIGTERM, signal.SIGUSR1,
    signal.SIGUSR2,
})  # fmt: skip
#: What is passed on when it was sent to this process alone; the terminal sends to the whole group.
_PASSED_ON = _HELD - {signal.SIGCHLD, signal.SIGTSTP}
#: What Python ignores, and a program expects to have its usual meaning.
_RESTORED = [signal.SIGPIPE, signal.SIGXFSZ]


class Foreground:
    """One program and who looks on."""

    def __init__(
        self, program: str, argv: list[str], environment: dict[str, str], *, has_own_screen: bool = False
    ) -> None:
        """Start it."""
        self.modes = TerminalModes(has_own_screen=has_own_screen)
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, _HELD)
        try:
            self.pid = os.posix_spawn(program, argv, environment, setsigmask=self._mask, setsigdef=_RESTORED)
        except BaseException:
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
            raise

    def fork(self, act: Callable[[], None]) -> int:
        """Have a process of its own do something beside it, out of reach of the terminal; return its number."""
        pid = os.fork()
        if pid:
            return pid
        code = 1
        try:
            os.setsid()
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
            nothing = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(nothing, stream)
            act()
            code = 0
        finally:
            os._exit(code)

    def wait(self, ended: Callable[[int], None]) -> int:
        """Wait for the program; return its exit code, 128 and the signal's number if one killed it. `ended` hears of
        other processes of ours that ended meanwhile.
        """
        try:
            while True:
                while (status := _reap(self.pid, ended)) is not None:
                    if not os.WIFSTOPPED(status):
                        return self._code(status)
                    self._stop(os.WSTOPSIG(status))
                self._await()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def _code(self, status: int) -> int:
        code = os.waitstatus_to_exitcode(status)
        self.modes.restore(code)
        return code if code >= 0 else 128 - code

    def _await(self) -> None:
        """Wait for a signal, and pass it on if a process sent it to this one."""
        found = signal.sigwaitinfo(_HELD)
        if found.si_signo in _PASSED_ON and found.si_code <= 0:
            with suppress(ProcessLookupError):
                os.kill(self.pid, found.si_signo)

    def _stop(self, number: int) -> None:
        """Stop as the program did, so that the shell has the terminal; both go on together."""
        os.kill(os.getpid(), number)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number} & _HELD)  # here it stops, until it is continued
        signal.pthread_sigmask(signal.SIG_BLOCK, _HELD)
        # A shell continues the whole group; whoever continued this process alone means both. One that has stopped once
        # more meanwhile was continued.
        changed = os.WCONTINUED | os.WSTOPPED | os.WEXITED
        if os.waitid(os.P_PID, self.pid, os.WNOHANG | changed | os.WNOWAIT) is None:
            os.kill(self.pid, signal.SIGCONT)


def _reap(pid: int, ended: Callable[[int], None]) -> int | None:
    """Return the next change of the program, None when there is none; other processes that ended are told."""
    while True:
        found, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
        if found == pid:
            return status
        if not found:
            return None
        ended(found)
