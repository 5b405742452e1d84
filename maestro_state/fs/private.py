"""The user's own folders, and files in them and in a project that nobody else can have swapped.

Reading never follows a link the project planted and never blocks on a pipe; writing is whole or not at all.
No knowledge of what is inside the files.
"""

from __future__ import annotations

import os
import pwd
import stat
from typing import TYPE_CHECKING

from maestro_state.fs.opening import open_below, open_file, open_path, read_all, refuse_shared

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Largest settings, tools or trust file that is read, in bytes.
MAX_BYTES = 1 << 20


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
        descriptor = open_path(path)
    except FileNotFoundError:
        return None
    return read_regular(descriptor)


def read_project_file(root: str, relative: str) -> bytes | None:
    """Read a file below `root` without following any link on the way; None when there is none."""
    *folders, name = relative.split("/")
    try:
        folder = open_below(root, *folders)
        try:
            descriptor = open_file(folder, name)
        finally:
            os.close(folder)
    except FileNotFoundError:
        return None
    return read_regular(descriptor)


def open_private_folder(base: str, *names: str) -> int:
    """Open `base`/`names`, made 0700 where missing, and refuse one that others own or may write to.

    Returns a descriptor that the caller closes. Raises OSError.
    """
    os.makedirs(base, mode=0o700, exist_ok=True)
    folder = open_below(base, *names, create=True)
    try:
        refuse_shared(os.fstat(folder))
    except OSError:
        os.close(folder)
        raise
    return folder


def read_private(folder: int, name: str) -> bytes | None:
    """Read a file only this user can have written; None when there is none. Raises OSError otherwise."""
    try:
        descriptor = open_file(folder, name)
    except FileNotFoundError:
        return None
    return read_regular(descriptor, is_private=True)


def read_regular(descriptor: int, *, is_private: bool = False) -> bytes:
    """Read what was opened, and close it."""
    try:
        status = os.fstat(descriptor)
        if is_private:
            refuse_shared(status)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(0, "not a regular file")
        content = read_all(descriptor, status.st_size, MAX_BYTES)
    finally:
        os.close(descriptor)
    if len(content) > MAX_BYTES:
        raise OSError(0, f"larger than {MAX_BYTES} bytes")
    return content


def _user_folder(env: Mapping[str, str], variable: str, fallback: str) -> str | None:
    chosen = env.get(variable, "")
    if os.path.isabs(chosen):  # the XDG rules say to ignore a relative one
        return chosen
    home = user_home(env)
    return None if home is None else os.path.join(home, fallback)
