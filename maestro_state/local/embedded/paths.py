"""Where a project's server keeps its data and its socket, and how those folders are opened.

Folders are opened one part at a time without following symlinks: a project may be untrusted, and
what the server writes must stay inside it. Nothing outside this module spells these names.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING

from maestro_state.errors import ServerUnavailable
from maestro_state.fs import opening
from maestro_state.fs.private import read_project_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Folders below the project root that hold the server's data, and the logs.
SERVER_FOLDER = (".maestro", "server")
LOG_FOLDER = (".maestro", "logs")
#: Held by the server process itself, for as long as it lives.
SERVER_LOCK = "server.lock"
#: Held by the supervisor, for as long as it lives; its content is the supervisor's pid.
STACK_LOCK = "stack.lock"
SERVER_LOG = "server.log"
SERVER_PID = "server.pid"
SOCKET = "s.sock"
#: Holds the path of a socket that had to be put elsewhere.
SOCKET_NOTE = "socket"
#: That the log is to be written anew, and that this was begun; see `erasure`.
ERASURE_ASKED, ERASURE_BEGUN = "erasure.asked", "erasure.begun"

#: Longest socket path used, in bytes: the kernel takes 107 on Linux and 103 on macOS.
MAX_SOCKET_BYTES = 100

_HINT = "make the folder writable for you, or set MAESTRO_REDIS_URL to a server of your own"


def data_path(root: str | os.PathLike[str]) -> str:
    """Return the folder of the server's data, by its real path."""
    return os.path.join(os.path.realpath(root), *SERVER_FOLDER)


def socket_path(root: str | os.PathLike[str]) -> Path:
    """Return the socket of the project's server, whether or not one is running; see `socket_address`."""
    from pathlib import Path

    return Path(socket_address(root))


def socket_address(root: str | os.PathLike[str]) -> str:
    """Return `socket_path` as text: what every command needs, without the import a Path costs.

    Raises ServerUnavailable when the folder it is in is a symlink or belongs to somebody else.
    """
    real = os.path.realpath(root)
    near = os.path.join(real, *SERVER_FOLDER, SOCKET)
    if len(os.fsencode(near)) <= MAX_SOCKET_BYTES:
        _refuse_symlinks(real)
        return near
    places = []
    for base, (outer, inner) in _far_folders(real):
        _refuse_shared(os.path.join(base, outer))
        _refuse_shared(os.path.join(base, outer, inner))
        places.append(os.path.join(base, outer, inner, SOCKET))
    return _remembered(real, places) or places[0]


@contextmanager
def open_data_folder(root: str | os.PathLike[str]) -> Iterator[int]:
    """Open the data folder for the length of a block, making it (0700) if needed."""
    folder = _opened(root, SERVER_FOLDER)
    try:
        yield folder
    finally:
        os.close(folder)


def open_folder(root: str | os.PathLike[str], parts: tuple[str, ...], *, create: bool) -> int | None:
    """Open a folder below `root` part by part; None when it is not there and not to be made.

    Made and opened folders are this user's alone. Raises ServerUnavailable for a symlink, a file in the way,
    a folder of somebody else, or one that cannot be written.
    """
    top = os.path.realpath(root)
    try:
        handle = opening.open_below(top, *parts, create=create, is_own=True)
    except OSError as error:
        if isinstance(error, FileNotFoundError) and error.filename != top:
            return None
        raise ServerUnavailable(_why(error), hint=_HINT) from error
    if create:
        # A checkout or a copy may have opened it to others; whoever can enter it can open the socket.
        os.fchmod(handle, 0o700)
    return handle


def noted_pid(folder: int, name: str) -> int | None:
    """Read the pid that a file of this user's notes; None when there is none."""
    try:
        handle, _ = opening.open_own_file(folder, name, os.O_RDONLY)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as file:
        text = file.read(32).strip()
    return int(text) if text.isdigit() else None


@contextmanager
def open_socket_folder(root: str | os.PathLike[str]) -> Iterator[int]:
    """Open the folder the socket is in for the length of a block, made and this user's alone."""
    path = socket_path(root)
    if str(path.parent) == data_path(root):
        with open_data_folder(root) as folder:
            yield folder
        return
    base, parts = path.parents[2], path.parts[-3:-1]
    outer = _opened(base, parts[:1])
    try:
        inner = _opened(base, parts)
    finally:
        os.close(outer)
    try:
        yield inner
    finally:
        os.close(inner)


def note_socket(folder: int, path: str) -> None:
    """Write down where the socket is: another terminal may have another XDG_RUNTIME_DIR, or none (cron)."""
    opening.replace_file(folder, SOCKET_NOTE, os.fsencode(path), durable=False)


def _remembered(real: str, places: list[str]) -> str | None:
    """Return where the socket was last put, if that is a place this module would choose."""
    try:
        noted = os.fsdecode(read_project_file(real, "/".join((*SERVER_FOLDER, SOCKET_NOTE))) or b"")
    except OSError:
        return None
    # The note lies in the project and may be somebody else's: it may only choose the folder above ours.
    tail = os.path.join(*places[0].split(os.sep)[-3:])
    if not os.path.isabs(noted) or not noted.endswith(os.sep + tail) or not os.path.lexists(noted):
        return None
    inner = os.path.dirname(noted)
    _refuse_shared(os.path.dirname(inner))
    _refuse_shared(inner)
    return noted


def _opened(root: str | os.PathLike[str], parts: tuple[str, ...]) -> int:
    folder = open_folder(root, parts, create=True)
    assert folder is not None  # noqa: S101  # create=True always gives one
    return folder


def _why(error: OSError) -> str:
    where = error.filename
    # Linux answers ENOTDIR for a symlink where a folder is asked for, others ELOOP.
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        kind = "a symlink" if os.path.islink(where) else "a file"
        return f"{where} is {kind}, not a folder; Maestro does not go there"
    return f"cannot use {where}: {error.strerror}"


def _refuse_symlinks(real: str) -> None:
    where = real
    for part in SERVER_FOLDER:
        where = os.path.join(where, part)
        if os.path.islink(where):
            raise ServerUnavailable(_why(NotADirectoryError(errno.ENOTDIR, "", where)), hint=_HINT)


def _refuse_shared(folder: str) -> None:
    """Refuse a folder in a shared place that is not wholly ours."""
    try:
        found = os.lstat(folder)
    except OSError:
        return  # not there yet, or not readable: connecting will say so
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise ServerUnavailable(
            f"{folder} is not a folder that only you can open; the server's socket will not be put there",
            hint="remove it, or set XDG_RUNTIME_DIR to a folder of your own",
        )


def _far_folders(real: str) -> list[tuple[str, tuple[str, str]]]:
    """Name the places for the socket of a project whose own path is too long, best first."""
    from hashlib import sha256

    digest = sha256(os.fsencode(real)).hexdigest()[:16]
    parts = (f"maestro-{os.geteuid()}", digest)
    bases = (os.environ.get("XDG_RUNTIME_DIR", ""), "/tmp")  # noqa: S108  # its owner and mode are checked
    return [
        (base, parts)
        for base in bases
        if os.path.isabs(base) and len(os.fsencode(os.path.join(base, *parts, SOCKET))) <= MAX_SOCKET_BYTES
    ]
