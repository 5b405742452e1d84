"""The supervisor of the embedded stack: `python -m workers.stack --project ROOT`.

One per project, held to that by a lock. It keeps the services running, and stops the server and itself when
nobody has used them for a while. It never starts a server: the next command does, and finds it still here.
"""

from __future__ import annotations

import argparse
import os
import select
import signal
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

from maestro_state.clock import iso, now_ms
from maestro_state.embedded import is_running, locks, paths
from maestro_state.embedded.control import sync_data
from maestro_state.embedded.wire import WireError
from maestro_state.errors import MaestroError
from maestro_state.kernel import keep_private
from maestro_state.settings_cache import load_settings
from workers.insiders import stack_services
from workers.services import Keeper
from workers.usage import Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from workers.services import Service

#: Seconds without any use after which the stack stops, unless told otherwise.
IDLE_S = 1800
#: Longest pause between two looks at the server, in seconds; also the most that a power cut can cost.
LOOK_S = 5.0
#: Seconds without a server after which there is nothing to look after. Longer than a restart takes: services,
#: and the tools they run, survive a server that was killed and started again.
GONE_S = 30.0
#: Longest time to get everything to disk before leaving, in seconds: some hundred thousand sessions.
SETTLE_S = 3600.0
#: First and longest pause between two tries while somebody else is writing, in seconds.
SETTLE_PAUSES_S = (0.1, 2.0)
#: Seconds a service gets to end by itself.
SERVICE_STOP_S = 10.0

_MAX_LOG_BYTES = 1_000_000


@dataclass(slots=True)
class Supervisor:
    """Looks after one project's stack until it is idle, gone, or told to leave."""

    root: Path
    idle_s: float
    services: Sequence[Service]
    log: Callable[[str], None]
    gone_s: float = GONE_S
    _leaving: bool = field(default=False, init=False)

    def run(self) -> None:
        """Supervise, and come back when there is nothing left to look after."""
        with paths.open_data_folder(self.root) as folder, _Signals(self._leave) as signals:
            while (lock := _take_lock(folder)) is not None:
                try:
                    self._supervise(folder, lock, signals)
                finally:
                    os.ftruncate(lock, 0)
                    os.close(lock)
                # Somebody may have started a server just now, and not a supervisor because this one was here.
                if self._leaving or not is_running(self.root):
                    return
                self.log("server_came_back")

    def _leave(self) -> None:
        self._leaving = True

    def _supervise(self, folder: int, lock: int, signals: _Signals) -> None:
        keepers = [Keeper(service, self.log) for service in self.services]
        usage = Usage(lambda: paths.socket_address(self.root))
        self.log(f"supervisor_started pid={os.getpid()} idle_s={self.idle_s:g}")
        try:
            self._watch(keepers, usage, signals, folder, lock)
        finally:
            for service in reversed(self.services):
                service.stop(SERVICE_STOP_S)
            usage.close()
            sync_data(folder)  # also what a server wrote last before it was stopped
            self.log("supervisor_left")

    def _watch(self, keepers: list[Keeper], usage: Usage, signals: _Signals, folder: int, lock: int) -> None:
        look_s = min(LOOK_S, self.idle_s / 4)
        used_s = seen_s = time.monotonic()
        while True:
            now_s = time.monotonic()
            if not locks.is_current(lock, folder, paths.STACK_LOCK):
                # The project's folder was removed: the server writes to files nobody can find any more.
                self.log("folder_removed")
                usage.kill()
                self._leaving = True
                return
            sync_data(folder)
            used = usage.look()
            if used is not None:
                seen_s = now_s
            if used:
                used_s = now_s
            if used is not None and (writes := usage.heed_room(folder)) is not None:
                self.log(f"server_takes_writes={'yes' if writes else 'no, its disk is full'}")
            if used is not None and usage.tidy(now_s):
                self.log("log_written_anew")
            if self._leaving:
                self._settle(signals)
                return
            if now_s - seen_s >= self.gone_s:
                self.log("server_gone")
                return
            if used is False and now_s - used_s >= self.idle_s and self._stop_idle(usage):
                return
            signals.wait(min([look_s, *(keeper.tend(now_s) for keeper in keepers)]))

    def _stop_idle(self, usage: Usage) -> bool:
        """Stop the server unless a service objects, or somebody came while they were asked."""
        if not self._services_agree(asked=False):
            return False
        if usage.look() is not False:
            return False
        for service in reversed(self.services):
            service.stop(SERVICE_STOP_S)
        if usage.has_clients():
            return False  # the services come back with the next look
        try:
            usage.shut_down()
        except WireError as error:
            self.log(f"server_refuses_to_stop reason={str(error)[:200]!r}")
            return False
        self.log("server_stopped_idle")
        return True

    def _settle(self, signals: _Signals) -> None:
        """Let the services get to a safe point; one that waits for somebody else does so for a while only."""
        until_s = time.monotonic() + SETTLE_S
        pause_s, longest_s = SETTLE_PAUSES_S
        while not self._services_agree(asked=True) and time.monotonic() < until_s:
            signals.wait(pause_s)
            pause_s = min(2 * pause_s, longest_s)

    def _services_agree(self, *, asked: bool) -> bool:
        objecting = [service.name for service in self.services if not service.before_stop(asked=asked)]
        if objecting:
            self.log(f"stop_put_off by={','.join(objecting)}")
        return not objecting


