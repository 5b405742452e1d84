"""Whether the server's data was made in this folder by this user.

A server obeys the file it starts from, and an untrusted project can bring one. Data is loaded only when its mark is
a token of which this user's own state folder, outside every project, has the digest and the folder's inode number. The
token cannot be guessed, and one that became known counts in its own folder only. A project that is moved or renamed
keeps it; a copy or a restored backup does not, until `maestro trust`.

The data's own folder has a name made from the token too: git takes the place of files that it ignores, and what a
`git pull` brings can only have names that its author knew.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from maestro_state.errors import ServerStorageError, ServerUnavailable
from maestro_state.fs.opening import open_folder, open_own_file, replace_file
from maestro_state.fs.private import is_inside, open_private_folder, read_private, state_home, user_home

if TYPE_CHECKING:
    from pathlib import Path

MARK = "made-here"
#: Where earlier versions had the server's data, and where it is while somebody vouches for it; see `data_name`.
DATA = "appendonlydir"
#: Older forms of it, which a server takes over when it finds them.
OLD_DATA = ("appendonly.aof", "dump.rdb")

_PREFIX = "data-"
_TOKEN_BYTES = 32
#: Longer than any mark.
_READ_BYTES = 128
_NOT_OURS = "if it is yours: maestro trust; if not: move .maestro/server away"


def check_origin(folder: int, root: Path) -> None:
    """Refuse data that was not made here; mark a folder that has none yet."""
    if is_made_here(folder, root):
        if _is_servers_own(folder):
            _move_data(folder, DATA, _own_name(folder))
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


def data_name(folder: int) -> str:
    """Return the name of the folder that the server writes its data into, and starts from."""
    own = _own_name(folder)
    return own if _is_there(folder, own) or not _is_there(folder, DATA) else DATA


def has_data(folder: int) -> bool:
    """Tell whether there is anything a server would start from."""
    if not set(OLD_DATA).isdisjoint(os.listdir(folder)):
        return True
    return bool(_filled(folder))


def _filled(folder: int) -> list[str]:
    """List the folders with data, whatever the mark says: one that is lost must not make them so."""
    names = (name for name in os.listdir(folder) if name == DATA or name.startswith(_PREFIX))
    return sorted(name for name in names if _is_filled(folder, name))


def _is_filled(folder: int, name: str) -> bool:
    try:
        data = open_folder(folder, name)
    except OSError:
        return False
    try:
        return bool(os.listdir(data))
    finally:
        os.close(data)


def _own_name(folder: int) -> str:
    mark = _read_mark(folder)
    return f"{_PREFIX}{_digest(b'data ' + mark)[:32]}" if len(mark) == 2 * _TOKEN_BYTES else DATA


def _move_data(folder: int, name: str, new: str) -> None:
    """Have the data under its new name, unless there is none or it is there already."""
    if name != new and _is_there(folder, name) and not _is_there(folder, new):
        os.rename(name, new, src_dir_fd=folder, dst_dir_fd=folder)
        os.fsync(folder)


def _is_there(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def vouch(folder: int, root: Path) -> None:
    """Mark the data in this folder as one's own; no server may run on it."""
    place = _state_path(root)
    if place is None:
        raise ServerUnavailable(
            "there is no folder outside the project to note that its server data was made here",
            hint="set XDG_STATE_HOME to a folder of your own",
        )
    data = _meant(folder, root)
    token = os.urandom(_TOKEN_BYTES).hex().encode()
    try:
        records = open_private_folder(place)
        try:
            replace_file(records, _digest(token), _inode_of(folder))
        finally:
            os.close(records)
    except OSError as error:
        raise ServerUnavailable(
            f"cannot note in {place} that the project's server data was made here: {error.strerror}",
            hint="make it writable for you alone, or set XDG_STATE_HOME to a folder of your own",
        ) from error
    try:
        if data is not None:
            _make_own(folder, data)
            # Under the name that needs no mark while the mark changes: wherever this is interrupted, it is found.
            if data != DATA and _is_there(folder, DATA):
                os.rename(DATA, f"{DATA}.{os.urandom(4).hex()}", src_dir_fd=folder, dst_dir_fd=folder)
            _move_data(folder, data, DATA)
        replace_file(folder, MARK, token)
    except OSError as error:
        reason = f"cannot write .maestro/server/{MARK}: {error.strerror}"
        raise ServerStorageError(reason, hint="free space on this disk") from error


def _meant(folder: int, root: Path) -> str | None:
    """Return the folder with the data that is vouched for; None when there is none."""
    found, own = _filled(folder), _own_name(folder)
    if own in found and is_made_here(folder, root):
        return own
    if len(found) > 1:
        names = ", ".join(found)
        raise ServerUnavailable(
            f"there is more than one folder with data in .maestro/server: {names}",
            hint="keep yours, move the others away",
        )
    return found[0] if found else None


def _is_servers_own(folder: int) -> bool:
    """Tell whether all data has the mode that a server here gives it: git takes the place of files that it ignores.

    What `git pull` writes has the user's own mode, which is that of the server only for who keeps everything private.
    """
    try:
        data = open_folder(folder, data_name(folder))
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        with os.scandir(data) as entries:
            return not any(entry.stat(follow_symlinks=False).st_mode & 0o077 for entry in entries)
    finally:
        os.close(data)


def _make_own(folder: int, data_folder: str) -> None:
    """Give data that somebody vouched for the mode that a server here would have given it."""
    data = open_folder(folder, data_folder)
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
