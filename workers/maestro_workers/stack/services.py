"""What the supervisor keeps running beside the server, and how it keeps it running.

A service is a child process that must not outlive its supervisor: on Linux the kernel sees to that, and it
leads its own process group so that stopping it takes along what it started.
"""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from maestro_workers.guard import bound_to_parent

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

#: First pause before a service that ended is started again, in seconds; doubled each time.
FIRST_PAUSE_S = 0.5
#: Longest such pause.
LONGEST_PAUSE_S = 60.0
#: A service that lived this long is well again: its next pause is the first one.
WELL_AFTER_S = 60.0


class Service(Protocol):
    """Something the supervisor starts, watches and stops."""

    name: str

    def start(self) -> None:
        """Start it; raise OSError when that is not possible."""

    def stop(self, timeout_s: float) -> None:
        """End it and everything it started, by force after `timeout_s`. Repeatable."""

    def is_alive(self) -> bool:
        """Say whether it is running."""

    def before_stop(self, *, asked: bool) -> bool:
        """Bring what it does to a safe point; False when it is not there yet.

        Without `asked` the stack stops because nobody uses it: then a service that is in use objects too.
        """


class Part(Protocol):
    """One part of what a supervisor looks after."""

    def tend(self, now_s: float) -> float:
        """Do what is due; return in how many seconds to come back at the latest."""

    def connects(self) -> bool:
        """Tell whether it made connections to the server, since this was last asked, that are not use."""

    def before_stop(self, *, asked: bool) -> bool:
        """Bring what it does to a safe point; see `Service.before_stop`."""

    def stop(self, timeout_s: float) -> None:
        """End what it runs, by force after `timeout_s`; it may be tended again afterwards."""

    def close(self) -> None:
        """Let go of everything."""

    @property
    def name(self) -> str:
        """What it is called in the log."""


@dataclass(slots=True)
class ProcessService:
    """A service that is one program with its arguments."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] | None = None
    #: Where its output goes: an open file, or nowhere.
    output: int = subprocess.DEVNULL
    #: Called before the stack stops; see `Service.before_stop`.
    ready_to_stop: Callable[[], bool] = field(default=lambda: True)
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def pid(self) -> int | None:
        """The process, while there is one."""
        return self._process.pid if self._process is not None and self.is_alive() else None

    def start(self) -> None:
        """Start the program in a process group of its own."""
        self._process = subprocess.Popen(
            list(self.command),
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=self.output,
            stderr=self.output,
            start_new_session=True,
            preexec_fn=bound_to_parent(),
        )

    def stop(self, timeout_s: float) -> None:
        """Ask the whole group to end, then make it."""
        process = self._process
        if process is None:
            return
        _signal_group(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout_s)
        # Also when the program itself left in time: what it started may not have.
        _signal_group(process.pid, signal.SIGKILL)
        process.wait()
        self._process = None

    def is_alive(self) -> bool:
        """Say whether the program is running."""
        return self._process is not None and self._process.poll() is None

    def before_stop(self, *, asked: bool) -> bool:
        """Ask whoever made this service, unless it must stop anyway."""
        return asked or self.ready_to_stop()


@dataclass(slots=True)
class Keeper:
    """Keeps one service running: starts it again when it ends, each time a little later."""

    service: Service
    log: Callable[[str], None]
    _pause_s: float = FIRST_PAUSE_S
    _due_s: float = 0.0
    _started_s: float | None = None

    @property
    def name(self) -> str:
        """The service's."""
        return self.service.name

    def connects(self) -> bool:
        """Tell that it makes no connections."""
        return False

    def before_stop(self, *, asked: bool) -> bool:
        """Ask the service."""
        return self.service.before_stop(asked=asked)

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
            lived_s = now_s - self._started_s
            if lived_s >= WELL_AFTER_S:
                self._pause_s = FIRST_PAUSE_S
            self.log(f"service_ended name={self.service.name} lived_s={lived_s:.1f} pause_s={self._pause_s}")
            self._wait_a_turn(now_s)
        if now_s < self._due_s:
            return self._due_s - now_s
        try:
            self.service.start()
        except OSError as error:
            self.log(f"service_not_started name={self.service.name} reason={error.strerror}")
            self._wait_a_turn(now_s)
            return self._due_s - now_s
        self._started_s = now_s
        self.log(f"service_started name={self.service.name}")
        return WELL_AFTER_S

    def _wait_a_turn(self, now_s: float) -> None:
        self._due_s = now_s + self._pause_s
        self._pause_s = min(self._pause_s * 2, LONGEST_PAUSE_S)
        self._started_s = None


def _signal_group(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, number)
