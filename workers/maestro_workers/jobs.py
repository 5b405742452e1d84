"""What jobs may do: the entry points whose names are in the queue. A name here is a wire format; it is never changed
while old jobs may wait.
"""

from __future__ import annotations

from maestro_workers.finalize import finalize
from maestro_workers.run import Workshop
from maestro_workers.send_archive import send

#: How this process carries runs out; a worker sets it, else it is made from the folder and environment it is in.
_workshop: Workshop | None = None


def equip(workshop: Workshop) -> None:
    """Say how runs are carried out in this process."""
    global _workshop  # RQ calls functions by name: what they need has to be found by name too
    _workshop = workshop


def finalize_session(session_id: str, attempt: str) -> None:
    """Archive a session that has ended, unless somebody else did."""
    workshop = _workshop or Workshop(".")
    finalize(workshop.maestro, workshop.requeue, session_id, int(attempt))


def send_archive(ref: str, token: str) -> None:
    """Send what is archived here under a reference to whoever asked for it, unless this worker has no such session."""
    send(_workshop or Workshop("."), ref, token)


def execute_run(session_id: str, run_id: str) -> None:
    """Carry out a run, unless somebody else has it or it is over."""
    (_workshop or Workshop(".")).carry_out(session_id, run_id)
