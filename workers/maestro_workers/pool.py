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

from maestro_state.net.frames import Unpacked, packed
from maestro_workers.stack.channel import Channel
from maestro_workers.stack.environments import Environments, Name
from maestro_workers.stack.forking import collect, fork, kill_group
from maestro_workers.stack.loop import Loop
from maestro_workers.stack.reception import Reception
from maestro_workers.stack.services import FIRST_PAUSE_S, LONGEST_PAUSE_S, WELL_AFTER_S

#: Seconds a worker that nobody needs stays: the next run is started by one that is there already.
LINGER_S = 30.0
#: Seconds between two looks at what waits on the server; who asks for a run says so at once.
LOOK_S = 1.0
#: Seconds between two looks at which of the runs whose environments are held are over.
TIDY_S = 10.0


@dataclass(frozen=True, slots=True)
class Demand:
    """What there is to do on the server."""

    waiting: int  #: jobs in the queue
    open_runs: int  #: sessions with runs that are not over: somebody has to look after them


@dataclass(frozen=True, slots=True)
class Plan:
    """How many workers there are, and what they do."""

    work: Callable[[Channel], int]
    most: int
    resting: int = 0  #: how many stay when there is nothing to do
    linger_s: float = LINGER_S
    #: Looks at the server; None when it cannot be reached.
    look: Callable[[], Demand | None] = field(default=lambda: None)
    #: Returns those of some runs that are over.
    over: Callable[[list[Name]], list[Name]] = field(default=lambda _: [])


@dataclass(slots=True)
class _Member:
    pid: int
    line: socket.socket
    since_s: float
    free_s: float | None = None  #: since when it waits for a job; None while it has one
    is_starting: bool = True
    is_leaving: bool = False
    unpacked: Unpacked = field(default_factory=Unpacked)


