"""The workers of the embedded stack: none while nothing is to be done, as many as runs need otherwise."""

from __future__ import annotations

import gc
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from maestro_state.errors import MaestroError
from maestro_state.local.embedded import paths
from maestro_state.local.handover import key_of
from maestro_state.local.logs import get_logger
from maestro_state.models.run import OPEN
from maestro_state.state.calls import index
from maestro_workers.pool import Demand, Plan, Pool
from maestro_workers.stack.usage import SERVICE_CLIENT, Insider

if TYPE_CHECKING:
    from maestro_state import Maestro
    from maestro_workers.stack.channel import Channel
    from maestro_workers.stack.environments import Name
    from maestro_workers.stack.loop import Loop

#: What a worker needs. Loaded by the supervisor, for all of them.
_NEEDED = ("maestro_workers.rq_adapter.worker", "maestro_state._sync.claims", "maestro_state.api.archives",
           "maestro_state.api.sessions", "maestro_state.api.work", "maestro_state.mirror.writer")  # fmt: skip

_log = get_logger("maestro.stack")


def look(maestro: Maestro) -> Demand | None:
    """Ask what there is to do."""
    try:
        running = maestro.server.fetch(index.running_sessions(maestro.server.terms))
        return Demand(maestro.queue.waiting(), len(running))
    except MaestroError:
        return None  # the server is away: what there was to do may still be


def over(maestro: Maestro, names: list[Name]) -> list[Name]:
    """Return those of some runs that are over, or gone."""
    keys = maestro.server.terms.keys
    asked = [("HGET", keys.of_session(session_id, "runs"), f"{run_id}:status") for session_id, run_id in names]
    try:
        found = maestro.server.connection.calls(asked)
    except MaestroError:
        return []
    return [name for name, status in zip(names, found, strict=True) if (status or b"").decode() not in OPEN]


def has_no_open_run(maestro: Maestro, asked: bool) -> bool:
    """Let nobody stop the stack for idling while a run is open; somebody who asks for it ends the run."""
    return asked or not maestro.server.fetch(index.running_sessions(maestro.server.terms))


class Crew:
    """Keeps the pool of the stack."""

    name = "workers"

    def __init__(self, root: Path, loop: Loop, log: Callable[[str], None]) -> None:
        """Load what workers need; where they listen is opened with the first look."""
        self._root = root
        self._insider = Insider(root)
        maestro = self._insider.maestro
        maestro.server.connection.retry_s = 0.0  # a server that is away must not keep the supervisor
        plan = Plan(self._work, maestro.settings.workers, look=self._look, over=self._over)
        self._pool = Pool(loop, plan, key_of(maestro.address, maestro.settings.namespace), log)
        with paths.open_socket_folder(root) as folder:
            self._pool.reception.open(folder)  # first: whoever asks for a run waits for it
        for module in _NEEDED:
            import_module(module)
        gc.collect()
        gc.freeze()  # a collection in a fork would copy every page it looks at

    def _look(self) -> Demand | None:
        return look(self._insider.maestro)

    def _over(self, names: list[Name]) -> list[Name]:
        return over(self._insider.maestro, names)

    def _work(self, channel: Channel) -> int:
        from maestro_workers.rq_adapter.worker import work

        return work(str(self._root), client_name=SERVICE_CLIENT, channel=channel)

    def tend(self, now_s: float) -> float:
        """Do what is due; return in how many seconds to come back at the latest."""
        return self._pool.tend(now_s)

    def connects(self) -> bool:
        """Tell whether connections were made that are not use: a worker is there because somebody asked for a run."""
        return False

    def before_stop(self, *, asked: bool) -> bool:
        """Object while a run is open, unless the stack must stop anyway."""
        try:
            return has_no_open_run(self._insider.maestro, asked)
        except MaestroError as error:
            _log.warning("not_asked", service=self.name, reason=str(error))
            return True

    def stop(self, timeout_s: float) -> None:
        """End the workers at once; a run that is under way says why."""
        self._pool.stop(timeout_s)

    def close(self) -> None:
        """Listen no more."""
        self._pool.reception.close()
        self._insider.close()
