"""Whether the server's disk has room for its log, and what the server is told when it has none.

A server that cannot write its log ends itself. Started again on a full disk, or warned in time, it only reads: it is
told to wait for a replica that it does not have, by which a server refuses every write and answers every read.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from maestro_state.fs.opening import open_new

if TYPE_CHECKING:
    from maestro_state.net.sync_socket import Link

#: Bytes that must be free for the server to take writes: a hundredth of the disk, at least and at most so many.
#: Archives are still to be written, and the server is told only every few seconds.
MIN_ROOM_BYTES, MAX_ROOM_BYTES = 1 << 20, 32 << 20
#: The server's setting by which it refuses writes.
REFUSE_WRITES = "min-replicas-to-write"


def is_full(folder: int, *, beside_bytes: int = 0) -> bool:
    """Say whether the file system itself counts too little room; costs next to nothing, and knows no quotas.

    With `beside_bytes`, whether it would if so much was written beside the log.
    """
    found = os.fstatvfs(folder)
    if not found.f_blocks:
        return False  # some file systems do not count at all
    needed = max(MIN_ROOM_BYTES, min(MAX_ROOM_BYTES, found.f_blocks * found.f_frsize // 100))
    return found.f_bavail * found.f_frsize < needed + beside_bytes


def storage_trouble(folder: int) -> str | None:
    """Say why nothing can be written, if so, by taking the room and giving it back."""
    if is_full(folder):
        return "No space left on device"
    probe = f".probe.{os.urandom(6).hex()}"
    try:
        handle = open_new(folder, probe)
        try:
            os.posix_fallocate(handle, 0, MIN_ROOM_BYTES)
        finally:
            os.close(handle)
    except OSError as error:
        return error.strerror
    finally:
        with suppress(OSError):
            os.unlink(probe, dir_fd=folder)
    return None


class Room:
    """Keeps a server's answer to writes in step with the room on its disk."""

    def __init__(self) -> None:
        self._writes: bool | None = None

    def tend(self, folder: int, link: Link) -> bool | None:
        """Tell the server whether to take writes when that has changed; return the new answer then.

        Raises what `Link.call` raises.
        """
        writes = not is_full(folder) if self._writes else storage_trouble(folder) is None
        if writes == self._writes:
            return None
        link.call("CONFIG", "SET", REFUSE_WRITES, "0" if writes else "1")
        self._writes = writes
        return writes
