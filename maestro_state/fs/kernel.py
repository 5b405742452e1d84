"""Calls of the system on files that Python has no name for: swap two names at once, sync a file system.

Where one does not exist the answer says so, and the caller takes the longer way.
"""

from __future__ import annotations

import errno
import os
import sys
from functools import cache
from typing import Any

_RENAME_EXCHANGE = 2

#: What a kernel or a file system answers that does not know the call.
_UNKNOWN = (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM)


@cache
def libc(name: str) -> Any:
    """Return a function of the system's library; None where there is none."""
    if sys.platform != "linux":
        return None
    import ctypes

    return getattr(ctypes.CDLL(None, use_errno=True), name, None)


def _errno() -> int:
    import ctypes

    return ctypes.get_errno()


def exchange(folder: int, name: str, other_folder: int, other_name: str) -> bool:
    """Swap two names in one step; False where that is not possible. Raises OSError when it is and fails."""
    call = libc("renameat2")
    if call is None:
        return False
    if call(folder, os.fsencode(name), other_folder, os.fsencode(other_name), _RENAME_EXCHANGE) == 0:
        return True
    number = _errno()
    if number in _UNKNOWN:
        return False
    raise OSError(number, os.strerror(number), name)


def sync_filesystem(descriptor: int) -> bool:
    """Write everything of the file system this descriptor is on to the disk; False where there is no such call."""
    call = libc("syncfs")
    if call is None:
        return False
    if call(descriptor) == 0:
        return True
    number = _errno()
    if number in (errno.ENOSYS, errno.EOPNOTSUPP):
        return False
    raise OSError(number, os.strerror(number))
