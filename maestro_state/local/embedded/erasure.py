"""That the private server's log is to be written anew, because something was deleted that it still has the text of.

An append-only log keeps what was written to it, deleted or not. Who deletes leaves a mark beside it, and the supervisor
has the server write it anew a little later: once for all that was deleted meanwhile. The mark is a file, so that it
outlives everybody: who asked, the supervisor, the server, the machine.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from maestro_state.errors import ServerUnavailable
from maestro_state.fs.opening import open_new
from maestro_state.local.embedded import paths

#: How the server calls what it writes a log anew into; one that is killed meanwhile leaves it.
_UNFINISHED = "temp-rewriteaof-"


def ask(root: str | os.PathLike[str]) -> bool:
    """Have the log written anew soon; False when that cannot be asked for. Repeatable, and nothing where there is none.

    To be called before something is deleted, since whoever deletes may be killed, and once more afterwards: in between
    the log may have been written anew with all of it.
    """
    try:
        folder = paths.open_folder(root, paths.SERVER_FOLDER, create=False)
        if folder is None:
            return True
        try:
            os.close(open_new(folder, paths.ERASURE_ASKED))
            os.fsync(folder)
        except FileExistsError:
            pass  # somebody has asked, and nobody has begun
        finally:
            os.close(folder)
    except (OSError, ServerUnavailable):
        return False
    return True


def is_asked(folder: int) -> bool:
    """Say whether the log is to be written anew, or was not finished when somebody was killed."""
    return any(_is_mark(folder, name) for name in (paths.ERASURE_ASKED, paths.ERASURE_BEGUN))


def begin(folder: int) -> None:
    """Take the mark before the log is written anew: who asks from now on asks for the next time."""
    if _is_mark(folder, paths.ERASURE_ASKED):
        os.rename(paths.ERASURE_ASKED, paths.ERASURE_BEGUN, src_dir_fd=folder, dst_dir_fd=folder)


def finish(folder: int) -> None:
    """Remove the mark when the log was written anew, and what servers that were killed at it have left."""
    for name in os.listdir(folder):
        if name.startswith(_UNFINISHED):
            with suppress(OSError):
                os.unlink(name, dir_fd=folder)
    with suppress(FileNotFoundError):
        os.unlink(paths.ERASURE_BEGUN, dir_fd=folder)


def _is_mark(folder: int, name: str) -> bool:
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode)  # anything else was put there by somebody, and could not be removed again
