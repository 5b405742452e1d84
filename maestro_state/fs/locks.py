"""Locks the kernel keeps: held by an open file, let go when the last process that has it open is gone.

So a lock is never stale, whatever was killed, and "is it alive" needs no pid.
"""

from __future__ import annotations

import errno
import fcntl
import os

from maestro_state.errors import ServerUnavailable
from maestro_state.fs.opening import open_own_file


def try_lock(folder: int, name: str) -> int | None:
    """Take the lock and return its file, or None while somebody has it; closing the file lets go."""
    while True:
        handle = _open(folder, name)
        keep = taken = False
        try:
            taken = _flock(handle, fcntl.LOCK_EX, name)
            # A file removed between open and lock protects nothing any more: look again.
            keep = taken and is_current(handle, folder, name)
        finally:
            if not keep:
                os.close(handle)
        if keep or not taken:
            return handle if keep else None


def is_locked(folder: int, name: str) -> bool:
    """Say whether somebody has the lock, without keeping others from it for longer than a moment."""
    try:
        handle, _ = open_own_file(folder, name, os.O_RDWR)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise _refusal(name, error) from error
    try:
        # Shared, so that two who look at once do not take each other for the holder.
        return not _flock(handle, fcntl.LOCK_SH, name)
    finally:
        os.close(handle)


def is_current(handle: int, folder: int, name: str) -> bool:
    """Say whether the file of a lock is still the one others would try to lock."""
    try:
        named = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(handle), named)


def _open(folder: int, name: str) -> int:
    try:
        return open_own_file(folder, name, os.O_RDWR | os.O_CREAT)[0]
    except OSError as error:
        raise _refusal(name, error) from error


def _refusal(name: str, error: OSError) -> ServerUnavailable:
    # Whoever writes its pid into a lock must not write it into somebody's file.
    is_foreign = error.errno == errno.EPERM
    return ServerUnavailable(
        f"cannot open .maestro/server/{name}: {error.strerror}",
        hint="look at it, then remove it"
        if is_foreign
        else "make the project folder writable for you, or set MAESTRO_REDIS_URL",
    )


def _flock(handle: int, kind: int, name: str) -> bool:
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
            raise ServerUnavailable(
                f"this file system has no locks ({name}: {error.strerror})",
                hint="set MAESTRO_REDIS_URL, or move the project to a local disk",
            ) from error
        raise
    return True
