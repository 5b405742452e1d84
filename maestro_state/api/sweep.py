"""One pass over everything there is to look after: runs, sessions, work sessions, plans of discussions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from maestro_state.errors import MaestroError, ServerUnavailable
from maestro_state.local.logs import get_logger
from maestro_state.mirror.layouts.plan import finish_change
from maestro_state.net import is_forbidden
from maestro_state.upkeep.sweep import Failure, SweepReport

if TYPE_CHECKING:
    from maestro_state._sync.server import Server
    from maestro_state.api.maestro import Maestro

_log = get_logger("maestro.sweep")


@contextmanager
def _or_later() -> Iterator[None]:
    """Write to the ledger if that can be done now: no sweep fails for it, least of all one that would make room.

    A terminal's account may not; the next sweep of a worker's does it.
    """
    try:
        yield
    except MaestroError as error:
        log = _log.debug if isinstance(error, ServerUnavailable) and is_forbidden(error) else _log.warning
        log("not_counted", reason=str(error))


def sweep(maestro: Maestro, *, thorough: bool, pause_ms: int) -> SweepReport:
    """Do one pass. Runs are recovered first, so that a session is written to disk with the true end of its runs."""

    def recover(_: Server) -> list[str]:
        return [f"{session_id}/{run_id}" for session_id, run_id in maestro.claims.recover()]

    def count(_: Server) -> list[str]:
        with _or_later():
            maestro.ledger.count_rest()
        return []

    def follow(report: SweepReport) -> None:
        report.checkpointed += maestro.work.sweep()
        try:
            finish_change(maestro.project.root)
        except MaestroError as error:
            report.errors.append(Failure("plan", str(error)))
        fault = maestro.claims.queue_fault
        if fault is not None:  # the disk does not need a worker; the runs that wait for one do
            report.errors.append(Failure("queue", f"{fault} ({fault.hint})"))
        maestro.schedule.note_swept()  # whoever did it, doctor and the schedulers know

    return _noted(maestro, maestro.archive.sweep([recover, count], [follow], thorough=thorough, pause_ms=pause_ms))


def sweep_share(maestro: Maestro, pause_ms: int) -> SweepReport:
    """Take a share of a pass that somebody else is in charge of."""
    return _noted(maestro, maestro.archive.sweep_shards(pause_ms))


def _noted(maestro: Maestro, report: SweepReport) -> SweepReport:
    """Count what went wrong: when all is done, since most of it does in the shards."""
    if report.errors:
        with _or_later():
            maestro.ledger.count_errors("sweep", len(report.errors))
    return report
