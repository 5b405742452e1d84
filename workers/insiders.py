"""The services that the embedded stack brings along: a worker, a scheduler, and the resident process of the commands.

Worker and scheduler each come with a connection of the supervisor's own, to ask whether the stack may stop: it does not
before all is written to disk.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from maestro_state.errors import MaestroError
from maestro_state.logs import get_logger
from maestro_state.ops import archiving, index
from workers.pool import program
from workers.services import ProcessService
from workers.sweep import sweep
from workers.usage import Insider

if TYPE_CHECKING:
    from maestro_state import Maestro
    from workers.services import Service

_log = get_logger("maestro.stack")


class StackService:
    """One service of the stack."""

    def __init__(self, name: str, root: Path, command: list[str], may_stop: Callable[[Maestro, bool], bool]) -> None:
        """Take what to run, and what says whether the stack may stop, given whether somebody asked for it."""
        self.name = name
        self._process = ProcessService(name, command)
        self._insider = Insider(root)
        self._may_stop = may_stop

    def start(self) -> None:
        """Start the process, and connect now that there is use anyway."""
        self._process.start()
        self._insider.connect()

    def stop(self, timeout_s: float) -> None:
        """Stop the process."""
        self._insider.close()
        self._process.stop(timeout_s)

    def is_alive(self) -> bool:
        """Say whether it is running."""
        return self._process.is_alive()

    def before_stop(self, *, asked: bool) -> bool:
        """Bring what it does to a safe point; a server that is not there has nothing that matters."""
        try:
            return self._may_stop(self._insider.maestro, asked)
        except MaestroError as error:
            _log.warning("not_asked", service=self.name, reason=str(error))
            return True


def stack_services(root: Path) -> list[Service]:
    """Return what the stack of a project keeps running."""
    worker = program("workers.worker", str(root), "--service")
    scheduler = program("workers.scheduler", str(root))
    services: list[Service] = [
        StackService("worker", root, worker, has_no_open_run),
        StackService("scheduler", root, scheduler, has_all_on_disk),
    ]
    if sys.platform == "linux":  # elsewhere a command cannot tell whose process listens, and runs by itself
        services.append(ProcessService("resident", program("cli.resident", str(root))))
    return services


def has_no_open_run(maestro: Maestro, asked: bool) -> bool:
    """Let nobody stop the stack for idling while a run is open; somebody who asks for it ends the run."""
    return asked or not maestro.server.fetch(index.running_sessions(maestro.server.terms))


def has_all_on_disk(maestro: Maestro, asked: bool) -> bool:
    """Make one pass; False while there is more to write, or somebody else is writing.

    What cannot be written is logged and does not keep the stack: it is in the server's own file, and tried again when
    the stack is started the next time.
    """
    del asked
    report = sweep(maestro, thorough=True)
    for failure in report.errors:
        _log.warning("not_on_disk", session=failure.id, reason=failure.reason)
    if report.busy is not None:
        return False
    left = maestro.server.fetch(archiving.count_dirty(maestro.server.terms))
    return not left or not (report.checkpointed or report.finalized or report.archived)
