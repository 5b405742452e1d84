"""Several workers at once: each a process of its own, started again when it ends, gone when this one goes."""

from __future__ import annotations

import signal
import sys
import threading
import time
from pathlib import Path
from types import FrameType

from maestro_state.errors import MaestroError
from maestro_state.logs import get_logger
from workers.services import Keeper, ProcessService
from workers.sweep import sweep
from workers.usage import Insider

#: Seconds a worker gets to end its run and say goodbye.
STOP_S = 15.0

_log = get_logger("maestro.worker")


def worker_service(root: str, *, name: str = "worker", burst: bool = False, is_stack: bool = False) -> ProcessService:
    """Return a worker of a project as a service."""
    # -P: otherwise the current folder comes first on the path, and a project's own `workers` would be run.
    command = [sys.executable, "-P", "-m", "workers.worker", "--project", root]
    flags = [*(["--burst"] if burst else []), *(["--service"] if is_stack else [])]
    return ProcessService(name, [*command, *flags])


class StackWorker:
    """The worker that the embedded stack brings along; while a run is open the stack is in use."""

    name = "worker"

    def __init__(self, root: Path) -> None:
        """Work for one project."""
        self._process = worker_service(str(root), is_stack=True)
        self._insider = Insider(root)

    def start(self) -> None:
        """Start the worker."""
        self._process.start()
        self._insider.has_open_runs()  # connects, now that there is use anyway

    def stop(self, timeout_s: float) -> None:
        """Stop the worker; the run it has ends, and says why."""
        self._insider.close()
        self._process.stop(timeout_s)

    def is_alive(self) -> bool:
        """Say whether it is running."""
        return self._process.is_alive()

    def before_stop(self) -> bool:
        """Let nobody stop the stack for idling while a run is open."""
        return not self._insider.has_open_runs()


class StackScheduler:
    """The scheduler that the embedded stack brings along; before the stack stops, everything is written to disk."""

    name = "scheduler"

    def __init__(self, root: Path) -> None:
        """Keep house for one project."""
        self._insider = Insider(root)
        self._process = ProcessService(
            self.name, [sys.executable, "-P", "-m", "workers.scheduler", "--project", str(root)]
        )

    def start(self) -> None:
        """Start the scheduler."""
        self._process.start()
        self._insider.has_open_runs()  # connects, now that there is use anyway

    def stop(self, timeout_s: float) -> None:
        """Stop the scheduler."""
        self._insider.close()
        self._process.stop(timeout_s)

    def is_alive(self) -> bool:
        """Say whether it is running."""
        return self._process.is_alive()

    def before_stop(self) -> bool:
        """Write everything to disk; what cannot be written is kept by the server's own file and tried again later."""
        try:
            report = sweep(self._insider.maestro)
        except MaestroError as error:
            _log.warning("not_on_disk", reason=str(error))
            return True
        for failure in report.errors:
            _log.warning("not_on_disk", session=failure.id, reason=failure.reason)
        # Somebody else is at it just now: the stack waits for the next look.
        return report.busy is None


def work_together(root: str, count: int, *, burst: bool = False) -> int:
    """Keep `count` workers until told to leave; with `burst`, until each has found nothing more to do."""
    workers = [worker_service(root, name=f"worker-{number}", burst=burst) for number in range(1, count + 1)]
    leaving = threading.Event()

    def leave(number: int, frame: FrameType | None) -> None:
        del number, frame
        leaving.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, leave)
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
