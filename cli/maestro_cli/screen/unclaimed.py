"""Runs that no worker has taken: what they wait for, in the same words for whoever asked and whoever only waits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from maestro_cli import output

if TYPE_CHECKING:
    from maestro_cli.app import App

#: Seconds a run may wait before it is said that there is no worker,
_TIMEOUT_S = 5.0
#: and where the stack brings its own: on a busy machine that one is still starting, and nobody has to do anything.
_OWN_WORKER_S = 60.0
#: What a run waits for that nobody is before.
_SOON = "waiting for a worker"
#: Seconds a run may wait behind others before a program that waits for it is told.
_QUEUED_S = 2.0


def warn_if_alone(app: App) -> bool:
    """Say so when nobody carries out runs: nobody here can start a worker of a team's server. Return whether it was."""
    if app.maestro.settings.redis_url is None or app.maestro.runs.workers():
        return False
    output.warning(_alone(app))
    return True


def _alone(app: App) -> str:
    # A stack of one's own brings workers: why it has none, doctor says.
    more = "maestro doctor" if app.maestro.settings.redis_url is None else "maestro worker"
    return f"no worker is listening: the run waits until one does ({more})"


class Unclaimed:
    """A run that no worker has taken yet. Nothing of it is said twice."""

    def __init__(self, app: App, run_id: str, *, told_alone: bool) -> None:
        self._app = app
        self._run_id = run_id
        self._told_alone = told_alone
        self._told_state = _SOON
        self._timeout_s = _OWN_WORKER_S if app.maestro.settings.redis_url is None else _TIMEOUT_S

    def state(self) -> str:
        """Say what the run waits for, and how many are before it."""
        from maestro_state.errors import MaestroError

        room = self._app.maestro.runs
        try:
            ahead = room.ahead(self._run_id)
            missing = room.waits_for(self._run_id) if ahead is None else None
        except MaestroError:
            ahead = missing = None  # whoever waits for its end will say it
        if missing is not None:
            return f"waiting for {missing}, and none is there"
        return _SOON if ahead is None else f"waiting for a free worker, {ahead} ahead"

    def news(self, waited_s: float, state: str, *, has_line: bool) -> Iterator[str]:
        """Yield what is to be said by now; of what it waits for only where no status line says that."""
        if self.is_overdue(waited_s):
            self._told_alone = True
            if self._is_alone():
                yield _alone(self._app)
        if not has_line and waited_s >= _QUEUED_S and state not in (_SOON, self._told_state):
            self._told_state = state
            more = "MAESTRO_WORKERS says how many there are" if "ahead" in state else "maestro workers"
            yield f"run {self._run_id} is {state} ({more})"

    def is_overdue(self, waited_s: float) -> bool:
        """Tell whether it is time to ask if there is a worker at all."""
        return not self._told_alone and waited_s >= self._timeout_s

    def _is_alone(self) -> bool:
        from maestro_state.errors import MaestroError

        try:
            return not self._app.maestro.runs.workers()
        except MaestroError:
            return False  # whoever waits for its end will say it
