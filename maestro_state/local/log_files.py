"""Log files of a project, in a folder that only this user can open; nobody else's file is written to."""

from __future__ import annotations

import os

from maestro_state.errors import ServerUnavailable
from maestro_state.fs.opening import open_own_file
from maestro_state.local.embedded.paths import LOG_FOLDER, open_folder

_STACK_LOG_BYTES = 1_000_000


def open_log_file(root: str | os.PathLike[str], name: str, max_bytes: int | None = None) -> int:
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


def open_stack_log(root: str | os.PathLike[str]) -> int:
    """Open the log of a project's stack for appending, beginning a new one when it has grown large.

    Where something else has its place nothing is logged: that must not take anything down.
    """
    try:
        return open_log_file(root, "stack.log", _STACK_LOG_BYTES)
    except (OSError, ServerUnavailable):
        return os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
