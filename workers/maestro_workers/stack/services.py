"""What the supervisor keeps running beside the server, and how it keeps it running.

A service is a child process that must not outlive its supervisor: on Linux the kernel sees to that, and it
leads its own process group so that stopping it takes along what it started.
"""

from __future__ import annotations

import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from maestro_workers.pool.children import WELL_AFTER_S, Backoff, bound_to_parent, signal_group

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Part(Protocol):
    """One part of what a supervisor looks after."""

    @property
    def name(self) -> str:
        """What it is called in the log."""

    def tend(self, now_s: float) -> float:
        """Do what is due; return in how many seconds to come back at the latest."""

    def connects(self) -> bool:
        """Tell whether it made connections to the server, since this was last asked, that are not use."""

    def before_stop(self, *, asked: bool) -> bool:
        """Bring what it does to a safe point; False when it is not there yet.

        Without `asked` the stack stops because nobody uses it: then a part that is in use objects too.
        """

    def stop(self, timeout_s: float) -> None:
        """End what it runs, by force after `timeout_s`; it may be tended again afterwards."""

    def close(self) -> None:
        """Close everything."""


class Service(Protocol):
    """Something the supervisor starts, watches and stops."""

    @property
    def name(self) -> str:
        """What it is called in the log."""

    def start(self) -> None:
        """Start it; raise OSError when that is not possible."""

    def stop(self, timeout_s: float) -> None:
        """End it and everything it started, by force after `timeout_s`. Repeatable."""

    def is_alive(self) -> bool:
        """Say whether it is running."""


@dataclass(slots=True)
class ProcessService:
    """A service that is one program with its arguments."""

    name: str
    command: Sequence[str]
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def start(self) -> None:
        """Start the program in a process group of its own."""
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(list(self.command), stdin=quiet, stdout=quiet, stderr=quiet,
                                         start_new_session=True, preexec_fn=bound_to_parent())  # fmt: skip

    def stop(self, timeout_s: float) -> None:
        """Ask the whole group to end, then make it."""
        process = self._process
        if process is None:
            return
        signal_group(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout_s)
        # Also when the program itself exited in time: what it started may not have.
        signal_group(process.pid, signal.SIGKILL)
        process.wait()
        self._process = None

    def is_alive(self) -> bool:
        """Say whether the program is running."""
        return self._process is not None and self._process.poll() is None


@dataclass(slots=True)
class Keeper:
    """Keeps one service running: starts it again when it ends, each time a little later."""

    service: Service
    log: Callable[[str], None]
    _backoff: Backoff = field(default_factory=Backoff, init=False)
    _started_s: float | None = field(default=None, init=False)

    @property
    def name(self) -> str:
        """The service's."""
        return self.service.name

    def connects(self) -> bool:
        """Tell that it makes no connections."""
        return False

    def before_stop(self, *, asked: bool) -> bool:
        """Agree: a service may be stopped at any time."""
        del asked
        return True

    def stop(self, timeout_s: float) -> None:
        """Stop the service."""
        self.service.stop(timeout_s)
        self._started_s = None

    def close(self) -> None:
        """Nothing is left open."""

    def tend(self, now_s: float) -> float:
        """Start the service if it is due; return in how many seconds to come back at the latest."""
        if self.service.is_alive():
            return WELL_AFTER_S
        if self._started_s is not None:
            self._note_end(now_s, now_s - self._started_s)
        if now_s >= self._backoff.due_s and self._start(now_s):
            return WELL_AFTER_S
        return self._backoff.due_s - now_s

    def _note_end(self, now_s: float, lived_s: float) -> None:
        if lived_s >= WELL_AFTER_S:
            self._backoff.reset()
        self.log(f"service_ended name={self.name} lived_s={lived_s:.1f} pause_s={self._backoff.pause_s}")
        self._backoff.delay(now_s)
        self._started_s = None

    def _start(self, now_s: float) -> bool:
        try:
            self.service.start()
        except OSError as error:
            self.log(f"service_not_started name={self.name} reason={error.strerror}")
            self._backoff.delay(now_s)
            return False
        self._started_s = now_s
        self.log(f"service_started name={self.name}")
        return True
