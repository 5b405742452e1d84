"""`maestro worker`: several workers in one process's care, started again when they end, gone when it goes."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass, field

from maestro_state import Maestro
from maestro_state.fs.kernel import keep_private
from maestro_state.local.handover import key_of, open_folder
from maestro_state.local.logs import configure_logs, get_logger
from maestro_workers.pool import Plan, Pool
from maestro_workers.rq_adapter.worker import work
from maestro_workers.stack import crew
from maestro_workers.stack.channel import Channel
from maestro_workers.stack.loop import Loop

#: Seconds that workers get, beyond the grace period of their runs, to say goodbye.
GOODBYE_S = 10.0
#: Seconds between two looks whether they have left.
_LOOK_S = 0.2

_log = get_logger("maestro.worker")


@dataclass(slots=True)
class _Leaving:
    """How often this process was asked to leave."""

    times: int = field(default=0)

    def ask(self) -> None:
        self.times += 1


def work_together(root: str, count: int, *, burst: bool = False) -> int:
    """Keep `count` workers until told to leave; with `burst`, until each has found nothing more to do.

    The first signal lets their runs end within the grace period, a second one ends them.
    """

    def one(channel: Channel) -> int:
        return work(root, burst=burst, channel=channel)

    with Maestro(root) as maestro:
        configure_logs(maestro.settings.log_level)
        keep_private()  # the tools are this user's too, and this holds the environments of their runs
        maestro.server.connection.retry_s = 0.0
        leaving = _Leaving()
        plan = Plan(one, count, count, look=lambda: crew.look(maestro), over=lambda names: crew.over(maestro, names))
        with Loop(leaving.ask) as loop:
            key = key_of(maestro.address, maestro.settings.namespace)
            pool = Pool(loop, plan, key, lambda text: _log.info("pool", said=text))
            _listen(maestro, pool)
            try:
                pool.tend(time.monotonic())
                pool.is_closed = burst
                while not leaving.times and (pool.count or not burst):
                    loop.wait(min(_LOOK_S, pool.tend(time.monotonic())))
                _drain(pool, loop, leaving, maestro.settings.stop_grace_seconds)
            finally:
                pool.stop(GOODBYE_S)
                pool.reception.close()
    return 0


def _listen(maestro: Maestro, pool: Pool) -> None:
    """Take the environments of runs asked for on this machine, where there is a place for it."""
    folder = open_folder(maestro.address, create=True)
    if folder is None:
        _log.warning("no_environments", reason="no folder of this user's alone for a socket: runs see the worker's own")
        return
    try:
        pool.reception.open(folder)
    finally:
        os.close(folder)


def _drain(pool: Pool, loop: Loop, leaving: _Leaving, grace_s: float) -> None:
    """Let the runs that are under way end, for as long as they may; asked again, not."""
    pool.ask_to_stop()
    until_s = time.monotonic() + grace_s + GOODBYE_S
    while pool.count and leaving.times < 2 and time.monotonic() < until_s:
        loop.wait(_LOOK_S)
        pool.tend(time.monotonic())
    if pool.count:
        pool.ask_to_stop(signal.SIGQUIT)
