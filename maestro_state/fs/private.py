"""The user's own folders, and files in them and in a project that nobody else can have swapped.

Reading never follows a link the project planted and never blocks on a pipe; writing is whole or not at all.
No knowledge of what is inside the files.
"""

from __future__ import annotations

import errno
import os
import pwd
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Largest settings, tools or trust file that is read, in bytes.
MAX_BYTES = 1 << 20

#: O_NONBLOCK: opening a pipe that somebody put in the file's place must not hang.
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
_FOLDER = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY

#: What the kernel says when the name is a link, a pipe or a socket, or a folder.
_OTHER_KINDS = {
    errno.ELOOP: "it is a link",
    errno.ENXIO: "it is not a regular file",
    errno.EISDIR: "it is a folder",
}

_SHARED_WRITE = stat.S_IWGRP | stat.S_IWOTH


def config_home(env: Mapping[str, str]) -> str | None:
    """Return the folder of the user's settings, or None for a user without a home."""
    return _user_folder(env, "XDG_CONFIG_HOME", ".config")


def cache_home(env: Mapping[str, str]) -> str | None:
    """Return the folder of the user's caches, or None for a user without a home."""
    return _user_folder(env, "XDG_CACHE_HOME", ".cache")


def state_home(env: Mapping[str, str]) -> str | None:
    """Return the folder of what programs remember for the user, or None for a user without a home."""
    return _user_folder(env, "XDG_STATE_HOME", os.path.join(".local", "state"))


def user_home(env: Mapping[str, str]) -> str | None:
    """Return the user's home folder, or None for a user without one."""
    home = env.get("HOME", "")
    if os.path.isabs(home):
        return home
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return None


def is_inside(path: str, root: str | None) -> bool:
    """Tell whether whoever may write the project may also write here."""
    if root is None:
        return False
    root = os.path.realpath(root)
    return os.path.commonpath([root, os.path.realpath(path)]) == root


def login_name() -> str:
    """Return the name of the user who runs this; never fails, not even without an account."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = ""
    return name if name and name.isprintable() and len(name) <= 128 else f"uid-{os.getuid()}"


def read_user_file(path: str) -> bytes | None:
    """Read a file of the user's own, links allowed (dotfiles often are); None when there is none."""
    try:
        descriptor = os.open(path, _READ)
    except FileNotFoundError:
        return None
    try:
        return _read_regular(descriptor)
    finally:
        os.close(descriptor)


def read_project_file(root: str, relative: str) -> bytes | None:
    """Read a file below `root` without following any link on the way; None when there is none."""
    *folders, name = relative.split("/")
    try:
        folder = os.open(root, _FOLDER)
    except FileNotFoundError:
        return None
    try:
        for part in folders:
            deeper = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = deeper
        descriptor = os.open(name, _READ | os.O_NOFOLLOW, dir_fd=folder)
        try:
            return _read_regular(descriptor)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        return None
    finally:
        os.close(folder)


def open_private_folder(base: str, *names: str) -> int:
    """Open `base`/`names`, made 0700 where missing, and refuse one that others own or may write to.

    Returns a descriptor that the caller closes. Raises OSError.
    """
    os.makedirs(base, mode=0o700, exist_ok=True)
    folder = os.open(base, _FOLDER)
    try:
        for name in names:
            with suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=folder)
            deeper = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = deeper
        _refuse_shared(os.fstat(folder))
    except OSError:
        os.close(folder)
        raise
    return folder


def open_own_file(folder: int, name: str, flags: int, mode: int = 0o600) -> tuple[int, int]:
    """Open a regular file of this user's own that has no other name; return its descriptor and its size.

    Never follows a link, never waits for a pipe, and never changes what it refuses: O_TRUNC is not for here. Raises
    PermissionError with the reason for what is no such file, else OSError.
    """
    try:
        descriptor = os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, mode, dir_fd=folder)
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


def read_private(folder: int, name: str) -> bytes | None:
    """Read a file only this user can have written; None when there is none. Raises OSError otherwise."""
    try:
        descriptor = os.open(name, _READ | os.O_NOFOLLOW, dir_fd=folder)
    except FileNotFoundError:
        return None
    try:
        _refuse_shared(os.fstat(descriptor))
        return _read_regular(descriptor)
    finally:
        os.close(descriptor)


def write_private(folder: int, name: str, content: bytes, *, durable: bool) -> None:
    """Put a 0600 file in place, whole or not at all; `durable` also survives a power cut."""
    temporary = f".{name}.{os.urandom(6).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o600, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        # Also when interrupted: a half-written file must not stay behind under any name.
        os.unlink(temporary, dir_fd=folder)
        raise
    if durable:
        os.fsync(folder)


def _why_not_own(status: os.stat_result) -> str | None:
    if not stat.S_ISREG(status.st_mode):
        return "it is not a regular file"
    if status.st_uid != os.geteuid():
        return "it belongs to another user"
    return "it has a second name elsewhere" if status.st_nlink > 1 else None


def _user_folder(env: Mapping[str, str], variable: str, fallback: str) -> str | None:
    chosen = env.get(variable, "")
    if os.path.isabs(chosen):  # the XDG rules say to ignore a relative one
        return chosen
    home = user_home(env)
    return None if home is None else os.path.join(home, fallback)


def _read_regular(descriptor: int) -> bytes:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise OSError(0, "not a regular file")
    parts, left = [], MAX_BYTES + 1
    while left > 0 and (part := os.read(descriptor, left)):
        parts.append(part)
        left -= len(part)
    if left <= 0:
        raise OSError(0, f"larger than {MAX_BYTES} bytes")
    return b"".join(parts)


def _refuse_shared(status: os.stat_result) -> None:
    if status.st_uid != os.geteuid() or status.st_mode & _SHARED_WRITE:
        raise PermissionError(0, "others own it or may write to it")
