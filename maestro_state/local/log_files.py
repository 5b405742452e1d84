"""Log files of a project, in a folder that only this user can open; nobody else's file is written to."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from maestro_state.fs.opening import open_own_file
from maestro_state.local.embedded.paths import LOG_FOLDER, open_folder

if TYPE_CHECKING:
    from pathlib import Path


def open_log_file(root: Path, name: str, max_bytes: int | None = None) -> int:
    """Open a file to append to; one that grew larger than `max_bytes` is kept as `NAME.1` and begun anew.

    Raises OSError or ServerUnavailable when something else has its place.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    folder = open_folder(root, LOG_FOLDER, create=True)
    assert folder is not None  # noqa: S101  # create=True always gives one
    try:
        log, size = open_own_file(folder, name, flags)
        if max_bytes is not None and size > max_bytes:
            os.close(log)
            os.rename(name, f"{name}.1", src_dir_fd=folder, dst_dir_fd=folder)
            log, _ = open_own_file(folder, name, flags)
        return log
    finally:
        os.close(folder)
