"""Refuse what Maestro did not make among the server's files, before a server is started on them.

The server opens its files by name: it would follow a link, wait for a pipe for ever, and write through a second name
to whatever the first one is. The folder is this user's alone, so what was looked at stays what it is.
"""

from __future__ import annotations

import os
import stat

from maestro_state.errors import ServerUnavailable
from maestro_state.fs.opening import open_folder

#: Deeper than anything the server makes.
_MAX_DEPTH = 4


def refuse_foreign(folder: int, where: str = ".maestro/server", depth: int = _MAX_DEPTH) -> None:
    """Raise ServerUnavailable for the first thing inside that is not this user's own plain file, folder or socket."""
    with os.scandir(folder) as entries:
        for entry in entries:
            path = f"{where}/{entry.name}"
            status = entry.stat(follow_symlinks=False)
            reason = _reason(status)
            if reason or (depth == 0 and stat.S_ISDIR(status.st_mode)):
                raise ServerUnavailable(
                    f"{path} {reason or 'is nested too deep'}; Maestro did not make it",
                    hint="look at it, then remove it",
                )
            if stat.S_ISDIR(status.st_mode):
                inner = open_folder(folder, entry.name)
                try:
                    refuse_foreign(inner, path, depth - 1)
                finally:
                    os.close(inner)


def _reason(status: os.stat_result) -> str | None:
    kind = stat.S_IFMT(status.st_mode)
    if kind == stat.S_IFLNK:
        return "is a symlink"
    if kind not in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFSOCK):
        return "is a pipe or a device"
    if status.st_uid != os.geteuid():
        return "belongs to another user"
    # A folder has as many names as it has folders inside, and one.
    return "has a second name elsewhere" if kind == stat.S_IFREG and status.st_nlink > 1 else None
