"""`maestro worker`: a team's workers, in the care of one process that starts them again and drains them."""

from __future__ import annotations

import os
import time

from maestro_state import Maestro
from maestro_state.local.handover import open_folder
from maestro_state.local.logs import configure_logs, get_logger
from maestro_state.local.process import keep_private
from maestro_workers.pool.channel import Channel
from maestro_workers.pool.loop import Loop
from maestro_workers.pool.pool import Pool
from maestro_workers.worker import work

#: Seconds that workers get, beyond the grace period of their runs, to exit.
EXIT_S = 10.0
#: Seconds between two polls of whether they have.
_POLL_S = 0.2

_log = get_logger("maestro.worker")


class Team:
    """So many workers, until asked to stop."""

    def __init__(self, maestro: Maestro, count: int, *, burst: bool) -> None:
        """With `burst`, each worker works until it has found nothing more to do, and is not replaced."""
        self._maestro, self._count, self._burst = maestro, count, burst
        self._stops = 0

    def run(self) -> None:
        """Keep the workers; the first signal lets their runs end within the grace period, a second one ends them."""
        with Loop(self._on_stop) as loop:
            log = lambda text: _log.info("pool", said=text)  # noqa: E731
            pool = Pool(loop, self._maestro, self._work, log, most=self._count, resting=self._count)
            _listen(self._maestro, pool)
            try:
                pool.tend(time.monotonic())
                pool.is_closed = self._burst
                while not self._stops and (pool.count or not self._burst):
                    loop.wait(min(_POLL_S, pool.tend(time.monotonic())))
                self._drain(pool, loop)
            finally:
                pool.stop(EXIT_S)
                pool.close()

    def _on_stop(self) -> None:
        self._stops += 1

    def _work(self, channel: Channel) -> int:
        return work(str(self._maestro.project.root), burst=self._burst, channel=channel)

    def _drain(self, pool: Pool, loop: Loop) -> None:
        """Let the runs that are under way end, for as long as they may; asked again, not."""
        pool.ask_to_stop()
        until_s = time.monotonic() + self._maestro.settings.stop_grace_seconds + EXIT_S
        while pool.count and self._stops < 2 and time.monotonic() < until_s:
            loop.wait(_POLL_S)
            pool.tend(time.monotonic())


def work_together(root: str, count: int, *, burst: bool = False) -> int:
    """Keep `count` workers until told to stop; with `burst`, until each has found nothing more to do."""
    with Maestro(root) as maestro:
        configure_logs(maestro.settings.log_level)
        keep_private()  # the tools are this user's too, and this holds the environments of their runs
        maestro.server.connection.retry_s = 0.0
        Team(maestro, count, burst=burst).run()
    return 0


def _listen(maestro: Maestro, pool: Pool) -> None:
    """Take the environments of runs asked for on this machine, where there is a place for it."""
    folder = open_folder(maestro.address, create=True)
    if folder is None:
        _log.warning("no_environments", reason="no folder of this user's alone for a socket: runs see the worker's own")
        return
    try:
        pool.listener.open(folder)
    finally:
        os.close(folder)
