"""Workers as forks of one process: as many as runs need, gone when nothing is left to do, started again when they die.

The process they are forked from has loaded what they need, so that one is ready within milliseconds. It has no
threads, and holds the environments of the runs for whichever worker takes them.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from maestro_state.errors import MaestroError
from maestro_state.local.frames import Unpacked, packed
from maestro_state.local.handover import key_of
from maestro_state.local.logs import get_logger
from maestro_workers.pool.channel import Channel
from maestro_workers.pool.children import WELL_AFTER_S, Backoff, collect, fork, signal_group
from maestro_workers.pool.environments import Environments
from maestro_workers.pool.listener import Listener
from maestro_workers.pool.loop import Loop
from maestro_workers.pool.presence import Presence

if TYPE_CHECKING:
    from maestro_state import Maestro

#: Seconds a worker that nobody needs stays: the next run is started by one that is there already.
LINGER_S = 30.0
#: Seconds between two polls of what waits on the server; who asks for a run says so at once.
POLL_S = 1.0
#: Seconds between two polls of which of the runs whose environments are held are over.
TIDY_S = 10.0

_log = get_logger("maestro.stack")


@dataclass(slots=True)
class _Worker:
    pid: int
    line: socket.socket
    since_s: float
    free_s: float | None = None  #: since when it waits for a job; None while it has one
    is_starting: bool = True
    is_stopping: bool = False
    unpacked: Unpacked = field(default_factory=Unpacked)


class Pool:
    """The workers of one process, for one server and namespace; a part of a stack, or all that `maestro worker` is."""

    name = "workers"

    def __init__(
        self,
        loop: Loop,
        maestro: Maestro,
        work: Callable[[Channel], int],
        log: Callable[[str], None],
        *,
        most: int,
        resting: int = 0,
    ) -> None:
        self._loop = loop
        self._maestro = maestro
        self._work = work
        self._log = log
        self._most, self._resting = most, resting
        self._environments = Environments()
        key = key_of(maestro.address, maestro.settings.namespace)
        self.listener = Listener(loop, self._environments, key, self._staff)
        self._workers: dict[int, _Worker] = {}
        #: Jobs in the queue, and sessions with runs that are not over: somebody has to look after those.
        self._waiting = self._open = 0
        self._polled_s = self._tidied_s = 0.0
        self._backoff = Backoff()
        self.is_closed = False
        #: Says in the list of workers that these are there.
        self.presence: Presence | None = None

    @property
    def count(self) -> int:
        """How many workers there are."""
        return len(self._workers)

    @property
    def pids(self) -> set[int]:
        """The processes that were started for it and are not collected yet."""
        asking = self.presence.asking if self.presence is not None else None
        return {*self._workers, *([] if asking is None else [asking])}

    def tend(self, now_s: float) -> float:
        """Do what is due; return in how many seconds to come back at the latest."""
        self._collect(now_s)
        self.listener.tend(now_s)
        if self.presence is not None:
            self._tend_presence(self.presence, now_s)
        if self.is_closed:
            return POLL_S
        if now_s >= self._polled_s + POLL_S:
            self._polled_s = now_s
            with suppress(MaestroError):  # the server is away: what there was to do may still be
                self._open = len(self._maestro.claims.open_sessions())
                if self._resting < self._most:  # else all there may be are there
                    self._waiting = self._maestro.queue.waiting()
            self._staff()
            self._retire(now_s)
        if now_s >= self._tidied_s + TIDY_S and (held := self._environments.names()):
            self._tidied_s = now_s
            with suppress(MaestroError):
                for name in self._maestro.claims.over(held):
                    self._environments.forget(name)
        return POLL_S

    def _tend_presence(self, presence: Presence, now_s: float) -> None:
        """Say what the workers have; those that were started when that was something else make way for others."""
        if not self._workers and not self._resting:
            presence.close()
        # Not while a run waits for the first answer of the worker that was just started for it.
        elif any(one.is_starting for one in self._workers.values()) and not self._resting:
            return
        elif presence.tend(now_s, self.runs_now) and not self.is_closed:
            for worker in self._workers.values():
                worker.is_stopping = True
                with suppress(ProcessLookupError):
                    os.kill(worker.pid, signal.SIGUSR1)

    @property
    def runs_now(self) -> int:
        """How many workers have something to do."""
        return sum(1 for one in self._workers.values() if not one.is_starting and one.free_s is None)

    def _staff(self) -> None:
        """Have a worker for everything that waits, as far as there may be so many."""
        now_s = time.monotonic()
        if self.is_closed or now_s < self._backoff.due_s:
            return
        ready = sum(1 for one in self._workers.values() if not one.is_stopping and (one.is_starting or one.free_s))
        wanted = max(self._waiting, self._environments.count_unfetched())
        missing = max(wanted - ready, self._resting - len(self._workers))
        if self._open and not self._workers:
            missing = max(missing, 1)
        for _ in range(min(missing, self._most - len(self._workers))):
            self._start(now_s)

    def _start(self, now_s: float) -> None:
        ours, theirs = socket.socketpair()
        try:
            pid = fork(lambda: self._be_worker(ours, theirs))
        except OSError as error:
            self._log(f"worker_not_started reason={error.strerror}")
            ours.close()
            self._backoff.delay(now_s)
            return
        finally:
            theirs.close()
        ours.setblocking(False)
        worker = _Worker(pid, ours, now_s)
        self._workers[pid] = worker
        self._loop.add(ours, lambda: self._hear(worker))
        self._log(f"worker_started pid={pid}")

    def _be_worker(self, ours: socket.socket, theirs: socket.socket) -> int:
        """Be a worker, in a child: nothing of the parent's stays but the line to it."""
        ours.close()
        self._loop.forget()
        self._environments.clear()
        return self._work(Channel(theirs, self.listener.holder))

    def _collect(self, now_s: float) -> None:
        """Notice workers that have ended."""
        for worker in list(self._workers.values()):
            code = collect(worker.pid)
            if code is None:
                continue
            del self._workers[worker.pid]
            self._loop.drop(worker.line)
            lived_s = now_s - worker.since_s
            self._log(f"worker_ended pid={worker.pid} code={code} lived_s={lived_s:.1f}")
            if code == 0 or lived_s >= WELL_AFTER_S:
                self._backoff.reset()
            if code != 0 and not worker.is_stopping:
                self._backoff.delay(now_s)
            self._polled_s = 0.0  # there may be something to do that it did not

    def _retire(self, now_s: float) -> None:
        """Stop those that have waited long for something to do."""
        rested = [one for one in self._workers.values() if one.free_s and now_s - one.free_s >= LINGER_S]
        spare = len(self._workers) - max(self._resting, 1 if self._open else 0)
        for worker in [one for one in rested if not one.is_stopping][: max(0, spare)]:
            worker.is_stopping = True
            os.kill(worker.pid, signal.SIGUSR1)

    def _hear(self, worker: _Worker) -> None:
        """Take what a worker says; one that says nothing sensible any more is ended by whoever collects it."""
        try:
            data = worker.line.recv(1 << 16)
            messages = worker.unpacked.feed(data)
        except BlockingIOError:
            return
        except (OSError, ValueError):
            data, messages = b"", []
        if not data:
            self._loop.drop(worker.line)
        for message in messages:
            self._take(worker, message)

    def _take(self, worker: _Worker, message: list[bytes]) -> None:
        match message:
            case [b"free"]:
                worker.is_starting, worker.free_s = False, time.monotonic()
            case [b"busy"]:
                worker.is_starting, worker.free_s = False, None
            case [b"get", session_id, run_id]:
                found = self._environments.get((session_id.decode(), run_id.decode()))
                name = session_id, run_id
                answer = packed(b"none", *name) if found is None else packed(b"environment", *name, *found)
                worker.line.settimeout(5.0)
                with suppress(OSError):  # it was killed while it waited
                    worker.line.sendall(answer)
                worker.line.setblocking(False)
            case [b"over", session_id, run_id]:
                self._environments.forget((session_id.decode(), run_id.decode()))
                if self.presence is not None:
                    self.presence.runs_done += 1
            case [b"lacks", what] if self.presence is not None:
                self.presence.note_lack(what.decode(errors="replace"), time.monotonic(), self.runs_now)

    def connects(self) -> bool:
        """Tell whether connections were made that are not use: a worker is there because somebody asked for a run."""
        return False

    def before_stop(self, *, asked: bool) -> bool:
        """Object while a run is open, unless the stack must stop anyway: whoever asks for that ends the run."""
        try:
            return asked or not self._maestro.claims.open_sessions()
        except MaestroError as error:
            _log.warning("not_asked", service=self.name, reason=str(error))
            return True

    def ask_to_stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Start no more workers, and tell those that are there: SIGTERM lets a run end, SIGQUIT does not."""
        self.is_closed = True
        for worker in self._workers.values():
            worker.is_stopping = True
            with suppress(ProcessLookupError):
                os.kill(worker.pid, number)

    def stop(self, timeout_s: float) -> None:
        """End all workers now, by force after so long. Afterwards there can be workers again."""
        self.ask_to_stop(signal.SIGQUIT)
        until_s = time.monotonic() + timeout_s
        while self._workers:
            if time.monotonic() >= until_s:
                for worker in self._workers.values():
                    signal_group(worker.pid, signal.SIGKILL)
            self._loop.wait(0.05)
            self._collect(time.monotonic())
        self.is_closed = False

    def close(self) -> None:
        """Listen no more, and close the connection."""
        self.listener.close()
        if self.presence is not None:
            self.presence.close()
        self._maestro.close()
