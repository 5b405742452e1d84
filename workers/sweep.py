"""The sweep as the scheduler, the stack and `maestro sweep` run it: one pass, with everything that recovers runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from maestro_state import Maestro
    from maestro_state._sync.server import Server
    from maestro_state._sync.sweep import SweepReport

#: Each ends runs whose owner is gone, or wakes a worker for pending ones, and returns them as `session/run`. They run
#: first, so that a session is written to disk with the true end of its runs.
RECOVERERS: list[Callable[[Server], list[str]]] = []


def sweep(maestro: Maestro) -> SweepReport:
    """Do one pass."""
    return maestro.archive.sweep(RECOVERERS)


def before_stop(maestro: Maestro) -> bool:
    """Write everything to disk before the server stops; False when something could not be written."""
    report = sweep(maestro)
    return not report.errors and report.busy is None
