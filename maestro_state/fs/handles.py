"""Folders and files of Maestro's own, touched through directory handles that never follow a link.

A name given here is a single path part; what lies above was opened part by part, so nothing a repository contains
can lead a write or a read outside. Files appear whole: written aside under a unique name, then renamed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from _thread import get_ident
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

from maestro_state.errors import FileCorrupt, WorkFailed
from maestro_state.fs import opening
from maestro_state.fs.kernel import exchange, sync_filesystem
from maestro_state.fs.locks import is_current

if TYPE_CHECKING:
    from maestro_state.fs.grouping import SyncGroup


def refusal(error: OSError, path: str) -> WorkFailed:
    """Return what the operating system said, in words that help."""
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return WorkFailed(f"{path} is a link or not a folder; Maestro does not follow it", hint=f"look at {path}")
    return WorkFailed(f"{path}: {os.strerror(error.errno or 0)}", hint="is the disk full, or the folder read-only?")


#: Seconds after which a lock that somebody has is tried again.
_RETRY_S = 0.02

#: Threads whose syncs are one call for all of them.
sharing: dict[int, SyncGroup] = {}


class Folder:
    """One open folder."""

    def __init__(self, descriptor: int, path: str) -> None:
        """Own the handle; use `Folder.open` or `child`."""
        self._fd = descriptor
        self.path = path

    @classmethod
    def open(cls, path: str, *names: str, create: bool = False, mode: int = 0o700) -> Folder:
        """Open a folder that the user named, or one below it, each part made with this mode if told.

        Its own parents may be links, that is the user's business; a link below is refused. FileNotFoundError when the
        one below is not there.
        """
        for name in names:
            _check(name)
        try:
            return cls(opening.open_below(path, *names, create=create, mode=mode), os.path.join(path, *names))
        except OSError as error:
            if isinstance(error, FileNotFoundError) and error.filename != path:
                raise
            raise refusal(error, error.filename) from error

    def child(self, name: str, *, create: bool = False) -> Folder:
        """Open a folder inside, made if told; a link in its place is refused."""
        _check(name)
        path = self._inside(name)
        try:
            return Folder(opening.open_folder(self._fd, name, create=create), path)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise refusal(error, path) from error

    def read(self, name: str, *, limit: int) -> bytes | None:
        """Return a file's bytes, None when there is no such file; refuse a link, a device and one above the limit."""
        descriptor = self.open_file(name)
        return None if descriptor is None else read_file(descriptor, self._inside(name), limit)

    def replace(self, name: str, content: bytes | Iterable[bytes], *, mode: int = 0o600, durable: bool = True) -> None:
        """Put a file in place whole, also from pieces: whoever reads meanwhile sees the old one or the new one.

        Whoever writes many at once makes them durable together, later.
        """
        _check(name)
        try:
            opening.replace_file(self._fd, name, content, mode=mode, durable=durable)
        except OSError as error:
            raise refusal(error, self._inside(name)) from error

    def move(self, name: str, target: str, *, into: Folder | None = None) -> None:
        """Rename a file inside this folder, or into another one on the same disk."""
        _check(name)
        _check(target)
        folder = into or self
        os.rename(name, target, src_dir_fd=self._fd, dst_dir_fd=folder._fd)  # noqa: SLF001 - one of our own kind

    def status(self, name: str) -> os.stat_result | None:
        """Return the status of what has a name, a link itself rather than its target; None when there is nothing."""
        _check(name)
        try:
            return os.stat(name, dir_fd=self._fd, follow_symlinks=False)
        except FileNotFoundError:
            return None

    @property
    def descriptor(self) -> int:
        """Return the open handle, for whoever asks about very many names inside."""
        return self._fd

    def sync(self) -> None:
        """Make the names in this folder last."""
        os.fsync(self._fd)

    def sync_later(self) -> None:
        """Make the names in this folder last; in a thread that shares its syncs, it is done by whoever began those, for
        all threads at once, before anything says that they are there.
        """
        if get_ident() not in sharing:
            self.sync()

    def remove(self, name: str) -> bool:
        """Remove one file; tell whether there was one."""
        _check(name)
        try:
            os.unlink(name, dir_fd=self._fd)
        except FileNotFoundError:
            return False
        return True

    def names(self) -> list[str]:
        """List what is inside."""
        return sorted(os.listdir(self._fd))

    def name_set(self) -> set[str]:
        """List what is inside, in no order."""
        return set(os.listdir(self._fd))

    def kinds(self) -> dict[str, str]:
        """Say of everything inside whether it is a file, a folder or something else; links are something else."""
        with os.scandir(self._fd) as entries:
            return {entry.name: _kind(entry) for entry in entries}

    def open_own(self, name: str) -> tuple[int, int]:
        """Open a file to be written from its beginning, made if it is not there; return its descriptor, which can be
        read by too, and its size. FileExistsError when it is no file, or has a second name: it may not be changed then.
        """
        _check(name)
        descriptor = opening.open_file(self._fd, name, os.O_RDWR | os.O_CREAT)
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
            os.close(descriptor)
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self._inside(name))
        return descriptor, status.st_size

    def open_again(self, name: str) -> tuple[int, int]:
        """Return a descriptor that appends to a file of one's own making, and its size."""
        _check(name)
        descriptor = opening.open_file(self._fd, name, os.O_RDWR | os.O_APPEND)
        return descriptor, os.fstat(descriptor).st_size

    def open_file(self, name: str) -> int | None:
        """Return a descriptor to read a regular file by, None when there is none; a link or a device is refused."""
        _check(name)
        try:
            descriptor = opening.open_file(self._fd, name)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise refusal(error, self._inside(name)) from error
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise FileCorrupt(f"{self._inside(name)} is not a file of Maestro's", hint="move it away")
        return descriptor

    def link(self, name: str, source: Folder, source_name: str) -> None:
        """Give a file of another folder a second name here; a link is linked itself, never followed."""
        _check(name)
        _check(source_name)
        os.link(source_name, name, src_dir_fd=source._fd, dst_dir_fd=self._fd, follow_symlinks=False)

    def exchange(self, name: str, other: Folder, other_name: str) -> bool:
        """Swap two names in one step; False where the file system cannot."""
        _check(name)
        _check(other_name)
        return exchange(self._fd, name, other._fd, other_name)

    def sync_everything(self) -> bool:
        """Make all files of this file system durable at once; False where there is no such call."""
        group = sharing.get(get_ident()) if sharing else None
        return sync_filesystem(self._fd) if group is None else group.sync(lambda: sync_filesystem(self._fd))

    def remove_tree(self, name: str, *, depth: int = 32) -> None:
        """Remove a folder and everything in it for good. Links in it are removed, never followed.

        Deeper than `depth` is nothing Maestro made: refused.
        """
        _check(name)
        if depth == 0:
            raise WorkFailed(f"{self._inside(name)} is nested too deep to be Maestro's", hint="remove it by hand")
        status = self.status(name)
        if status is not None and not stat.S_ISDIR(status.st_mode):
            self.remove(name)  # a link in a folder's place: else it would stand in the way of every sweep to come
            return
        try:
            inner = self.child(name)
        except FileNotFoundError:
            return
        with inner:
            for entry, kind in inner.kinds().items():
                if kind == "folder":
                    inner.remove_tree(entry, depth=depth - 1)
                else:
                    try:
                        inner.remove(entry)
                    except IsADirectoryError as error:  # somebody has put one in its place a moment ago
                        raise refusal(error, os.path.join(inner.path, entry)) from error
        os.rmdir(name, dir_fd=self._fd)

    @contextmanager
    def locked(self, name: str, *, wait_s: float | None = None) -> Iterator[None]:
        """Hold the lock of this name; the kernel lets go of it when its holder dies. With `wait_s`, TimeoutError where
        the holder lives on and does not let go for so long.
        """
        descriptor = self._open_lock(name)
        try:
            if wait_s is None:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            else:
                _lock_within(descriptor, wait_s)
            yield
        finally:
            os.close(descriptor)

    def _inside(self, name: str) -> str:
        return os.path.join(self.path, name)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold this folder against everybody else who holds it; the kernel lets go when its holder dies."""
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    @contextmanager
    def appending(self, name: str, *, mode: int = 0o644) -> Iterator[int]:
        """Open a file to append to, made if it is not there, held against everybody else who appends."""
        _check(name)
        try:
            descriptor = opening.open_file(self._fd, name, os.O_RDWR | os.O_APPEND | os.O_CREAT, mode)
            try:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise FileCorrupt(f"{self._inside(name)} is not a file of Maestro's", hint="move it away")
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                yield descriptor
            finally:
                os.close(descriptor)
        except OSError as error:
            raise refusal(error, self._inside(name)) from error

    @contextmanager
    def try_locked(self, name: str) -> Iterator[int | None]:
        """Hold the lock of this name if nobody does; yields its descriptor, or None when somebody does."""
        descriptor = self._open_lock(name)
        try:
            yield descriptor if self._try_lock(descriptor, name) else None
        finally:
            os.close(descriptor)

    def _try_lock(self, descriptor: int, name: str) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        # A file removed between open and lock protects nothing any more: the name is somebody else's by now.
        return is_current(descriptor, self._fd, name)

    def _open_lock(self, name: str) -> int:
        _check(name)
        try:
            return opening.open_file(self._fd, name, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise refusal(error, self._inside(name)) from error

    def close(self) -> None:
        """Give the handle back. Repeatable."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_file(descriptor: int, path: str, limit: int) -> bytes:
    """Read an open file to its end and close it; refuse one above the limit."""
    try:
        size = os.fstat(descriptor).st_size
        if size > limit:
            raise FileCorrupt(f"{path} is not a file of Maestro's", hint="move it away")
        return opening.read_all(descriptor, size, limit)
    finally:
        os.close(descriptor)


def _kind(entry: os.DirEntry[str]) -> str:
    if entry.is_dir(follow_symlinks=False):
        return "folder"
    return "file" if entry.is_file(follow_symlinks=False) else "other"


def _check(name: str) -> None:
    """Refuse a name that is not a single path part."""
    if not name or "/" in name or "\0" in name or name in (".", ".."):
        raise WorkFailed(f"{name!r} is not a file name")


def _lock_within(descriptor: int, wait_s: float) -> None:
    deadline = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)) from None
            time.sleep(_RETRY_S)
        else:
            return
