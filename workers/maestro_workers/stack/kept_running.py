"""What the embedded stack brings along: workers when they are needed, passes over the sessions, a log without what
was deleted, the resident processes of the commands and of agents, and `maestro serve` where that is set.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from maestro_state.errors import MaestroError
from maestro_state.local.embedded import paths
from maestro_state.local.program import AGENTS, RESIDENT, SERVER, command
from maestro_state.local.settings import load_settings
from maestro_workers.pool.pool import Pool
from maestro_workers.pool.presence import Presence
from maestro_workers.profile import Profile
from maestro_workers.stack.erasure import Erasure
from maestro_workers.stack.idleness import SERVICE_CLIENT, open_service
from maestro_workers.stack.services import Keeper, ProcessService
from maestro_workers.stack.sweeps import Sweeps

if TYPE_CHECKING:
    from maestro_state import Maestro
    from maestro_workers.pool.channel import Channel
    from maestro_workers.pool.loop import Loop
    from maestro_workers.stack.services import Part


def stack_parts(root: Path, loop: Loop, log: Callable[[str], None]) -> list[Part]:
    """Return what the supervisor of a project looks after."""
    parts: list[Part] = [_workers(root, loop, log), Sweeps(root, loop, log), Erasure(root, log)]
    if sys.platform == "linux":  # elsewhere a command cannot tell whose process listens, and runs by itself
        parts.append(Keeper(ProcessService(RESIDENT, command(RESIDENT, root)), log))
        if find_spec("mcp") is not None:  # the extra: who has it has agents that should not wait a second for it
            parts.append(Keeper(ProcessService(AGENTS, command(AGENTS, root)), log))
    if _serves(root, log):
        parts.append(Keeper(ProcessService(SERVER, command(SERVER, root)), log))
    return parts


def _serves(root: Path, log: Callable[[str], None]) -> bool:
    """Tell whether the stack is to serve HTTP."""
    try:
        port = load_settings(root, os.environ).serve_port
    except MaestroError:
        return False  # whoever set something wrong is told by every command
    if port and find_spec("uvicorn") is None:
        log("not_served reason='the extra serve is missing'")
    return bool(port) and find_spec("uvicorn") is not None


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
    profile = Profile(str(root))
    pool.presence = Presence(loop, maestro, profile, pool.listener.holder, maestro.settings.workers, is_routed=False)
    gc.collect()
    gc.freeze()  # a collection in a fork would copy every page it reads
    return pool


def _load(maestro: Maestro) -> None:
    """Import what every worker needs, once for all of them: a room's modules come with it."""
    import maestro_workers.worker

    _ = maestro_workers.worker, maestro.claims, maestro.archive, maestro.sessions, maestro.work, maestro.runs
    _ = maestro.workers
