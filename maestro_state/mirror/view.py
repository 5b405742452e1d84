"""An archive as its manifest says it is, whatever is being written to it or was left by a process that was killed.

A checkpoint changes an archive in place (`pending.py`): files grow before the manifest knows, and files it knows may
still wait beside the archive. Who reads through a view sees neither: a file has the bytes that the manifest counts, and
one that waits is read where it waits.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from functools import cached_property
from typing import TypeVar

from maestro_state.errors import FileCorrupt, MaestroError, NewerFormat, SessionNotFound
from maestro_state.fs.entry import FileEntry
from maestro_state.fs.handles import Folder
from maestro_state.fs.tree import Tree
from maestro_state.mirror.home import Home
from maestro_state.mirror.layouts import session as layout

#: How often an archive that is changed meanwhile is read.
_TRIES = 10

_T = TypeVar("_T")


def open_view(home: Home, session_id: str) -> View:
    """Open an archived session; SessionNotFound when there is none."""
    opened = home.open_session(session_id)
    if opened is None:
        raise SessionNotFound(session_id)
    return View(session_id, *opened)


def read_steadily(open_one: Callable[[], View], read: Callable[[View], _T]) -> _T:
    """Read what has to be of one generation: again when the archive was changed meanwhile, whatever came of it."""
    tries = _TRIES
    while True:
        tries -= 1
        # Before it is opened: else a change could begin after that, be made, and not be noticed.
        before = _stamp(open_one)
        try:
            with open_one() as view:
                found = read(view)
        except (FileCorrupt, OSError):
            if not tries or _stamp(open_one) == before:
                raise
        else:
            if not tries or _stamp(open_one) == before:
                return found


def _stamp(open_one: Callable[[], View]) -> tuple[int, int] | None:
    with open_one() as view:
        return view.stamp()


class View(Tree):
    """One archive, opened for one question."""

    def __init__(self, session_id: str, place: Folder, pending: Folder | None = None) -> None:
        """Own the handles: of the archive, and of what waits to be put in place there."""
        super().__init__(place)
        self._session_id = session_id
        self._pending = Tree(pending) if pending else None

    @cached_property
    def manifest(self) -> layout.Manifest | None:
        """The manifest; None when there is none that can be trusted."""
        return read_manifest(self.root, self._session_id)

    @property
    def is_pending(self) -> bool:
        """Tell whether a change was under way when this was opened."""
        return self._pending is not None

    def stamp(self) -> tuple[int, int] | None:
        """Return what tells one manifest from the next."""
        status = super().status(layout.MANIFEST)
        return (status.st_ino, status.st_mtime_ns) if status else None

    def reach(self, path: str) -> int | None:
        """Return how many bytes of a file count: of one that grows, those the manifest knows."""
        entry = self.manifest.files.get(path) if layout.grows(path) and self.manifest else None
        return entry.size if entry else None

    def open(self, path: str) -> int | None:
        """Return a descriptor to read by; None when there is no such file."""
        if self._is_gone(path):
            return None
        waiting = self._open_waiting(path)
        return super().open(path) if waiting is None else waiting

    def _is_gone(self, path: str) -> bool:
        """Tell whether a file is only there because its removal was interrupted."""
        if self._pending is None or path == layout.MANIFEST or self.manifest is None:
            return False
        return layout.is_own(path) and path not in self.manifest.files

    def _open_waiting(self, path: str) -> int | None:
        """Open a file that the manifest knows and that is not in its place yet."""
        if self._pending is None or path == layout.MANIFEST or self.manifest is None:
            return None
        entry = self.manifest.files.get(path)
        try:
            descriptor = self._pending.open(path) if entry else None
        except MaestroError:
            return None  # a link or a pipe in its place: nothing Maestro left
        if descriptor is None:
            return None
        if self.entry_of(descriptor) != entry:  # of a change that was never made
            os.close(descriptor)
            return None
        os.lseek(descriptor, 0, os.SEEK_SET)
        return descriptor

    def size(self, path: str) -> int | None:
        """Return a file's size; while a change is under way, what counts of it."""
        size, reach = super().size(path), self.reach(path) if self._pending else None
        return size if size is None or reach is None else min(size, reach)

    def status(self, path: str) -> os.stat_result | None:
        """Return what the file system knows of a path."""
        descriptor = self._open_waiting(path)
        if descriptor is None:
            return None if self._is_gone(path) else super().status(path)
        try:
            return os.fstat(descriptor)
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Give all handles back. Repeatable."""
        super().close()
        if self._pending:
            self._pending.close()


def described(tree: Tree, session_id: str) -> layout.Manifest:
    """Describe the archive of another program; what is exported is not part of it.

    Nor is a maestro.json that it may have: listed in a manifest, it would be taken for this program's.
    """
    files, ours = {}, (layout.MANIFEST, layout.RECORD)
    for path in tree.walk():
        if not path.startswith("exports/") and path not in ours and (entry := _regular(tree, path)):
            files[path] = entry
    return layout.Manifest(
        format=layout.FORMAT, session_id=session_id, generation=0, written_at="", last_id="", files=files
    )


def _regular(tree: Tree, path: str) -> FileEntry | None:
    status = tree.status(path)
    return tree.entry(path) if status and stat.S_ISREG(status.st_mode) else None


def read_manifest(folder: Folder, session_id: str) -> layout.Manifest | None:
    """Read a folder's manifest; None when there is none, or it is damaged: then nothing in there is trusted."""
    try:
        content = folder.read(layout.MANIFEST, limit=layout.JSON_LIMIT)
        return None if content is None else layout.decode_manifest(content, session_id)
    except NewerFormat:
        raise  # not damaged: what it says may mean something else
    except MaestroError:
        return None
