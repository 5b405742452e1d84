"""The supervisor of the embedded stack: `python -m maestro_workers.stack --project ROOT`.

One per project, held to that by a lock. It keeps the services running, and stops the server and itself when
nobody has used them for a while. It never starts a server: the next command does, and finds it still here.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from maestro_state.clock import iso, now_ms
from maestro_state.errors import MaestroError
from maestro_state.local.embedded import is_running, paths
from maestro_state.local.embedded.control import sync_data
from maestro_state.local.embedded.probe import ReplyError
from maestro_state.local.embedded.supervision import holds, take_lock
from maestro_state.local.log_files import open_stack_log
from maestro_state.local.process import keep_private
from maestro_state.local.settings import load_settings
from maestro_workers.pool.loop import Loop
from maestro_workers.stack.idleness import Usage
from maestro_workers.stack.kept_running import stack_parts
from maestro_workers.stack.services import Part

#: Seconds without any use after which the stack stops, unless told otherwise.
IDLE_S = 1800
#: Longest pause between two polls of the server, in seconds; also the most that a power cut can cost.
POLL_S = 5.0
#: Seconds without a server after which there is nothing to look after. Longer than a restart takes: services,
#: and the tools they run, survive a server that was killed and started again.
GONE_S = 30.0
#: Longest time to get everything to disk before exiting, in seconds: some hundred thousand sessions.
SETTLE_S = 3600.0
#: First and longest pause between two tries while somebody else is writing, in seconds.
SETTLE_PAUSES_S = (0.1, 2.0)
#: Seconds a service gets to end by itself.
SERVICE_STOP_S = 10.0


#: Makes what a supervisor looks after, given what it waits with and where it logs.
Parts = Callable[[Loop, Callable[[str], None]], Sequence[Part]]


@dataclass(slots=True)
class Supervisor:
    """Looks after one project's stack until it is idle, gone, or told to stop."""

    root: Path
    idle_s: float
    make_parts: Parts
    log: Callable[[str], None]
    gone_s: float = GONE_S
    _stopping: bool = field(default=False, init=False)
    _parts: Sequence[Part] = field(default=(), init=False)

    def run(self) -> None:
        """Supervise, and come back when there is nothing left to look after."""
        with paths.open_data_folder(self.root) as folder, Loop(self._on_stop) as loop:
            while (lock := take_lock(folder)) is not None:
                loop.own = [lock, folder]
                try:
                    # Whoever starts a supervisor has a server: one that is gone by now was stopped while this process
                    # was still loading, and had no lock that `stop` could have seen. Asked only with the lock in hand:
                    # of a server that is still there, whoever stops it looks at the lock once more afterwards.
                    if is_running(self.root):
                        self._supervise(folder, lock, loop)
                finally:
                    os.ftruncate(lock, 0)
                    os.close(lock)
                # Somebody may have started a server just now, and not a supervisor because this one was here.
                if self._stopping or not is_running(self.root):
                    return
                self.log("server_came_back")

    def _on_stop(self) -> None:
        self._stopping = True

    def _supervise(self, folder: int, lock: int, loop: Loop) -> None:
        usage = Usage(lambda: paths.socket_address(self.root))
        syncer = Syncer(folder)
        self.log(f"supervisor_started pid={os.getpid()} idle_s={self.idle_s:g}")
        try:
            self._parts = self.make_parts(loop, self.log)
            self._watch(usage, syncer, loop, folder, lock)
        finally:
            for part in reversed(self._parts):
                part.stop(SERVICE_STOP_S)
                part.close()
            self._parts = ()
            syncer.close()
            usage.close()
            sync_data(folder)  # also what a server wrote last before it was stopped
            self.log("supervisor_exited")

    def _watch(self, usage: Usage, syncer: Syncer, loop: Loop, folder: int, lock: int) -> None:
        poll_s = min(POLL_S, self.idle_s / 4)
        used_s = seen_s = time.monotonic()
        polled_s = -poll_s
        while True:
            now_s = time.monotonic()
            if self._stopping:
                self._settle(loop)
                return
            if now_s >= polled_s + poll_s:
                polled_s = now_s
                if not holds(lock, folder):
                    # The project's folder was removed: the server writes to files nobody can find any more.
                    self.log("folder_removed")
                    usage.kill()
                    self._stopping = True
                    return
                syncer.sync()
                used = usage.poll(is_discounted=any(part.connects() for part in self._parts))
                if used is not None:
                    seen_s = now_s
                if used:
                    used_s = now_s
                if used is not None and (writes := usage.heed_room(folder)) is not None:
                    self.log(f"server_takes_writes={'yes' if writes else 'no, its disk is full'}")
                if used is not None and usage.tidy(now_s):
                    self.log("log_written_anew")
                if now_s - seen_s >= self.gone_s:
                    self.log("server_gone")
                    return
                if used is False and now_s - used_s >= self.idle_s and self._stop_idle(usage):
                    return
            due_s = min((part.tend(now_s) for part in self._parts), default=poll_s)
            loop.wait(min(due_s, polled_s + poll_s - time.monotonic()))

    def _stop_idle(self, usage: Usage) -> bool:
        """Stop the server unless a part objects, or somebody came while they were asked."""
        if not self._parts_agree(asked=False):
            return False
        if usage.poll(is_discounted=True) is not False:
            return False
        for part in reversed(self._parts):
            part.stop(SERVICE_STOP_S)
        if usage.has_clients():
            return False  # the parts come back with the next poll
        try:
            usage.shut_down()
        except ReplyError as error:
            self.log(f"server_refuses_to_stop reason={str(error)[:200]!r}")
            return False
        self.log("server_stopped_idle")
        return True

    def _settle(self, loop: Loop) -> None:
        """Let the parts get to a safe point; one that waits for somebody else does so for a while only."""
        until_s = time.monotonic() + SETTLE_S
        pause_s, longest_s = SETTLE_PAUSES_S
        while not self._parts_agree(asked=True) and time.monotonic() < until_s:
            loop.wait(pause_s)
            pause_s = min(2 * pause_s, longest_s)

    def _parts_agree(self, *, asked: bool) -> bool:
        objecting = [part.name for part in self._parts if not part.before_stop(asked=asked)]
        if objecting:
            self.log(f"stop_put_off by={','.join(objecting)}")
        return not objecting


