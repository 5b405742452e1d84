"""Whether the server's data was made in this folder. A server obeys the file it starts from, and a stranger's project
can bring one: data is loaded only when its mark holds this folder's inode number, which nobody can know in advance.
A copy or a restored backup loses the mark too; `maestro trust` gives it back.
"""

from __future__ import annotations

import os

from maestro_state.errors import ServerStorageError, ServerUnavailable

MARK = "made-here"
#: What the server writes its data into, and starts from.
DATA = "appendonlydir"
#: Older forms of it, which a server takes over when it finds them.
OLD_DATA = ("appendonly.aof", "dump.rdb")


def check_origin(folder: int) -> None:
    """Refuse data that was not made here; mark a folder that has none yet."""
    if _read_mark(folder) == _mark_of(folder):
        return
    if has_data(folder):
        raise ServerUnavailable(
            "the server data in .maestro/server was not made here, and starting from it would obey whatever it holds",
            hint="if it is yours: maestro trust; if not: move .maestro/server away",
        )
    vouch(folder)


def is_made_here(folder: int) -> bool:
    """Tell whether the data in this folder is one's own."""
    return _read_mark(folder) == _mark_of(folder)


def has_data(folder: int) -> bool:
    """Tell whether there is anything a server would start from."""
    if not set(OLD_DATA).isdisjoint(os.listdir(folder)):
        return True
    try:
        data = os.open(DATA, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return False
    try:
        return bool(os.listdir(data))
    finally:
        os.close(data)


def vouch(folder: int) -> None:
    """Mark the data in this folder as one's own."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(MARK, flags, 0o600, dir_fd=folder)
    try:
        os.write(handle, _mark_of(folder))
    except OSError as error:
        reason = f"cannot write .maestro/server/{MARK}: {error.strerror}"
        raise ServerStorageError(reason, hint="free space on this disk") from error
    finally:
        os.close(handle)


def _mark_of(folder: int) -> bytes:
    return f"{os.fstat(folder).st_ino}\n".encode()


def _read_mark(folder: int) -> bytes | None:
    try:
        handle = os.open(MARK, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=folder)
    except OSError:
        return None
    try:
        return os.read(handle, 64)
    finally:
        os.close(handle)