class _Signals:
    """Turns SIGTERM, SIGINT and SIGCHLD into an early end of a wait."""

    def __init__(self, leave: Callable[[], None]) -> None:
        self._leave = leave

    def __enter__(self) -> Self:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        signal.set_wakeup_fd(self._writer)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda _number, _frame: self._leave())
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        return self

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(-1)
        os.close(self._reader)
        os.close(self._writer)

    def wait(self, timeout_s: float) -> None:
        """Wait for a signal, at most this long."""
        if select.select([self._reader], [], [], timeout_s)[0]:
            os.read(self._reader, 1024)


def _take_lock(folder: int) -> int | None:
    """Take the supervisor's lock and write the pid into it; None when there is a supervisor already."""
    # Somebody who only looks has the lock for microseconds; one that stays taken is a supervisor's.
    for _ in range(5):
        lock = locks.try_lock(folder, paths.STACK_LOCK)
        if lock is not None:
            os.ftruncate(lock, 0)
            os.pwrite(lock, b"%d\n" % os.getpid(), 0)
            return lock
        time.sleep(0.01)
    return None


def open_log(root: Path) -> int:
    """Open the stack's log for appending, beginning a new one when it has grown large."""
    folder = paths.open_folder(root, paths.LOG_FOLDER, create=True)
    assert folder is not None  # noqa: S101  # create=True always gives one
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        log = os.open("stack.log", flags, 0o600, dir_fd=folder)
        if os.fstat(log).st_size > _MAX_LOG_BYTES:
            os.close(log)
            os.rename("stack.log", "stack.log.1", src_dir_fd=folder, dst_dir_fd=folder)
            log = os.open("stack.log", flags, 0o600, dir_fd=folder)
    finally:
        os.close(folder)
    return log


def supervise(root: Path, *, idle_s: float, services: Sequence[Service] = (), gone_s: float = GONE_S) -> int:
    """Run the supervisor in this process and return its exit status."""
    log = open_log(root)

    def write(text: str) -> None:
        with suppress(OSError):  # a full disk must not take the services down
            os.write(log, f"{iso(now_ms())} {text}\n".encode())

    os.chdir("/")  # a supervisor must not keep a disk from being unmounted
    try:
        Supervisor(root, idle_s, services, write, gone_s).run()
    except MaestroError as error:
        write(f"supervisor_failed reason={str(error)!r}")
        return error.exit_code
    finally:
        os.close(log)
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Supervise the project named on the command line."""
    keep_private()
    parser = argparse.ArgumentParser(prog="workers.stack", description="Look after a project's stack.")
    parser.add_argument("--project", type=Path, required=True, help="root folder of the project")
    root = parser.parse_args(arguments).project.resolve()
    try:
        idle_s = load_settings(root, os.environ).stack_idle_seconds
    except MaestroError:
        idle_s = IDLE_S  # whoever set it wrong is told by every command
    return supervise(root, idle_s=idle_s, services=stack_services(root))


if __name__ == "__main__":
    raise SystemExit(main())
