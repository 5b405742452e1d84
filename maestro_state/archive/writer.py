"""The next generation of an archive: built aside, hard-linked where nothing changed, swapped in whole.

What is written is pushed in file by file, so that no session needs to fit into memory. Nothing of the present
generation is touched before the swap, and a file is never written to once it has a second name.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from maestro_state.archive import layout
from maestro_state.archive.home import STAGING, Home, staged_name
from maestro_state.archive.tree import Tree
from maestro_state.disk import Folder, write_all
from maestro_state.errors import ArchiveFailed, FileCorrupt, MaestroError

#: Files that are being written at the same time, at most; the others are closed and opened again.
_OPEN_MAX = 32

_COPY_BYTES = 1 << 20

#: What a file that grows in small pieces gathers before it is written.
_BUFFER_BYTES = 1 << 17


class _Growing:
    """A file of the new generation that is written piece by piece."""

    def __init__(self, tree: Tree, path: str) -> None:
        self.path = path
        self._tree = tree
        self._hash = hashlib.sha256()
        self.size = 0
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._descriptor: int | None = tree.create(path)

    def write(self, content: bytes) -> None:
        self._waiting.append(content)
        self._waiting_bytes += len(content)
        if self._waiting_bytes >= _BUFFER_BYTES:
            self._flush()

    def _flush(self) -> None:
        if not self._waiting:
            return
        content = b"".join(self._waiting)
        self._waiting.clear()
        self._waiting_bytes = 0
        if self._descriptor is None:
            self._descriptor = self._tree.reopen(self.path)
        write_all(self._descriptor, content)
        self._hash.update(content)
        self.size += len(content)

    def finish(self) -> layout.FileEntry:
        self._flush()
        self.close()
        return layout.FileEntry(self._hash.hexdigest(), self.size)

    def rest(self) -> None:
        """Write what waits and let the descriptor go until there is more."""
        self._flush()
        self.close()

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def entry(self) -> layout.FileEntry:
        """Say what it is so far."""
        self._flush()
        return layout.FileEntry(self._hash.hexdigest(), self.size)


class Generation:
    """One generation in the making; `replacing` opens it, `commit` puts it in place."""

    def __init__(
        self, home: Home, folder: Folder, session_id: str, old: Tree | None, manifest: layout.Manifest | None
    ) -> None:
        """Start an empty one beside the present one, whose manifest is given if it has a good one."""
        self.session_id = session_id
        self.old = manifest
        self._home, self._folder = home, folder
        self._staged = staged_name(session_id)
        self._base = old
        self._files: dict[str, layout.FileEntry] = {}
        self._written: list[str] = []
        self._removed = dict(manifest.removed) if manifest else {}
        self._growing: dict[str, _Growing] = {}
        self._open: list[_Growing] = []
        with folder.child(STAGING, create=True) as staging:
            self._tree = Tree(staging.child(self._staged, create=True))
        for name in layout.FOLDERS:
            self._tree.folder(name)

    def has(self, path: str, digest: str | None = None) -> bool:
        """Tell whether the present generation has a file, with this digest if one is given."""
        entry = self.old.files.get(path) if self.old else None
        return entry is not None and (digest is None or entry.sha256 == digest)

    def put(self, path: str, content: bytes) -> None:
        """Write a file whole; one that did not change is linked."""
        digest = layout.sha256(content)
        if self.has(path, digest) and self.keep(path):
            return
        descriptor = self._tree.create(path)
        try:
            write_all(descriptor, content)
        finally:
            os.close(descriptor)
        self._note(path, layout.FileEntry(digest, len(content)))

    def keep(self, path: str) -> bool:
        """Take a file over from the present generation unchanged; False when it is not there as it should be."""
        if self.old is None or self._base is None or path not in self.old.files:
            return False
        entry, status = self.old.files[path], self._base.status(path)
        if status is None or status.st_size != entry.size:
            return False
        self._tree.link(path, self._base, path)
        self._files[path] = entry
        return True

    def same(self, path: str, as_path: str) -> None:
        """Give a file of this generation a second name: the same content is stored once."""
        self._tree.link(path, self._tree, as_path)
        self._files[path] = self._files[as_path]

    def append(self, path: str, content: bytes, *, anew: bool = False) -> None:
        """Add to the end of a file: the first time, what the present generation has of it is copied, unless `anew`."""
        growing = self._growing.get(path)
        if growing is None:
            growing = self._growing[path] = _Growing(self._tree, path)
            if self.has(path) and not anew:
                self._copy(path, growing)
            self._open.append(growing)
            if len(self._open) > _OPEN_MAX:
                self._open.pop(0).rest()
        growing.write(content)

    def _copy(self, path: str, target: _Growing) -> None:
        descriptor = self._base.open(path) if self._base else None
        if descriptor is None:
            raise FileCorrupt(f"{self._home.path}/sessions/{self.session_id}/{path} is missing")
        with os.fdopen(descriptor, "rb", buffering=0) as source:
            while piece := source.read(_COPY_BYTES):
                target.write(piece)
        wanted = self.old.files[path] if self.old else None
        if wanted != target.entry():
            raise FileCorrupt(f"{self._home.path}/sessions/{self.session_id}/{path} is damaged")

    def drop(self, path: str, removed_at: str) -> None:
        """Leave a file of the present generation out, on purpose and on record."""
        if self.old and (entry := self.old.files.get(path)):
            self._removed[path] = layout.Removal(entry.sha256, entry.size, removed_at)

    def note_removed(self, path: str, removal: layout.Removal) -> None:
        """Keep on record that a file was removed on purpose somewhere else."""
        self._removed[path] = removal

    def settle(self, wanted: dict[str, layout.FileEntry]) -> None:
        """Raise FileCorrupt unless every file that grew here is what it should be."""
        for path, growing in self._growing.items():
            if growing.entry() != wanted.get(path):
                raise FileCorrupt(f"{path} of {self.session_id} is not what was announced: its digest does not fit")

    def is_written(self, path: str) -> bool:
        """Tell whether this generation has the file already."""
        return path in self._files or path in self._growing

    def _note(self, path: str, entry: layout.FileEntry) -> None:
        self._files[path] = entry
        self._written.append(path)

    def _carry_over(self) -> None:
        """Take over what is not ours: exports, and whatever somebody else put into the folder."""
        if self._base is None:
            return
        ours = self.old.files if self.old else {}
        for path in self._base.walk():
            if path not in ours and path not in self._files and path not in self._removed and path != layout.MANIFEST:
                self._tree.link(path, self._base, path)

    def commit(self, *, last_id: str, written_at: str) -> layout.Manifest:
        """Finish the generation, make it durable, swap it in, and read it back from the disk.

        Raises ArchiveFailed when what is there afterwards is not what was written.
        """
        for path, growing in self._growing.items():
            self._note(path, growing.finish())
        self._carry_over()
        manifest = layout.Manifest(
            format=layout.FORMAT,
            session_id=self.session_id,
            generation=self.old.generation + 1 if self.old else 1,
            written_at=written_at,
            last_id=last_id,
            files=self._files,
            removed={path: one for path, one in self._removed.items() if path not in self._files},
        )
        encoded = layout.encode_manifest(manifest)
        descriptor = self._tree.create(layout.MANIFEST)
        try:
            write_all(descriptor, encoded)
        finally:
            os.close(descriptor)
        self._tree.sync([*self._written, layout.MANIFEST])
        self._tree.close()
        self._home.swap(self._folder, self.session_id, self._staged)
        self._check(encoded)
        return layout.decode_manifest(encoded, self.session_id)

    def _check(self, encoded: bytes) -> None:
        """Read back what was just put in place: the manifest, every file's size, every new file's digest."""
        with self._folder.child(self.session_id) as place, Tree(place) as tree:
            if tree.read(layout.MANIFEST, limit=layout.JSON_LIMIT) != encoded:
                raise ArchiveFailed(f"{place.path} does not hold what was written to it", hint="maestro session sync")
            for path in self._written:
                if tree.entry(path) != self._files[path]:
                    raise ArchiveFailed(f"{place.path}/{path} does not hold what was written to it")

    def abandon(self) -> None:
        """Throw the unfinished generation away."""
        for growing in self._growing.values():
            growing.close()
        self._tree.close()
        with self._folder.child(STAGING) as staging:
            staging.remove_tree(self._staged)


@contextmanager
def replacing(home: Home, session_id: str, *, fresh: bool = False, adopt: bool = False) -> Iterator[Generation]:
    """Hold the session's lock and yield its next generation; left without a commit, the present one stays.

    `fresh` links nothing: for an archive that is damaged. `adopt` takes what is there as it is when another program
    wrote it, and so without a manifest.
    """
    try:
        with home.locked(session_id) as folder:
            place = folder.child(session_id) if folder.status(session_id) is not None else None
            base = Tree(place) if place else None
            manifest = None if base is None or fresh else read_manifest(base, session_id)
            if manifest is None and base is not None and adopt:
                manifest = described(base, session_id)
            try:
                generation = Generation(home, folder, session_id, base, manifest)
                try:
                    yield generation
                finally:
                    generation.abandon()
            finally:
                if base:
                    base.close()
    except OSError as error:
        raise ArchiveFailed(
            f"the archive in {home.path} could not be written: {os.strerror(error.errno or 0)}",
            hint="make room or make it writable, then maestro session sync; the session is still on the server",
        ) from error


def described(tree: Tree, session_id: str) -> layout.Manifest:
    """Describe the archive of another program; what is exported is not part of it."""
    files = {}
    for path in tree.walk():
        if not path.startswith("exports/") and path != layout.MANIFEST and (entry := _regular(tree, path)):
            files[path] = entry
    return layout.Manifest(
        format=layout.FORMAT, session_id=session_id, generation=0, written_at="", last_id="", files=files
    )


def _regular(tree: Tree, path: str) -> layout.FileEntry | None:
    status = tree.status(path)
    return tree.entry(path) if status and stat.S_ISREG(status.st_mode) else None


def read_manifest(tree: Tree, session_id: str) -> layout.Manifest | None:
    """Read a folder's manifest; None when there is none, or it is damaged: then nothing in there is trusted."""
    try:
        content = tree.read(layout.MANIFEST, limit=layout.JSON_LIMIT)
        return None if content is None else layout.decode_manifest(content, session_id)
    except MaestroError:
        return None
