"""Opening a name in an open folder: never through a link, never waiting for a pipe, never kept by a child process.

The only place that says how. Everything here works on descriptors and raises OSError. Imports next to nothing: a
command that only hands its words over comes through here.
"""

from __future__ import annotations

import errno
import os
import stat

TYPE_CHECKING = False  # typing's own takes longer to import than all the rest here
if TYPE_CHECKING:
    from collections.abc import Iterable

#: O_NONBLOCK: opening a pipe that somebody put in a file's place must not hang.
_ANYTHING = os.O_CLOEXEC | os.O_NONBLOCK
_FILE = os.O_NOFOLLOW | _ANYTHING
_TOP = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC

#: Linux opens a name without opening what it names; None elsewhere.
NAME_ONLY: int | None = getattr(os, "O_PATH", None)

#: What the kernel says when the name is a link, a pipe or a socket, or a folder.
_OTHER_KINDS = {
    errno.ELOOP: "it is a link",
    errno.ENXIO: "it is not a regular file",
    errno.EISDIR: "it is a folder",
}

SHARED_WRITE = stat.S_IWGRP | stat.S_IWOTH


def open_top(path: str | os.PathLike[str]) -> int:
    """Open a folder that the user named: links on the way are the user's business."""
    return os.open(path, _TOP)


def open_folder(folder: int, name: str, *, create: bool = False, mode: int = 0o700) -> int:
    """Open a folder inside another one, made with this mode if told."""
    if create:
        try:  # noqa: SIM105 - contextlib would be one more import
            os.mkdir(name, mode, dir_fd=folder)
        except FileExistsError:
            pass  # usual; what it is shows when it is opened
    return os.open(name, _TOP | os.O_NOFOLLOW, dir_fd=folder)


def open_below(
    top: str | os.PathLike[str], *names: str, create: bool = False, mode: int = 0o700, is_own: bool = False
) -> int:
    """Open a folder that the user named and, part by part, one below it, each part made with this mode if told.

    The error's filename is the path it is about. With `is_own`, PermissionError for a part of another user's.
    """
    folder, where = open_top(top), os.fspath(top)
    for name in names:
        above, where = folder, os.path.join(where, name)
        try:
            folder = open_folder(above, name, create=create, mode=mode)
        except OSError as error:
            error.filename = where
            raise
        finally:
            os.close(above)
        if is_own and os.fstat(folder).st_uid != os.geteuid():
            os.close(folder)
            raise PermissionError(errno.EPERM, f"{name} belongs to another user", where)
    return folder


def open_file(folder: int, name: str, flags: int = os.O_RDONLY, mode: int = 0o600) -> int:
    """Open a file, or whatever else has the name: the caller finds out what it is."""
    return os.open(name, flags | _FILE, mode, dir_fd=folder)


def open_path(path: str) -> int:
    """Open what a path leads to that the user or a tool named, links and all: the caller finds out what it is."""
    return os.open(path, os.O_RDONLY | _ANYTHING)


def open_unnoted(path: str) -> int:
    """Open what a path leads to without noting when it was read, where that is ours to say: the owner's."""
    try:
        return os.open(path, os.O_RDONLY | _ANYTHING | getattr(os, "O_NOATIME", 0))
    except PermissionError:
        return open_path(path)


def open_regular(path: str) -> int:
    """Open the file that a path leads to, links and all; OSError for what is no regular file."""
    descriptor = open_path(path)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(0, "not a regular file", path)


def open_new(folder: int, name: str, mode: int = 0o600) -> int:
    """Make a file that was not there, to be written and read."""
    return os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=folder)


def open_name(folder: int, name: str) -> int:
    """Get hold of whatever has a name, without opening it; only where there is NAME_ONLY."""
    return os.open(name, (NAME_ONLY or 0) | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)


def open_own_file(folder: int, name: str, flags: int) -> tuple[int, int]:
    """Open a regular file of this user's own that has no other name; return its descriptor and its size.

    Never changes what it refuses: O_TRUNC is not for here. Raises PermissionError with the reason for what is no such
    file.
    """
    try:
        descriptor = open_file(folder, name, flags)
    except OSError as error:
        if error.errno in _OTHER_KINDS:
            raise PermissionError(errno.EPERM, _OTHER_KINDS[error.errno]) from error
        raise
    status = os.fstat(descriptor)
    reason = _why_not_own(status)
    if reason:
        os.close(descriptor)
        raise PermissionError(errno.EPERM, reason)
    return descriptor, status.st_size


def _why_not_own(status: os.stat_result) -> str | None:
    if not stat.S_ISREG(status.st_mode):
        return "it is not a regular file"
    if status.st_uid != os.geteuid():
        return "it belongs to another user"
    return "it has a second name elsewhere" if status.st_nlink > 1 else None


def refuse_shared(status: os.stat_result) -> None:
    """Raise PermissionError for what others own or may write to."""
    if status.st_uid != os.geteuid() or status.st_mode & SHARED_WRITE:
        raise PermissionError(0, "others own it or may write to it")


def read_all(descriptor: int, size: int, limit: int) -> bytes:
    """Read a file to its end, but not far beyond the limit, which the caller compares its length with."""
    # One byte more than it says: a second read that finds nothing is saved, a file that grows is noticed.
    data = os.read(descriptor, min(size, limit) + 1)
    if len(data) == size:
        return data
    parts, total = [data], len(data)
    while total <= limit and (part := os.read(descriptor, 1 << 20)):
        parts.append(part)
        total += len(part)
    return b"".join(parts)


def write_all(descriptor: int, content: bytes) -> None:
    """Write every byte, however little the kernel takes at a time."""
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


def append_whole(descriptor: int, content: bytes) -> None:
    """Add to the end of a file and make it durable; take back what a full disk cut short."""
    size = os.fstat(descriptor).st_size
    try:
        write_all(descriptor, content)
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, size)
        raise


def replace_file(
    folder: int, name: str, content: bytes | Iterable[bytes], *, mode: int = 0o600, durable: bool = True
) -> None:
    """Put a file in place whole, also from pieces: whoever reads meanwhile sees the old one or the new one.

    `durable` also survives a power cut.
    """
    aside = f".{name}.{os.urandom(6).hex()}.tmp"
    descriptor = open_new(folder, aside, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.writelines([content] if isinstance(content, bytes) else content)
            file.flush()
            if durable:
                os.fsync(descriptor)
        os.rename(aside, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        # Also when interrupted: a half-written file must not stay behind under any name.
        os.unlink(aside, dir_fd=folder)
        raise
    if durable:
        os.fsync(folder)
