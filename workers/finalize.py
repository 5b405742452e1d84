"""The finalization job: bring one session's archive up to date. What the queue carries is only where and which."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from maestro_state import Maestro


def finalize(maestro: Maestro, session_id: str) -> str:
    """Write a session to disk and verify it; return the archive's path. Repeatable.

    Raises ArchiveFailed when the archive cannot be written here: the session stays on the server.
    """
    return maestro.archive.sync(session_id).path


def finalize_session(project: str, session_id: str) -> str:
    """Do the same as a job: open the project, finalize, close."""
    from maestro_state import Maestro

    with Maestro(Path(project)) as maestro:
        return finalize(maestro, session_id)