class Pool:
    """The workers of one process."""

    def __init__(self, loop: Loop, plan: Plan, key: str, log: Callable[[str], None]) -> None:
        """Take what the process waits with, how many workers there may be, and for which server."""
        self._loop = loop
        self._plan = plan
        self._log = log
        self._environments = Environments()
        self.reception = Reception(loop, self._environments, key, self._staff)
        self._members: dict[int, _Member] = {}
        self._demand = Demand(0, 0)
        self._looked_s = self._tidied_s = 0.0
        self._pause_s, self._due_s = FIRST_PAUSE_S, 0.0
        self.is_closed = False

    @property
    def count(self) -> int:
        """How many workers there are."""
        return len(self._members)

    def tend(self, now_s: float) -> float:
        """Do what is due; return in how many seconds to come back at the latest."""
        self._collect(now_s)
        self.reception.tend(now_s)
        if self.is_closed:
            return LOOK_S
        if now_s >= self._looked_s + LOOK_S:
            self._looked_s = now_s
            self._demand = self._plan.look() or self._demand
            self._staff()
            self._retire(now_s)
        if now_s >= self._tidied_s + TIDY_S and self._environments.names():
            self._tidied_s = now_s
            for name in self._plan.over(self._environments.names()):
                self._environments.forget(name)
        return LOOK_S

    def _staff(self) -> None:
        """Have a worker for everything that waits, as far as there may be so many."""
        now_s = time.monotonic()
        if self.is_closed or now_s < self._due_s:
            return
        ready = sum(1 for one in self._members.values() if not one.is_leaving and (one.is_starting or one.free_s))
        wanted = max(self._demand.waiting, self._environments.count_unfetched())
        missing = max(wanted - ready, self._plan.resting - len(self._members))
        if self._demand.open_runs and not self._members:
            missing = max(missing, 1)
        for _ in range(min(missing, self._plan.most - len(self._members))):
            self._start(now_s)

    def _start(self, now_s: float) -> None:
        ours, theirs = socket.socketpair()
        try:
            pid = fork(lambda: self._be_worker(ours, theirs))
        except OSError as error:
            self._log(f"worker_not_started reason={error.strerror}")
            ours.close()
            self._wait_a_turn(now_s)
            return
        finally:
            theirs.close()
        ours.setblocking(False)
        member = _Member(pid, ours, now_s)
        self._members[pid] = member
        self._loop.add(ours, lambda: self._hear(member))
        self._log(f"worker_started pid={pid}")

    def _be_worker(self, ours: socket.socket, theirs: socket.socket) -> int:
        """Be a worker, in a child: nothing of the parent's stays but the line to it."""
        ours.close()
        self._loop.forget()
        self._environments.clear()
        return self._plan.work(Channel(theirs, self.reception.holder))

    def _collect(self, now_s: float) -> None:
        """Notice workers that have ended."""
        for member in list(self._members.values()):
            code = collect(member.pid)
            if code is None:
                continue
            del self._members[member.pid]
            self._loop.drop(member.line)
            lived_s = now_s - member.since_s
            self._log(f"worker_ended pid={member.pid} code={code} lived_s={lived_s:.1f}")
            if code == 0 or lived_s >= WELL_AFTER_S:
                self._pause_s = FIRST_PAUSE_S
            if code != 0 and not member.is_leaving:
                self._wait_a_turn(now_s)
            self._looked_s = 0.0  # it may have left something to do

    def _wait_a_turn(self, now_s: float) -> None:
        """Start no worker for a while: one that cannot live must not be started all the time."""
        self._due_s = now_s + self._pause_s
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)

    def _retire(self, now_s: float) -> None:
        """Let those go that have waited long for something to do."""
        rested = [one for one in self._members.values() if one.free_s and now_s - one.free_s >= self._plan.linger_s]
        spare = len(self._members) - max(self._plan.resting, 1 if self._demand.open_runs else 0)
        for member in [one for one in rested if not one.is_leaving][: max(0, spare)]:
            member.is_leaving = True
            os.kill(member.pid, signal.SIGUSR1)

    def _hear(self, member: _Member) -> None:
        """Take what a worker says; one that says nothing sensible any more is ended by whoever collects it."""
        try:
            data = member.line.recv(1 << 16)
            messages = member.unpacked.feed(data)
        except BlockingIOError:
            return
        except (OSError, ValueError):
            data, messages = b"", []
        if not data:
            self._loop.drop(member.line)
        for message in messages:
            self._take(member, message)

    def _take(self, member: _Member, message: list[bytes]) -> None:
        match message:
            case [b"free"]:
                member.is_starting, member.free_s = False, time.monotonic()
            case [b"busy"]:
                member.is_starting, member.free_s = False, None
            case [b"get", session_id, run_id]:
                found = self._environments.get((session_id.decode(), run_id.decode()))
                name = session_id, run_id
                answer = packed(b"none", *name) if found is None else packed(b"environment", *name, *found)
                member.line.settimeout(5.0)
                with suppress(OSError):  # it was killed while it waited
                    member.line.sendall(answer)
                member.line.setblocking(False)
            case [b"over", session_id, run_id]:
                self._environments.forget((session_id.decode(), run_id.decode()))

    def ask_to_stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Start no more workers, and tell those that are there: SIGTERM lets a run end, SIGQUIT does not."""
        self.is_closed = True
        for member in self._members.values():
            member.is_leaving = True
            with suppress(ProcessLookupError):
                os.kill(member.pid, number)

    def stop(self, timeout_s: float, number: signal.Signals = signal.SIGQUIT) -> None:
        """End all workers, by force after so long. Afterwards there can be workers again."""
        self.ask_to_stop(number)
        until_s = time.monotonic() + timeout_s
        while self._members and time.monotonic() < until_s:
            self._loop.wait(0.05)
            self._collect(time.monotonic())
        for member in self._members.values():
            kill_group(member.pid)
        while self._members:
            self._loop.wait(0.05)
            self._collect(time.monotonic())
        self.is_closed = False
