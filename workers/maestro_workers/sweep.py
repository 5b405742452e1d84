"""The sweep as the scheduler, the stack and `maestro sweep` run it: one pass.

Runs are recovered first, so that a session is written to disk with the true end of its runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from maestro_state.errors import MaestroError
from maestro_state.mirror.layouts.plan import finish_change
from maestro_state.upkeep.sweep import Failure
from maestro_workers.survivors import end_survivors

if TYPE_CHECKING:
    from maestro_state import Maestro
    from maestro_state._sync.server import Server
    from maestro_state.upkeep.sweep import SweepReport


def sweep(maestro: Maestro, *, thorough: bool = False) -> SweepReport:
    """Do one pass; a `thorough` one also looks for changes that the index has lost.

    What is left on this machine of runs that nobody looks after any more is ended with it.
    """
    end_survivors()

    def recover(_: Server) -> list[str]:
        return [f"{session_id}/{run_id}" for session_id, run_id in maestro.claims.recover()]

    report = maestro.archive.sweep([recover], thorough=thorough)
    if report.busy is None:
        report.checkpointed += maestro.work.sweep()
        try:
            finish_change(maestro.project.root)
        except MaestroError as error:
            report.errors.append(Failure("plan", str(error)))
        fault = maestro.claims.queue_fault
        if fault is not None:  # the disk does not need a worker; the runs that wait for one do
            report.errors.append(Failure("queue", f"{fault} ({fault.hint})"))
        maestro.schedule.note_swept()  # whoever did it, doctor and the schedulers know
    return report