class Syncer:
    """Brings the server's log to the disk: by a thread, since a disk that many write to takes its time.

    The only thread there is: it holds nothing a forked child could wait for.
    """

    def __init__(self, folder: int) -> None:
        self._folder = os.dup(folder)
        self._thread = ThreadPoolExecutor(1, "sync")
        self._next: Future[None] | None = None

    def sync(self) -> None:
        """Have it done, once more at most if it is under way; comes back at once."""
        if self._next is None or self._next.running() or self._next.done():
            self._next = self._thread.submit(sync_data, self._folder)

    def close(self) -> None:
        """Wait until it is done, and end."""
        self._thread.shutdown()
        os.close(self._folder)


def supervise(root: Path, *, idle_s: float, parts: Parts, gone_s: float = GONE_S) -> int:
    """Run the supervisor in this process and return its exit status."""
    log = open_stack_log(root)

    def write(text: str) -> None:
        with suppress(OSError):  # a full disk must not take the services down
            os.write(log, f"{iso(now_ms())} {text}\n".encode())

    os.chdir("/")  # a supervisor must not keep a disk from being unmounted
    try:
        Supervisor(root, idle_s, parts, write, gone_s).run()
    except MaestroError as error:
        write(f"supervisor_failed reason={str(error)!r}")
        return error.exit_code
    finally:
        os.close(log)
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Supervise the project named on the command line."""
    keep_private()
    parser = argparse.ArgumentParser(prog="maestro_workers.stack", description="Look after a project's stack.")
    parser.add_argument("--project", type=Path, required=True, help="root folder of the project")
    root = parser.parse_args(arguments).project.resolve()
    try:
        idle_s = load_settings(root, os.environ).stack_idle_seconds
    except MaestroError:
        idle_s = IDLE_S  # whoever set it wrong is told by every command
    log = open_stack_log(root)
    os.dup2(log, 2)  # what workers and sweeps have to say is said there too, not to nobody
    os.close(log)
    return supervise(root, idle_s=idle_s, parts=lambda loop, log: stack_parts(root, loop, log))
