"""The sweep as the scheduler, the stack and `maestro sweep` run it: one pass, and an end to what lost runs left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from maestro_workers.orphans import end_survivors

if TYPE_CHECKING:
    from maestro_state import Maestro
    from maestro_state.upkeep.sweep import SweepReport


def sweep(maestro: Maestro, *, thorough: bool = False, pause_ms: int = 0) -> SweepReport:
    """Do one pass; what is left on this machine of runs that nobody looks after any more is ended with it."""
    end_survivors()
    return maestro.sweep(thorough=thorough, pause_ms=pause_ms)
