"""The embedded stack's scheduler: a pass over the sessions whenever one is due, made by a fork of the supervisor.

A pass takes as long as the disk takes; meanwhile the supervisor has workers to start. Most passes would find nothing
to do, so the supervisor asks first, and forks only where there is something.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from maestro_state.errors import MaestroError
from maestro_state.local.embedded.probe import read_info
from maestro_state.local.logs import configure_logs, get_logger
from maestro_workers.pool.children import collect, fork, signal_group
from maestro_workers.pool.loop import Loop
from maestro_workers.scheduler import make_a_pass
from maestro_workers.stack.idleness import open_service
from maestro_workers.sweep import sweep

if TYPE_CHECKING:
    from maestro_state import Maestro

#: Seconds after which a pass is made whatever the server says: it also repairs what only it finds.
FULL_S = 600.0
#: Seconds after which a pass that did not work is tried again, at the earliest.
RETRY_S = 5.0

_log = get_logger("maestro.stack")


class Sweeps:
    """Makes passes, one at a time."""

    name = "sweeps"

    def __init__(self, root: Path, loop: Loop, log: Callable[[str], None]) -> None:
        """Take the project; nothing is connected to yet."""
        self._root = root
        self._loop = loop
        self._log = log
        self._maestro = open_service(root)
        self._pid: int | None = None
        self._due_s = self._full_s = 0.0
        self._connects = False
        self._changes = -1

    def tend(self, now_s: float) -> float:
        """Begin a pass if one is due; return in how many seconds to come back at the latest."""
        if self._is_under_way():
            return RETRY_S
        if now_s >= self._due_s:
            self._due_s = now_s + RETRY_S  # what goes wrong now is tried again
            try:
                self._due_s = now_s + self._pass_if_needed(now_s)
            except (MaestroError, OSError) as error:  # the server is away, or there can be no more processes
                _log.debug("sweep_put_off", reason=str(error))
        return max(0.1, self._due_s - now_s)

    def _pass_if_needed(self, now_s: float) -> float:
        """Fork where there is something to do; return in how many seconds the next pass is due."""
        maestro = self._maestro
        every_s = max(0.5, maestro.settings.checkpoint_seconds / 2)
        if now_s >= self._full_s or _count_changes(maestro) != self._changes or maestro.schedule.has_work(every_s):
            self._pid = fork(self._be_sweeper)
            self._full_s = now_s + FULL_S
            self._connects = True
        else:
            maestro.schedule.note_swept()
            self._changes = _count_changes(maestro)
        return every_s

    def _be_sweeper(self) -> int:
        """Make one pass, in a child."""
        self._loop.forget()
        configure_logs(self._maestro.settings.log_level)
        make_a_pass(lambda: open_service(self._root))
        return 0

    def _is_under_way(self) -> bool:
        if self._pid is not None:
            code = collect(self._pid)
            if code is None:
                return True
            if code:
                self._log(f"sweep_ended code={code}")
            self._pid = None
            with suppress(MaestroError):
                self._changes = _count_changes(self._maestro)  # its own among them
        return False

    def connects(self) -> bool:
        """Tell whether connections were made since this was last asked that are not use."""
        connects, self._connects = self._connects, self._is_under_way()
        return connects

    def before_stop(self, *, asked: bool) -> bool:
        """Bring everything to disk; False while there is more to write, or a pass is under way."""
        del asked
        if self._is_under_way():
            return False
        try:
            return has_all_on_disk(self._maestro)
        except MaestroError as error:
            _log.warning("not_asked", service=self.name, reason=str(error))
            return True  # a server that is not there has nothing that matters

    def stop(self, timeout_s: float) -> None:
        """End the pass, which is simply made again; by force after so long."""
        until_s = time.monotonic() + timeout_s
        while self._is_under_way() and time.monotonic() < until_s:
            self._loop.wait(0.05)
        if self._pid is not None:
            signal_group(self._pid, signal.SIGKILL)
            while self._is_under_way():
                self._loop.wait(0.05)

    def close(self) -> None:
        self._maestro.close()


def has_all_on_disk(maestro: Maestro) -> bool:
    """Make one pass; False while there is more to write, or somebody else is writing.

    What cannot be written is logged and does not keep the stack: it is in the server's own file, and tried again when
    the stack is started the next time.
    """
    report = sweep(maestro, thorough=True)
    for failure in report.errors:
        _log.warning("not_on_disk", session=failure.id, reason=failure.reason)
    if report.busy is not None:
        return False
    return not maestro.archive.unwritten() or not (report.checkpointed or report.finalized or report.archived)


def _count_changes(maestro: Maestro) -> int:
    """Return how many changes the server has seen, of whatever kind: the index may have lost who they were by."""
    found = read_info(maestro.server.connection.call("INFO", "persistence"))
    return int(found.get("rdb_changes_since_last_save", "0"))
