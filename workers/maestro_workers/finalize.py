"""Archiving an ended session as a job. A worker that cannot do it says so and requeues the job for one that can."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from maestro_state.errors import ArchiveFailed, MaestroError, NotReplicated, ServerUnavailable, SessionNotFound
from maestro_state.local.logs import bound, get_logger

if TYPE_CHECKING:
    from maestro_state import Maestro

#: How often a job is requeued before it is left to the sweep, which comes by on its own.
ATTEMPTS = 5
#: Seconds after which it is requeued the first time; doubled each time, so that workers do not spin on it.
FIRST_DELAY_S = 1.0

_log = get_logger("maestro.worker")


class Requeue:
    """Jobs that this worker could not do, for later. Forgotten with the worker: the sweep knows them."""

    def __init__(self) -> None:
        self._waiting: list[tuple[float, str, int]] = []

    def later(self, session_id: str, attempt: int) -> bool:
        """Have a job requeued after a while; False when it was tried often enough."""
        if attempt + 1 >= ATTEMPTS:
            return False
        due_s = time.monotonic() + FIRST_DELAY_S * 2**attempt
        self._waiting.append((due_s, session_id, attempt + 1))
        return True

    def tend(self, maestro: Maestro) -> None:
        """Requeue what is due; while the queue's server is away it stays due, and nobody ends for it."""
        now = time.monotonic()
        for one in [one for one in self._waiting if one[0] <= now]:
            try:
                maestro.queue.enqueue_finalization(*one[1:])
            except ServerUnavailable:
                return
            self._waiting.remove(one)


def finalize(maestro: Maestro, requeue: Requeue, session_id: str, attempt: int) -> None:
    """Archive a session, or say why not and leave it to others. Repeatable."""
    with bound(session=session_id):
        try:
            done = maestro.archive.checkpoint(session_id)
        except SessionNotFound as error:
            _log.info("nothing_to_archive", reason=str(error))
        except NotReplicated as error:  # it is on disk: that is what was asked for
            _log.warning("archive_not_replicated", reason=str(error))
        except ArchiveFailed as error:
            if not maestro.archive.defer(session_id, str(error)):
                _log.info("archived_by_others")
                return
            is_requeued = requeue.later(session_id, attempt)
            _log.warning("archive_left_to_others", reason=str(error), attempt=attempt, requeued=is_requeued)
        except (MaestroError, OSError) as error:
            _log.error("not_archived", reason=str(error), attempt=attempt)
        else:
            _log.info("session_archived", written=done.written)
