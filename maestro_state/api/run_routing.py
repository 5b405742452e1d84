"""Which workers a run is for, found when it is asked for; or, at once, that none of those there can do it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from maestro_state._sync.queue import KNOWN_S, Queue
from maestro_state.errors import NoFittingWorker
from maestro_state.local.handover import Holder
from maestro_state.local.project import Project
from maestro_state.local.settings import Settings
from maestro_state.models.worker import Needs, Worker
from maestro_state.tools import Tool


class Routes:
    """Chooses who carries out a run."""

    def __init__(self, queue: Queue, project: Project) -> None:
        self._queue = queue
        self._project = project

    def chosen(
        self, needs: Needs, tool: Tool, reached: Sequence[Holder], environment: Mapping[str, str]
    ) -> list[Holder]:
        """Return who of this machine is to be handed the run's environment; nobody when it is for workers elsewhere.

        NoFittingWorker when there are workers and none has what the run needs. Without any it waits for one.
        """
        if not self._queue.is_routed:
            if needs.labels:
                raise NoFittingWorker(
                    f"no worker has label {needs.labels[0]}: those of a project's own stack have none",
                    hint="leave --label out, or set MAESTRO_REDIS_URL to a team's server",
                )
            return list(reached)
        from maestro_state.tools.worker_matching import fits, refusal

        present = self._queue.present(within_s=0.0)
        if not present:
            return [] if needs.labels else list(reached)
        here = self._of_this_machine(needs, tool, reached, environment)
        if here or any(fits(worker, needs) for worker in present) or self._queue.has_silent_worker():
            return here
        raise refusal(needs, present)

    def most_at_once(self, own: Settings) -> tuple[int, int]:
        """Return how many runs of a user, and how many of a session, may be open at once; 0 is any number. What a
        team's workers are told counts on every laptop: the strictest of that and of this program's own settings.
        """
        told: list[Settings | Worker] = [own, *self._queue.present(within_s=KNOWN_S)]
        return _strictest(one.runs_per_user for one in told), _strictest(one.runs_per_session for one in told)

    def _of_this_machine(
        self, needs: Needs, tool: Tool, reached: Sequence[Holder], environment: Mapping[str, str]
    ) -> list[Holder]:
        """Return those of this machine that can carry it out: tool and folder are those this terminal finds."""
        from maestro_state.tools.worker_matching import has_labels, has_tool

        if not reached or not os.path.isdir(needs.folder) or not self._finds(tool, environment):
            return []
        known = {worker.id: worker for worker in self._queue.present()}

        def is_able(holder: Holder) -> bool:
            worker = known.get(holder.name)
            if worker is None:  # it has not said what it has
                return not needs.labels
            return has_labels(worker, needs.labels) and (not worker.only_tools or has_tool(worker, needs.tool))

        return [holder for holder in reached if is_able(holder)]

    def _finds(self, tool: Tool, environment: Mapping[str, str]) -> bool:
        from maestro_state.tools.tools_file import trusted_paths

        return tool.program(environment.get("PATH")) is not None or tool.name in trusted_paths(self._project)


def _strictest(limits: Iterable[int]) -> int:
    return min((limit for limit in limits if limit > 0), default=0)
