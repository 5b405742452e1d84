"""Before a run is carried out: whether it is for this worker, and where it works here.

A run is left alone, not failed, while somebody else can carry it out: whoever recovers runs that wait puts its job
where the right worker finds it. So a worker killed at any moment before its claim has taken nothing with it.
"""

from __future__ import annotations

import os
import socket

from maestro_state import Maestro
from maestro_state.errors import MaestroError, RunNotFound, WorkFailed
from maestro_state.local.handover import close_all, reach
from maestro_state.local.logs import get_logger
from maestro_state.models.claim import Claim
from maestro_state.models.worker import Waiting
from maestro_state.tools.worker_matching import fits
from maestro_workers.pool.channel import Channel
from maestro_workers.profile import LABEL, TOOL, Profile

_log = get_logger("maestro.worker")


class Admission:
    """What one worker takes."""

    def __init__(self, maestro: Maestro, channel: Channel | None, profile: Profile | None) -> None:
        self._maestro = maestro
        self._channel = channel
        self._profile = profile
        self._run: Waiting | None = None

    def leaves_to_others(self, session_id: str, run_id: str) -> bool:
        """Tell whether a run, whose environment this worker was not handed, is for somebody else."""
        try:
            run = self._maestro.claims.waiting(session_id, run_id)
        except RunNotFound:
            return False  # who claims it hears so
        if self._is_held_elsewhere(run):
            _log.info("run_left_to_others", reason="they have its environment")
            return True
        if self._profile is None or run.needs.holders:
            return False
        missing = self._profile.missing(run.needs)
        if missing is None or not self._is_for_others(run, missing):
            self._run = run
            return False
        _log.info("run_left_to_others", reason=f"{missing} is not here")
        return True

    def tell_others(self) -> None:
        """Take the jobs back that wait for other workers: the run is claimed."""
        if self._run is None or self._profile is None:
            return
        try:
            self._maestro.queue.withdraw(self._run, self._profile.queue)
        except MaestroError as error:  # who takes one finds nothing to do; this run is not given up for it
            _log.warning("jobs_not_withdrawn", reason=str(error))

    def _is_held_elsewhere(self, run: Waiting) -> bool:
        """Tell whether somebody else, who lives, was handed what this run is to see."""
        holders = run.needs.holders
        if not holders or (self._channel is not None and self._channel.holder in holders):
            return False
        here = reach(self._maestro.address, self._maestro.settings.namespace)
        close_all(here)
        return any(holder.name in holders for holder in here) or self._maestro.queue.has_worker_of(holders)

    def _is_for_others(self, run: Waiting, missing: str) -> bool:
        """Tell whether a run that needs what is missing here is for others, and tell them that it is missing."""
        if missing in (LABEL, TOOL):
            return True  # also when nobody has it now: it waits for one who has
        if self._channel is None:
            return False
        self._channel.say_lacks(missing)
        others = [one for one in self._maestro.queue.present(within_s=0.0) if one.id != self._channel.holder]
        return any(fits(one, run.needs) for one in others) or self._maestro.queue.has_silent_worker()

    def place(self, claim: Claim) -> str:
        """Return where a run works on this machine; WorkFailed when that is not here."""
        folder = claim.working_directory
        if self._profile is not None and not claim.run.holders:
            return self._profile.place(folder)
        if os.path.isdir(folder):
            return folder
        where, remedy = f"on {socket.gethostname()}, where the worker runs", "maestro session set working_directory DIR"
        raise WorkFailed(f"the working directory {folder} is not there {where} ({remedy})")
