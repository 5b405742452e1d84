"""`maestro worker`: a team's workers, in the care of one process that starts them again and drains them."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from maestro_state import Maestro
from maestro_state.local.handover import open_folder
from maestro_state.local.logs import configure_logs, get_logger
from maestro_state.local.process import keep_private
from maestro_workers.pool.channel import Channel
from maestro_workers.pool.children import collect_orphans
from maestro_workers.pool.loop import Loop
from maestro_workers.pool.pool import Pool
from maestro_workers.pool.presence import Presence
from maestro_workers.profile import Profile
from maestro_workers.worker import work

#: Seconds that workers get, beyond the grace period of their runs, to exit.
EXIT_S = 10.0
#: Seconds between two polls of whether they have.
_POLL_S = 0.2

_log = get_logger("maestro.worker")


class Team:
    """So many workers, until asked to stop."""

    def __init__(self, maestro: Maestro, count: int, profile: Profile, *, burst: bool) -> None:
        """With `burst`, each worker works until it has found nothing more to do, and is not replaced."""
        self._maestro, self._count, self._burst = maestro, count, burst
        self._profile = profile
        self._stops = 0

    def run(self) -> None:
        """Keep the workers; the first signal lets their runs end within the grace period, a second one ends them."""
        with Loop(self._on_stop) as loop:
            pool = Pool(loop, self._maestro, self._work, _note, most=self._count, resting=self._count)
            holder, is_routed = pool.listener.holder, self._maestro.queue.is_routed
            pool.presence = Presence(loop, self._maestro, self._profile, holder, self._count, is_routed=is_routed)
            pool.presence.say(time.monotonic(), 0)  # first: who finds the socket asks what is behind it
            _listen(self._maestro, pool)
            try:
                pool.tend(time.monotonic())
                pool.is_closed = self._burst
                while not self._stops and (pool.count or not self._burst):
                    loop.wait(min(_POLL_S, pool.tend(time.monotonic())))
                    collect_orphans(pool.pids)
                self._drain(pool, loop)
            finally:
                pool.stop(EXIT_S)
                pool.close()

    def _on_stop(self) -> None:
        self._stops += 1

    def _work(self, channel: Channel) -> int:
        root, is_routed = str(self._maestro.project.root), self._maestro.queue.is_routed
        return work(root, burst=self._burst, channel=channel, profile=self._profile if is_routed else None)

    def _drain(self, pool: Pool, loop: Loop) -> None:
        """Let the runs that are under way end, for as long as they may; asked again, not."""
        pool.ask_to_stop()
        if pool.presence is not None:
            pool.presence.close()  # no run is sent here any more
            pool.presence = None
        until_s = time.monotonic() + self._maestro.settings.stop_grace_seconds + EXIT_S
        while pool.count and self._stops < 2 and time.monotonic() < until_s:
            loop.wait(_POLL_S)
            pool.tend(time.monotonic())


def work_together(
    root: str, count: int, *, burst: bool = False, labels: Sequence[str] = (), tools: Sequence[str] | None = None
) -> int:
    """Keep `count` workers until told to stop; with `burst`, until each has found nothing more to do.

    They have these tools, by default those that are found on PATH; NotFound for one that is not there.
    """
    keep_private()  # the tools are this user's too, and this holds the environments of their runs
    with Maestro(root) as maestro:
        configure_logs(maestro.settings.log_level)
        profile = Profile.of(maestro, labels, tools)
        maestro.server.connection.retry_s = 0.0
        Team(maestro, count, profile, burst=burst).run()
    return 0


def _note(text: str) -> None:
    _log.info("pool", said=text)


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
