"""Paths of several parts below one open folder, every part opened without following a link."""

from __future__ import annotations

import errno
import hashlib
import os
import resource
import sys
from collections.abc import Generator, Iterator
from typing import Self

from maestro_state.errors import ArchiveFailed, WorkFailed
from maestro_state.fs.entry import FileEntry
from maestro_state.fs.handles import Folder, read_file
from maestro_state.fs.opening import write_all

#: Folders kept open at a time, beside those on the way to the one in use: an eighth of what a process may have open,
#: since up to four trees are open at a time.
_OPEN_MAX = min(512, max(8, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 8))

#: Deepest folder that is walked: ours have three levels.
_DEPTH_MAX = 8

_PIECE_BYTES = 1 << 20

#: What a file system says that gives a file no second name: not any more, not this one, not at all.
_NO_LINK = (errno.EMLINK, errno.EPERM, errno.EOPNOTSUPP)


class Tree:
    """One folder with everything below it."""

    def __init__(self, root: Folder) -> None:
        self.root = root
        self._open: dict[str, Folder] = {}
        self._view: memoryview | None = None

    def folder(self, path: str, *, create: bool = True) -> Folder:
        """Return a folder below, made if told; FileNotFoundError when it is not there."""
        if not path:
            return self.root
        found = self._open.get(path)
        if found is None:
            above, _, name = path.rpartition("/")
            found = self.folder(above, create=create).child(name, create=create)
            if len(self._open) >= _OPEN_MAX:
                self._close_some(path)
            self._open[path] = found
        return found

    def _close_some(self, keep: str) -> None:
        for path in [path for path in self._open if not keep.startswith(f"{path}/")][: _OPEN_MAX // 2]:
            self._open.pop(path).close()

    def _place(self, path: str, *, create: bool) -> tuple[Folder, str]:
        above, _, name = path.rpartition("/")
        return self.folder(above, create=create), name

    def write(self, path: str, content: bytes, at: int | None = None) -> None:
        """Write a file of one's own whole, or add to one that was written up to `at`; read it back and compare."""
        folder, name = self._place(path, create=at is None)
        descriptor, size = folder.open_own(name) if at is None else folder.open_again(name)
        try:
            write_all(descriptor, content)
            if at is None and size > len(content):
                os.ftruncate(descriptor, len(content))
            if (at is not None and size != at) or not _holds(descriptor, content, at or 0):
                raise ArchiveFailed(f"{self.root.path}/{path} does not hold what was written to it")
        finally:
            os.close(descriptor)

    def open(self, path: str) -> int | None:
        """Return a descriptor to read by; None when there is no such file."""
        try:
            folder, name = self._place(path, create=False)
        except FileNotFoundError:
            return None
        return folder.open_file(name)

    def reach(self, path: str) -> int | None:  # noqa: ARG002 - for trees of which not every byte counts
        """Return how many bytes of a file count; None: all."""
        return None

    def read(self, path: str, *, limit: int) -> bytes | None:
        """Return a file's bytes; None when there is no such file."""
        descriptor = self.open(path)
        return None if descriptor is None else read_file(descriptor, f"{self.root.path}/{path}", limit)

    def pieces(self, path: str, size: int = _PIECE_BYTES) -> Generator[bytes, None, None] | None:
        """Return a file's bytes piece by piece; None when there is no such file."""
        reach, descriptor = self.reach(path), self.open(path)
        return None if descriptor is None else _pieces(descriptor, size, reach)

    def size(self, path: str) -> int | None:
        """Return a file's size; None when there is none. What is no file is refused, as whoever reads it does."""
        descriptor = self.open(path)
        if descriptor is None:
            return None
        try:
            return os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)

    def quick_size(self, path: str) -> int | None:
        """Return the size that a path of very many has, None when it has none: nothing is opened, so a link on the way
        does not show.
        """
        try:
            return os.stat(path, dir_fd=self.root.descriptor, follow_symlinks=False).st_size
        except OSError:
            return None

    def entry(self, path: str) -> FileEntry | None:
        """Read a file to its end and say what it is; None when there is no such file."""
        reach, descriptor = self.reach(path), self.open(path)
        if descriptor is None:
            return None
        try:
            return self.entry_of(descriptor, reach)
        finally:
            os.close(descriptor)

    def entry_of(self, descriptor: int, reach: int | None = None) -> FileEntry:
        """Read an open file from its beginning, and say what it is."""
        # One buffer for all files: most are small, and a new one for each costs more than reading it.
        view = self._view = self._view or memoryview(bytearray(_PIECE_BYTES))
        digest, size = hashlib.sha256(), 0
        while count := os.readv(descriptor, [view if reach is None else view[: reach - size]]):
            digest.update(view[:count])
            size += count
        return FileEntry(digest.hexdigest(), size)

    def status(self, path: str) -> os.stat_result | None:
        """Return what the file system knows of a path."""
        try:
            folder, name = self._place(path, create=False)
        except FileNotFoundError:
            return None
        return folder.status(name)

    def link(self, path: str, source: Tree, source_path: str) -> bool:
        """Give a file of a tree a name in this one; tell whether it had to be copied, since it takes no more names."""
        folder, name = self._place(path, create=True)
        source_folder, source_name = source._place(source_path, create=False)
        try:
            folder.link(name, source_folder, source_name)
        except OSError as error:
            if error.errno not in _NO_LINK:
                raise
            self._copy(path, source, source_path)
            return True
        return False

    def _copy(self, path: str, source: Tree, source_path: str) -> None:
        pieces = source.pieces(source_path)
        if pieces is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), source_path)
        self.write(path, b"")
        size = 0
        for piece in pieces:
            self.write(path, piece, at=size)
            size += len(piece)

    def move(self, path: str, target: Tree) -> None:
        """Rename a file into another tree, to the same path."""
        folder, name = self._place(path, create=False)
        target_folder, target_name = target._place(path, create=True)
        folder.move(name, target_name, into=target_folder)

    def cut(self, path: str, size: int) -> None:
        """Take away what a file of one's own has beyond a size; nothing of one that has a second name elsewhere."""
        folder, name = self._place(path, create=False)
        descriptor, found = folder.open_again(name)
        try:
            if found > size and os.fstat(descriptor).st_nlink == 1:
                os.ftruncate(descriptor, size)
        finally:
            os.close(descriptor)

    def remove(self, path: str) -> bool:
        """Remove one file; tell whether there was one."""
        folder, name = self._place(path, create=False)
        return folder.remove(name)

    def names(self, path: str) -> list[str]:
        """List a folder; empty when it is not there."""
        try:
            return self.folder(path, create=False).names()
        except FileNotFoundError:
            return []

    def walk(self, path: str = "", depth: int = 0) -> Iterator[str]:
        """Yield every path below that is not a folder."""
        if depth > _DEPTH_MAX:
            raise WorkFailed(f"{self.root.path}/{path} is nested too deep to be Maestro's", hint="move it away")
        for name, kind in sorted(self.folder(path, create=False).kinds().items()):
            inner = f"{path}/{name}" if path else name
            if kind == "folder":
                yield from self.walk(inner, depth + 1)
            else:
                yield inner

    def sync(self, written: list[str], linked: list[str]) -> bool:
        """Make what was written durable, and the names of what was linked: the whole file system at once, else file
        by file and folder by folder. Tell whether it was at once.
        """
        if self.root.sync_everything():
            return True
        folders = {""}
        for path in written:
            descriptor = self.open(path)
            if descriptor is not None:
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
        for path in (*written, *linked):
            while path:
                path = path.rpartition("/")[0]
                folders.add(path)
        for path in sorted(folders, reverse=True):
            self.folder(path, create=False).sync()
        return False

    def close(self) -> None:
        """Give all handles back. Repeatable."""
        for folder in self._open.values():
            folder.close()
        self._open.clear()
        self.root.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _pieces(descriptor: int, size: int, reach: int | None) -> Generator[bytes, None, None]:
    left = sys.maxsize if reach is None else reach
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        while piece := file.read(min(size, left)):
            left -= len(piece)
            yield piece


def _holds(descriptor: int, content: bytes, offset: int) -> bool:
    """Read back what was just written, to the end of the file."""
    if len(content) < _PIECE_BYTES:
        return os.pread(descriptor, len(content) + 1, offset) == content
    for at in range(0, len(content), _PIECE_BYTES):
        if os.pread(descriptor, _PIECE_BYTES, offset + at) != content[at : at + _PIECE_BYTES]:
            return False
    return not os.pread(descriptor, 1, offset + len(content))
