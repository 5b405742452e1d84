"""Sending an archive to a checkout that has asked for it, as a job."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

from maestro_state.errors import MaestroError
from maestro_state.local.logs import get_logger

if TYPE_CHECKING:
    from maestro_workers.run import Workshop

_log = get_logger("maestro.worker")


def send(workshop: Workshop, ref: str, token: str) -> None:
    """Send an archive, or say that there is none here. What goes wrong is the log's: who asked gives up by itself."""
    sender = f"{socket.gethostname()}:{os.getpid()}"
    try:
        sent = workshop.maestro.archive.send(ref, token, sender, workshop.on_beat)
    except (MaestroError, OSError) as error:
        _log.warning("archive_not_sent", ref=ref, reason=str(error))
        return
    _log.info("archive_sent" if sent else "archive_not_here", ref=ref)
