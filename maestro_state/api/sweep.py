"""One pass over everything there is to look after: runs, sessions, work sessions, plans of discussions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from maestro_state.errors import MaestroError
from maestro_state.mirror.layouts.plan import finish_change
from maestro_state.upkeep.sweep import Failure, SweepReport

if TYPE_CHECKING:
    from maestro_state._sync.server import Server
    from maestro_state.api.maestro import Maestro


def sweep(maestro: Maestro, *, thorough: bool) -> SweepReport:
    """Do one pass. Runs are recovered first, so that a session is written to disk with the true end of its runs."""

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
