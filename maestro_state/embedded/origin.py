"""Whether the server's data was made in this folder by this user.

A server obeys the file it starts from, and a stranger's project can bring one. Data is loaded only when its mark is
a token of which this user's own state folder, outside every project, has the digest and the folder's inode number. The
token cannot be guessed, and one that became known counts in its own folder only. A project that is moved or renamed
keeps it; a copy or a restored backup does not, until `maestro trust`.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from maestro_state.errors import ServerStorageError, ServerUnavailable
from maestro_state.private_files import (
    is_inside,
    open_own_file,
    open_private_folder,
    read_private,
    state_home,
    user_home,
    write_private,
)

if TYPE_CHECKING:
    from pathlib import Path

MARK = "made-here"
#: What the server writes its data into, and starts from.
DATA = "appendonlydir"
#: Older forms of it, which a server takes over when it finds them.
OLD_DATA = ("appendonly.aof", "dump.rdb")

_TOKEN_BYTES = 32
#: Longer than any mark.
_READ_BYTES = 128
_NOT_OURS = "if it is yours: maestro trust; if not: move .maestro/server away"


def check_origin(folder: int, root: Path) -> None:
    """Refuse data that was not made here; mark a folder that has none yet."""
    if is_made_here(folder, root):
        if _is_servers_own(folder):
            return
        raise ServerUnavailable("the server data in .maestro/server was not written by its server", hint=_NOT_OURS)
    if has_data(folder):
        if _read_mark(folder) == _inode_of(folder):  # all that earlier versions wrote
            reason = "has the mark of an earlier version, which anybody could have written"
        else:
            reason = "was not made here, and starting from it would obey whatever it holds"
        raise ServerUnavailable(f"the server data in .maestro/server {reason}", hint=_NOT_OURS)
    vouch(folder, root)


def is_made_here(folder: int, root: Path) -> bool:
    """Tell whether the data in this folder is one's own."""
    mark = _read_mark(folder)
    if len(mark) != 2 * _TOKEN_BYTES:
        return False
    place = _state_path(root)
    if place is None or not os.path.isdir(place):
        return False
    try:
        records = open_private_folder(place)
        try:
            return read_private(records, _digest(mark)) == _inode_of(folder)
        finally:
            os.close(records)
    except OSError:
        return False


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


def vouch(folder: int, root: Path) -> None:
    """Mark the data in this folder as one's own."""
    place = _state_path(root)
    if place is None:
        raise ServerUnavailable(
            "there is no folder outside the project to note that its server data was made here",
            hint="set XDG_STATE_HOME to a folder of your own",
        )
    token = os.urandom(_TOKEN_BYTES).hex().encode()
    try:
        records = open_private_folder(place)
        try:
            write_private(records, _digest(token), _inode_of(folder), durable=True)
        finally:
            os.close(records)
    except OSError as error:
        raise ServerUnavailable(
            f"cannot note in {place} that the project's server data was made here: {error.strerror}",
            hint="make it writable for you alone, or set XDG_STATE_HOME to a folder of your own",
        ) from error
    try:
        with suppress(FileNotFoundError):
            _make_own(folder)
        write_private(folder, MARK, token, durable=True)
    except OSError as error:
        reason = f"cannot write .maestro/server/{MARK}: {error.strerror}"
        raise ServerStorageError(reason, hint="free space on this disk") from error


def _is_servers_own(folder: int) -> bool:
    """Tell whether all data has the mode that a server here gives it: git takes the place of files that it ignores.

    What `git pull` writes has the user's own mode, which is that of the server only for who keeps everything private.
    """
    try:
        data = os.open(DATA, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        with os.scandir(data) as entries:
            return not any(entry.stat(follow_symlinks=False).st_mode & 0o077 for entry in entries)
    finally:
        os.close(data)


def _make_own(folder: int) -> None:
    """Give data that somebody vouched for the mode that a server here would have given it."""
    data = os.open(DATA, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        for name in os.listdir(data):
            file, _ = open_own_file(data, name, os.O_RDONLY)
            try:
                os.fchmod(file, 0o600)
            finally:
                os.close(file)
    finally:
        os.close(data)


def _state_path(root: Path) -> str | None:
    """Return where digests of marks are kept; None when whoever brings the project could bring them too."""
    place, home = state_home(os.environ), user_home(os.environ)
    if place is None or (is_inside(place, os.fspath(root)) and not is_inside(home or "/", os.fspath(root))):
        return None  # whoever brings a whole home folder needs no server to be obeyed
    return os.path.join(place, "maestro", "servers")


def _digest(mark: bytes) -> str:
    from hashlib import sha256

    return sha256(mark).hexdigest()


def _inode_of(folder: int) -> bytes:
    return b"%d\n" % os.fstat(folder).st_ino


def _read_mark(folder: int) -> bytes:
    try:
        handle, _ = open_own_file(folder, MARK, os.O_RDONLY)
    except OSError:
        return b""
    try:
        return os.read(handle, _READ_BYTES)
    finally:
        os.close(handle)
