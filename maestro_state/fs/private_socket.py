"""Unix sockets between processes of one user: made, found and connected to so that nobody else can get in between.

A folder is opened part by part without following links, the socket's own file is opened before it is connected to, and
what is connected to is that very file, however fast its name is swapped meanwhile. Then the kernel says whose process
listens. Imports next to nothing: a command that only hands its words over comes through here.
"""

from __future__ import annotations

import _socket
import errno
import os
import stat
import sys

from maestro_state.fs.opening import NAME_ONLY, SHARED_WRITE, open_below, open_name

TYPE_CHECKING = False  # typing's own takes longer to import than all the rest here
if TYPE_CHECKING:
    from socket import socket

#: macOS: SOL_LOCAL, LOCAL_PEERCRED and the size of its answer.
_LOCAL_PEER = (0, 1, 76)


def listen(folder: int, name: str, *, backlog: int = 64) -> socket:
    """Return a socket that listens as `name` in an open folder, put in place whole and this user's alone.

    Whatever had the name before loses it: who calls holds the lock that says there is no other. Raises OSError.
    """
    import socket

    draft = f".{name}.{os.urandom(6).hex()}"
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # Before there is a name: Linux makes the file with the mode that the socket has.
        os.fchmod(listener.fileno(), 0o600)
        listener.bind(_inside(folder, draft))
        try:
            listener.listen(backlog)
            # Now somebody listens: nobody finds a name that nobody answers at.
            os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            os.unlink(draft, dir_fd=folder)
            raise
    except BaseException:
        listener.close()
        raise
    return listener


def connect(folder: int, name: str, *, timeout_s: float | None = None) -> socket:
    """Return a socket connected to what listens as `name` in an open folder, if that is this user's.

    The timeout stays on the socket. Raises FileNotFoundError or ConnectionRefusedError when nobody listens,
    PermissionError for a link, another kind of file or another user's, else OSError.
    """
    import socket

    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        line.settimeout(timeout_s)
        connect_line(line, folder, name)
    except BaseException:
        line.close()
        raise
    return line


def connect_line(line: _socket.socket, folder: int, name: str) -> None:
    """Connect a socket that the caller made, as `connect` does."""
    uid = os.geteuid()
    if NAME_ONLY is None:  # then the name is looked at and connected to
        _check_socket(os.stat(name, dir_fd=folder, follow_symlinks=False), uid)
        line.connect(_inside(folder, name))
    else:
        place = open_name(folder, name)
        try:
            _check_socket(os.fstat(place), uid)
            line.connect(f"/proc/self/fd/{place}")  # that very file, whatever has its name by now
        finally:
            os.close(place)
    if peer_uid(line) != uid:
        raise _refused("another user's process listens there")


def connect_path(path: str, *, timeout_s: float | None = None) -> socket:
    """Connect to a socket by its path, of which the last two folders are Maestro's own making.

    Raises ServerUnavailable for what Maestro did not make, OSError when nobody listens.
    """
    place, name = os.path.split(path)
    outer, inner = os.path.split(place)
    base, outer = os.path.split(outer)
    try:
        folder = open_own_folder(base, outer, inner)
        try:
            return connect(folder, name, timeout_s=timeout_s)
        finally:
            os.close(folder)
    except (PermissionError, NotADirectoryError) as error:
        from maestro_state.errors import ServerUnavailable

        if isinstance(error, NotADirectoryError):
            where = place if os.path.lexists(place) else os.path.dirname(place)
            reason = f"{where} is a file, not a folder; Maestro does not go there"
            raise ServerUnavailable(reason, hint="move it away, or set MAESTRO_REDIS_URL") from error
        reason = f"{path} is not connected to: {error.strerror}"
        raise ServerUnavailable(reason, hint="look at it, then remove it") from error


def open_own_folder(base: str, *names: str) -> int:
    """Open `base`/`names` without following a link below `base`; PermissionError for one that is not this user's alone.

    Others may look into the outer folders, and change none of them. Raises OSError.
    """
    try:
        folder = open_below(base, *names, is_own=True)
    except OSError as error:
        # For a link Linux says ENOTDIR here, others ELOOP.
        if error.errno in (errno.ENOTDIR, errno.ELOOP) and os.path.islink(error.filename):
            name = os.path.basename(error.filename)
            raise _refused(f"{name} is a link, which Maestro does not follow") from error
        raise
    if os.fstat(folder).st_mode & SHARED_WRITE:
        os.close(folder)
        # As if it were not there: whoever starts a server there makes it private first.
        raise FileNotFoundError(errno.ENOENT, "others may write to its folder")
    return folder


def peer_uid(line: _socket.socket) -> int:
    """Return the user at the other end of a connected socket, as the kernel knows it."""
    if hasattr(_socket, "SO_PEERCRED"):
        credentials = line.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
    else:
        credentials = line.getsockopt(*_LOCAL_PEER)
    return int.from_bytes(credentials[4:8], sys.byteorder)


def _check_socket(status: os.stat_result, uid: int) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise _refused("it is a link, which Maestro does not follow")
    if not stat.S_ISSOCK(status.st_mode):
        raise _refused("it is no socket")
    if status.st_uid != uid:
        raise _refused("it belongs to another user")


def _refused(reason: str) -> PermissionError:
    return PermissionError(errno.EPERM, reason)


def _inside(folder: int, name: str) -> str:
    """Return a path that leads through the open folder: short, and the same folder whatever happens to its name."""
    if NAME_ONLY is not None:
        return f"/proc/self/fd/{folder}/{name}"
    import fcntl

    where = fcntl.fcntl(folder, getattr(fcntl, "F_GETPATH", 50), bytes(1024))  # macOS
    return os.path.join(os.fsdecode(where.rstrip(b"\0")), name)
