"""Saying which workers there are, and what they have: in the list of workers, for as long as this process lives."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from maestro_state.clock import iso
from maestro_state.errors import MaestroError
from maestro_state.local.logs import get_logger
from maestro_workers.pool.children import collect, fork, signal_group
from maestro_workers.pool.loop import Loop
from maestro_workers.profile import Profile

if TYPE_CHECKING:
    from maestro_state import Maestro
    from maestro_state.tools import Tool

#: Seconds between two announcements, a third of how long one counts,
BEAT_S = 3.0
#: and of what has changed.
CHANGE_S = 1.0
#: Seconds between two searches for the tools that are there.
TOOLS_S = 60.0

_log = get_logger("maestro.worker")


class Presence:
    """One row in the list of workers."""

    def __init__(
        self, loop: Loop, maestro: Maestro, profile: Profile, worker_id: str, most: int, *, is_routed: bool
    ) -> None:
        """Without `is_routed` these are workers of a stack: all have the same, and runs see the terminal's tools."""
        self._loop = loop
        self._is_routed = is_routed
        self._maestro = maestro
        self._profile = profile
        self._worker = profile.described(worker_id, iso(maestro.server.now_ms()), most)
        self._said_s = self._found_s = float("-inf")
        self._is_listed = False
        self.runs_done = 0
        self._queue = profile.queue
        self._asking: _Versions | None = None

    @property
    def asking(self) -> int | None:
        """The process that asks tools for their versions, if there is one."""
        return self._asking.pid if self._asking is not None else None

    def tend(self, now_s: float, runs_now: int) -> bool:
        """Do what is due; tell whether workers have to be started anew: what they have is not what it was."""
        if self._asking is not None and self._asking.is_over():
            self._asking = None
        if now_s >= self._found_s + TOOLS_S and self._asking is None:
            self._found_s = now_s
            self._profile.find_tools()
            if self._is_routed and (fresh := self._profile.take_fresh()):
                self._asking = _Versions(self._loop, fresh, self._profile.programs, self._take)
        if now_s >= self._said_s + (CHANGE_S if self._has_changed(runs_now) else BEAT_S):
            self._profile.check_again()
            self.say(now_s, runs_now)
        if not self._is_routed or self._queue == self._profile.queue:
            return False
        self._queue = self._profile.queue
        self.say(now_s, runs_now)
        return True

    def _has_changed(self, runs_now: int) -> bool:
        return self._is_routed and (runs_now, self.runs_done) != (self._worker.runs_now, self._worker.runs_done)

    def say(self, now_s: float, runs_now: int) -> None:
        """Announce these workers; a server that is away hears it when it is back."""
        self._said_s = now_s
        found = self._profile.described(self._worker.id, self._worker.since, self._worker.runs_at_once)
        queue = found.queue if self._is_routed else ""
        self._worker = msgspec.structs.replace(found, runs_now=runs_now, runs_done=self.runs_done, queue=queue)
        with suppress(MaestroError):
            self._is_listed = self._maestro.workers.announce(self._worker)

    def note_lack(self, what: str, now_s: float, runs_now: int) -> None:
        """Say that a run asked for something that is not here: others are asked before this one is again."""
        self._profile.note_lack(what)
        self.say(now_s, runs_now)

    def close(self) -> None:
        """Take these workers off the list."""
        if self._asking is not None:
            self._asking.end()
            self._asking = None
        if self._is_listed:
            self._is_listed = False
            with suppress(MaestroError):
                self._maestro.workers.sign_off(self._worker.id)

    def _take(self, versions: dict[str, str]) -> None:
        self._profile.versions |= versions
        self._said_s = float("-inf")


class _Versions:
    """Asks tools for their versions in a process of its own: this one waits for nobody, and has no threads."""

    def __init__(
        self, loop: Loop, tools: list[Tool], programs: Mapping[str, str], take: Callable[[dict[str, str]], None]
    ) -> None:
        self._loop, self._programs, self._take = loop, programs, take
        reader, writer = os.pipe()
        self._printed = os.fdopen(reader, "rb", buffering=0)
        self._told = b""
        try:
            self.pid: int | None = fork(lambda: self._find_out(tools, writer))
        except OSError as error:
            _log.warning("versions_not_asked", reason=error.strerror)
            self.pid = None
        finally:
            os.close(writer)
        loop.add(self._printed, self._hear)

    def _find_out(self, tools: list[Tool], writer: int) -> int:
        """Ask them, in a child; what it prints is read to its end."""
        from maestro_state.tools.check import check_tools
        from maestro_state.tools.tools_file import OK

        self._loop.forget()
        rows = [finding.row for finding in check_tools(tools, os.environ, "", programs=self._programs)]
        told = {row.name: row.notes for row in rows if row.status == OK and row.notes}
        with os.fdopen(writer, "wb") as out:
            out.write(msgspec.json.encode(told))
        return 0

    def _hear(self) -> None:
        data = self._printed.read(1 << 16)
        if data:
            self._told += data
            return
        self._loop.drop(self._printed)
        with suppress(msgspec.MsgspecError):  # it was ended before it had told all
            self._take(msgspec.json.decode(self._told, type=dict[str, str]))

    def is_over(self) -> bool:
        """Tell whether its process has exited."""
        if self.pid is not None and collect(self.pid) is not None:
            self.pid = None
        return self.pid is None

    def end(self) -> None:
        """End it."""
        if not self._printed.closed:
            self._loop.drop(self._printed)
        if self.pid is not None:
            signal_group(self.pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(self.pid, 0)
            self.pid = None
