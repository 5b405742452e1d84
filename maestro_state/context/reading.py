"""Reading files of the project: every folder on the way is opened without following links, so that a link swapped in
between looking and opening leads nowhere. Devices and pipes are refused before they are opened.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import NamedTuple, Self

from maestro_state.errors import ContentTooLarge, PathNotFound, PathRefused, WorkFailed
from maestro_state.fs.opening import open_file, open_folder, open_path, open_top, read_all

#: Folders whose content never becomes context: Maestro's own, and git's.
PRIVATE = (".maestro", ".git")

#: Where Maestro keeps work sessions and discussions: never meant when a folder or a glob is.
OWN_FOLDERS = ("docs/sessions/", "docs/maestro/sessions/")

#: Open folders kept at hand; reading a tree in order needs few.
_FOLDERS_MAX = 64


class Place(NamedTuple):
    """A file or folder that an argument names."""

    path_rel: str  #: as it is recorded: relative to the project, with /
    real: str  #: where it is opened: relative to the project, no link on the way; absolute for one outside
    is_outside: bool


class Content(NamedTuple):
    """A file at one moment."""

    data: bytes
    mtime_ms: int


class Tree:
    """The project's folder, opened once."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = os.path.realpath(root)
        self._fd = open_top(self.root)
        self._folders: dict[str, int] = {}

    def place(self, folder: str, name: str, *, follow: bool) -> Place:
        """Say what a name means, seen from a folder; refuse what lies outside the project.

        A link inside the project to a file inside it is that file under the link's name; one that leads out is
        refused unless `follow` says that it is meant.
        """
        path = os.path.join(folder, name)
        real = os.path.realpath(path)
        inside = self._relative(real)
        # The last part keeps its name when it is a link; what is above is where it really is.
        above, last = os.path.split(path)
        named = None if last in ("", ".", "..") else self._relative(os.path.join(os.path.realpath(above), last))
        if inside is not None:
            return Place(_checked(named if named is not None else inside), _checked(inside), is_outside=False)
        lexical = named if named is not None else self._relative(os.path.normpath(path))
        if lexical is None:
            raise PathRefused(
                f"{name} is outside the project {self.root}", hint="copy it in, or: maestro context add - < FILE"
            )
        if not follow:
            raise PathRefused(f"{name} is a link out of the project, to {real}", hint="--follow if you mean it")
        return Place(_checked(lexical), real, is_outside=True)

    def status(self, place: Place) -> os.stat_result:
        """Look at a file or folder; PathNotFound when there is none."""
        try:
            if place.is_outside:
                return os.stat(place.real)
            folder, name = self._folder_of(place.real)
            return os.stat(name, dir_fd=folder, follow_symlinks=False)
        except OSError as error:
            raise _refusal(error, place.path_rel) from error

    def read(self, place: Place, limit: int) -> Content:
        """Return a file's bytes; refuse what is no regular file and what is larger than the limit.

        Whoever chose the file has looked at it (`status`): a device is not opened to find out that it is one.
        """
        try:
            if place.is_outside:
                descriptor = open_path(place.real)
            else:
                folder, name = self._folder_of(place.real)
                descriptor = open_file(folder, name)
            try:
                status = os.fstat(descriptor)
                check_file(place.path_rel, status, limit)
                data = read_all(descriptor, status.st_size, limit)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise _refusal(error, place.path_rel) from error
        if len(data) > limit:
            raise too_large(place.path_rel, len(data), limit)
        return Content(data, status.st_mtime_ns // 1_000_000)

    def _relative(self, path: str) -> str | None:
        """Return a path relative to the root, None for one outside."""
        if path == self.root:
            return "."
        base = self.root if self.root.endswith("/") else self.root + "/"
        return path[len(base) :] if path.startswith(base) else None

    def _folder_of(self, real: str) -> tuple[int, str]:
        """Return the open folder of a path and the path's last part."""
        above, _, name = real.rpartition("/")
        if name in ("", "..") or (name == "." and above):
            raise PathRefused(f"{real} is no path inside the project")
        if not above:
            return self._fd, name
        known = self._folders.get(above)
        if known is not None:
            return known, name
        parent, last = self._folder_of(above)
        descriptor = open_folder(parent, last)
        if len(self._folders) >= _FOLDERS_MAX:
            self._forget()
        self._folders[above] = descriptor
        return descriptor, name

    def _forget(self) -> None:
        while self._folders:
            os.close(self._folders.popitem()[1])

    def close(self) -> None:
        """Give the handles back."""
        self._forget()
        os.close(self._fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def check_file(name: str, status: os.stat_result, limit: int) -> None:
    """Refuse what is not a regular file, or is too large for one item."""
    if not stat.S_ISREG(status.st_mode):
        raise PathRefused(f"{name} is not a regular file")
    if status.st_size > limit:
        raise too_large(name, status.st_size, limit)


def too_large(name: str, size: int, limit: int) -> ContentTooLarge:
    """Return the error for a file above the limit."""
    return ContentTooLarge(
        f"{name} is {size} bytes; one item of context holds at most {limit}",
        hint="add a part of it, or raise MAESTRO_MAX_BLOB_BYTES",
    )


def _checked(path_rel: str) -> str:
    """Return a path that may be recorded."""
    if any(part in PRIVATE for part in path_rel.split("/")):
        raise PathRefused(f"{path_rel} belongs to Maestro or to git; it does not become context")
    try:
        path_rel.encode()
    except UnicodeEncodeError as error:
        raise PathRefused(f"{path_rel!a}: the name is not UTF-8") from error
    return path_rel


def _refusal(error: OSError, name: str) -> PathNotFound | PathRefused | WorkFailed:
    if error.errno == errno.ENOENT:
        return PathNotFound(f"there is no file {name}")
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return PathRefused(f"{name} is reached through a link that was not there before")
    return WorkFailed(f"{name}: {os.strerror(error.errno or 0)}")
