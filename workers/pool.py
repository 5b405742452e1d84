"""Several workers at once: each a process of its own, started again when it ends, gone when this one goes."""

from __future__ import annotations

import sys
import time

from maestro_state.kernel import keep_private
from maestro_state.logs import get_logger
from workers.leaving import leave_on_signal
from workers.services import Keeper, ProcessService

#: Seconds a worker gets to end its run and say goodbye.
STOP_S = 15.0

_log = get_logger("maestro.worker")


def program(module: str, root: str, *flags: str) -> list[str]:
    """Return the command that runs one of our programs for a project."""
    # -P: otherwise the current folder comes first on the path, and a project's own `workers` would be run.
    return [sys.executable, "-P", "-m", module, "--project", root, *flags]


def work_together(root: str, count: int, *, burst: bool = False) -> int:
    """Keep `count` workers until told to leave; with `burst`, until each has found nothing more to do."""
    command = program("workers.worker", root, *(["--burst"] if burst else []))
    workers = [ProcessService(f"worker-{number}", command) for number in range(1, count + 1)]
    keep_private()
    leaving = leave_on_signal()
    keepers = [Keeper(worker, lambda text: _log.info("pool", said=text)) for worker in workers]
    try:
        for keeper in keepers:
            keeper.tend(time.monotonic())
        while not leaving.is_set():
            if burst and not any(worker.is_alive() for worker in workers):
                break
            leaving.wait(0.2)
            if not burst:
                for keeper in keepers:
                    keeper.tend(time.monotonic())
    finally:
        _stop(workers)
    return 0


def _stop(workers: list[ProcessService]) -> None:
    """Ask all of them first, so that they end at the same time."""
    for worker in workers:
        worker.ask_to_stop()
    for worker in workers:
        worker.stop(STOP_S)
