"""What the embedded stack brings along: workers when they are needed, passes over the sessions, and the resident
processes of the commands and of agents.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from maestro_state.local.embedded import paths
from maestro_state.local.program import AGENTS, RESIDENT, command
from maestro_workers.pool.pool import Pool
from maestro_workers.stack.services import Keeper, ProcessService
from maestro_workers.stack.sweeps import Sweeps
from maestro_workers.stack.usage import SERVICE_CLIENT, open_service

if TYPE_CHECKING:
    from maestro_state import Maestro
    from maestro_workers.pool.channel import Channel
    from maestro_workers.pool.loop import Loop
    from maestro_workers.stack.services import Part


def stack_parts(root: Path, loop: Loop, log: Callable[[str], None]) -> list[Part]:
    """Return what the supervisor of a project looks after."""
    parts: list[Part] = [_workers(root, loop, log), Sweeps(root, loop, log)]
    if sys.platform == "linux":  # elsewhere a command cannot tell whose process listens, and runs by itself
        parts.append(Keeper(ProcessService(RESIDENT, command(RESIDENT, root)), log))
        if find_spec("mcp") is not None:  # the extra: who has it has agents that should not wait a second for it
            parts.append(Keeper(ProcessService(AGENTS, command(AGENTS, root)), log))
    return parts


def _workers(root: Path, loop: Loop, log: Callable[[str], None]) -> Pool:
    """Return the pool of the stack, with what its workers need loaded: none while nothing is to be done."""
    maestro = open_service(root)
    maestro.server.connection.retry_s = 0.0  # a server that is away must not keep the supervisor

    def work_for_stack(channel: Channel) -> int:
        from maestro_workers.worker import work

        return work(str(root), client_name=SERVICE_CLIENT, channel=channel)

    pool = Pool(loop, maestro, work_for_stack, log, most=maestro.settings.workers)
    with paths.open_socket_folder(root) as folder:
        pool.listener.open(folder)  # first: whoever asks for a run waits for it
    _load(maestro)
    gc.collect()
    gc.freeze()  # a collection in a fork would copy every page it reads
    return pool


def _load(maestro: Maestro) -> None:
    """Import what every worker needs, once for all of them: a room's modules come with it."""
    import maestro_workers.worker

    _ = maestro_workers.worker, maestro.claims, maestro.archive, maestro.sessions, maestro.work, maestro.runs
