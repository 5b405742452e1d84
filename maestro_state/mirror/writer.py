"""The next generation of an archive: built aside, hard-linked where nothing changed, swapped in whole; or, for a
checkpoint, only what is new, put in place file by file (`pending.py`).

What is written is pushed in file by file, so that no session needs to fit into memory. A file is never written to once
it has a second name.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Collection, Container, Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

from maestro_state.errors import ArchiveFailed, FileCorrupt, MaestroError
from maestro_state.fs.entry import FileEntry
from maestro_state.fs.handles import Folder
from maestro_state.fs.tree import Tree
from maestro_state.mirror import pending
from maestro_state.mirror.home import Home, next_name, staged_name
from maestro_state.mirror.layouts import session as layout
from maestro_state.mirror.parallel_writes import Growing, Writers
from maestro_state.mirror.staged import Staged, put_in_place
from maestro_state.mirror.view import described, read_manifest

#: Files that grow at the same time and have something waiting, at most; the oldest is written then.
_GROWING_MAX = 32

_COPY_BYTES = 1 << 20


class Generation:
    """One generation in the making; `replacing` opens it, `commit` puts it in place."""

    def __init__(
        self, home: Home, folder: Folder, session_id: str, present: Tree | None, manifest: layout.Manifest | None
    ) -> None:
        """Name the present one, whose manifest is given if it has a good one. Nothing is made before it is needed."""
        self.session_id = session_id
        self.old = manifest
        self.home, self._folder = home, folder
        self._present = present
        self._files: dict[str, FileEntry] = {}
        self._removed = dict(manifest.removed) if manifest else {}
        #: Files that are made here, and those that are only given a name.
        self._written: list[str] = []
        self._linked: list[str] = []
        #: What was taken over and is not in the new tree yet.
        self._lacking: set[str] = set()
        self._is_in_place = False
        #: Under which names contents that last are stored, here and in the present generation, by their digests.
        self._lasting: dict[str, str] = {}
        self._stored: dict[str, str] | None = None
        #: Second names of files that may not be written yet.
        self._same: list[tuple[str, str]] = []
        self._growing: dict[str, Growing] = {}
        self._gathering: dict[str, Growing] = {}
        self._opened: Staged | None = None
        self._writers = Writers(lambda: self._staged().reopen())
        self.trashed: str | None = None  #: where the replaced one is, if it was put into the trash

    def _staged(self) -> Staged:
        """Return the tree it is built in, opened the first time."""
        if self._opened is None:
            in_place = self._is_in_place
            name = next_name(self.session_id) if in_place else staged_name(self.session_id)
            self._opened = Staged(self._folder, name, () if in_place else layout.FOLDERS)
        return self._opened

    def change_in_place(self) -> None:
        """Put what is new into the present generation, instead of another in its place; before anything is written."""
        self._is_in_place = True

    def has(self, path: str, digest: str | None = None) -> bool:
        """Tell whether the present generation has a file, with this digest if one is given."""
        entry = self.old.files.get(path) if self.old else None
        return entry is not None and (digest is None or entry.sha256 == digest)

    def known(self) -> layout.Record | None:
        """Return what the present generation has in maestro.json; None when that is not as its manifest says, or costs
        more to read than it saves.
        """
        entry = self.old.files.get(layout.RECORD) if self.old else None
        if self._present is None or entry is None or entry.size > layout.JSON_LIMIT:
            return None
        content = self._present.read(layout.RECORD, limit=layout.JSON_LIMIT)
        if content is None or layout.sha256(content) != entry.sha256:
            return None
        return layout.decode_record(content)

    def keep_all(self, among: Container[str] | None = None) -> None:
        """Take over every file of the present generation, or those among some, to be replaced by what follows."""
        if self.old is not None:
            files = self.old.files
            self._files = dict(files) if among is None else {path: files[path] for path in files if path in among}
            self._lacking = set() if self._is_in_place else set(self._files)

    def keep(self, path: str) -> bool:
        """Take one file over from the present generation; False when it is not there as it should be."""
        entry = self.old.files.get(path) if self.old else None
        if entry is None or not (self._is_in_place or self._link(path, path)):
            return False
        self._files[path] = entry
        return True

    def _link(self, path: str, stored: str) -> bool:
        """Give a file of the present generation a name here; False when it is not there as it should be."""
        status = self._present.status(stored) if self._present else None
        if self._present is None or self.old is None or status is None or status.st_size != self.old.files[stored].size:
            return False
        self._give_name(path, self._present, stored)
        return True

    def _give_name(self, path: str, source: Tree, source_path: str) -> None:
        is_copy = self._staged().tree.link(path, source, source_path)
        (self._written if is_copy else self._linked).append(path)

    def leave_out(self, path: str) -> None:
        """Do without a file that was taken over."""
        self._files.pop(path, None)
        self._lacking.discard(path)

    def put(self, path: str, content: bytes) -> None:
        """Write a file whole; one that did not change is taken over."""
        digest = layout.sha256(content)
        if not self._is_kept(path, digest):
            self._write(path, content, digest)

    def share(self, path: str, digest: str) -> bool:
        """Have a content that never changes under a path, if it is stored under any; tell whether that was possible."""
        if self._is_kept(path, digest):
            return True
        if (written := self._lasting.get(digest)) is not None:
            self._same.append((path, written))
            self._note(path, self._files[written])
            return True
        # Else of the present generation, not of this one: here that name may get another content before all is done.
        stored = self._name_of(digest)
        if stored is None or self.old is None or not self._link(path, stored):
            return False
        self._note(path, self.old.files[stored])
        return True

    def _name_of(self, digest: str) -> str | None:
        """Return under which name the present generation has a content that never changes."""
        files = self.old.files if self.old else {}
        if self._stored is None:
            self._stored = {entry.sha256: path for path, entry in files.items()}
        found = self._stored.get(digest)
        if found is None or layout.is_lasting(found):
            return found
        # Looked through only now: an output that is equal to what it was asked for is rare.
        equal = (path for path, entry in files.items() if entry.sha256 == digest and layout.is_lasting(path))
        return next(equal, None)

    def put_lasting(self, path: str, content: bytes, digest: str) -> None:
        """Write a file that will never change, whose digest is known: among those, the same content is stored once."""
        if not self.share(path, digest):
            self._write(path, content, digest)
            self._lasting[digest] = path

    def _is_kept(self, path: str, digest: str) -> bool:
        if not self.has(path, digest):
            return False
        return path in self._files or self.keep(path)

    def _write(self, path: str, content: bytes, digest: str) -> None:
        self._writers.write(path, content)
        self._note(path, FileEntry(digest, len(content)))
        self._written.append(path)

    def append(self, path: str, content: bytes, *, anew: bool = False) -> None:
        """Add to the end of a file: the first time, what the present generation has of it is copied, unless `anew`."""
        growing = self._growing.get(path)
        if growing is None:
            growing = self._growing[path] = self._grown(path) if self.has(path) and not anew else self._new(path)
        if path not in self._gathering:
            self._gathering[path] = growing
            if len(self._gathering) > _GROWING_MAX:
                self._gathering.pop(next(iter(self._gathering))).rest()
        growing.write(content)

    def _new(self, path: str) -> Growing:
        return Growing(path, self._writers.write)

    def _grown(self, path: str) -> Growing:
        """Return a file that has what the present generation has of it: the very file, where nobody else has it."""
        status = self._present.status(path) if self._present else None
        if self._present and self._is_in_place and status and _may_grow(status):
            growing = Growing(path, self._present.write, in_place=True)
            self._copy(path, growing.has)
        else:
            growing = self._new(path)
            self._copy(path, growing.write)
        if growing.entry() != (self.old.files[path] if self.old else None):
            raise FileCorrupt(f"{self.home.path_of(self.session_id)}/{path} is damaged")
        self._staged()  # before it grows: this tells that what is beyond the manifest does not count yet
        return growing

    def lines(self, path: str) -> Iterator[bytes]:
        """Yield the lines that the present generation has of a file; none when it has no such file."""
        entry = self.old.files.get(path) if self.old else None
        if entry is None:
            return
        digest = hashlib.sha256()
        with self._read(path) as file:
            for line in file:
                digest.update(line)
                yield line
        if digest.hexdigest() != entry.sha256:
            raise FileCorrupt(f"{self.home.path_of(self.session_id)}/{path} is damaged")

    def ends_with(self, path: str, line: bytes) -> bool:
        """Tell whether a line is the last one that the present generation has of a file."""
        if not self.has(path):
            return False
        with self._read(path) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - len(line)))
            return file.read() == line

    def _read(self, path: str) -> BinaryIO:
        """Open a file of the present generation."""
        descriptor = self._present.open(path) if self._present else None
        if descriptor is None:
            raise FileCorrupt(f"{self.home.path_of(self.session_id)}/{path} is missing")
        return os.fdopen(descriptor, "rb")

    def _copy(self, path: str, write: Callable[[bytes], None]) -> None:
        with self._read(path) as source:
            while piece := source.read(_COPY_BYTES):
                write(piece)

    def drop(self, path: str, removed_at: str) -> None:
        """Leave a file of the present generation out, on purpose and on record."""
        if self.old and (entry := self.old.files.get(path)):
            self._removed[path] = layout.Removal(entry.sha256, entry.size, removed_at)

    def note_removed(self, path: str, removal: layout.Removal) -> None:
        """Keep on record that a file was removed on purpose somewhere else."""
        self._removed[path] = removal

    def settle(self, wanted: dict[str, FileEntry]) -> None:
        """Raise FileCorrupt unless every file that grew here is what it should be."""
        for path, growing in self._growing.items():
            growing.rest()
            if growing.entry() != wanted.get(path):
                raise FileCorrupt(f"{path} of {self.session_id} is not what was announced: its digest does not fit")

    def written_so_far(self) -> Folder:
        """Open what is written so far, to be read before it is put in place; what still grows is `settle`d first."""
        self._writers.drain()
        return self._staged().reopen().root

    def _note(self, path: str, entry: FileEntry) -> None:
        self._files[path] = entry
        self._lacking.discard(path)

    def _carry_over(self) -> None:
        """Take over what is not ours: exports, and whatever somebody else put into the folder."""
        if self._present is not None:
            for path in filter(self._is_foreign, self._present.walk()):
                self._give_name(path, self._present, path)

    def _is_foreign(self, path: str) -> bool:
        if self.old is None and layout.is_own(path):
            return False  # of a generation that says nothing true about itself
        ours = self.old.files if self.old else {}
        return path not in ours and path not in self._files and path not in self._removed and path != layout.MANIFEST

    def commit(self, *, last_id: str, written_at: str, keep_replaced: bool = False) -> layout.Manifest:
        """Finish the generation, every file of it read back; make it durable, and the archive it.

        With `keep_replaced` the one before goes to the trash if it has anything that this one has not. Raises
        ArchiveFailed when what is on the disk is not what was written: the archive is as it was then.
        """
        for path, growing in self._growing.items():
            growing.rest()
            self._note(path, growing.entry())
        self._writers.drain()
        self._writers.close()
        for path in self._lacking:
            if not self._link(path, path):
                raise FileCorrupt(f"{self.home.path_of(self.session_id)}/{path} is not what it was")
        for path, written in self._same:
            self._give_name(path, self._staged().tree, written)
        manifest = self._manifest(last_id, written_at)
        if self._is_in_place:
            self._commit_in_place(manifest)
        else:
            self._swap(manifest, keep_replaced=keep_replaced)
        return manifest

    def _manifest(self, last_id: str, written_at: str) -> layout.Manifest:
        return layout.sealed(
            layout.Manifest(
                format=layout.FORMAT,
                session_id=self.session_id,
                generation=self.old.generation + 1 if self.old else 1,
                written_at=written_at,
                last_id=last_id,
                files=self._files,
                removed={path: one for path, one in self._removed.items() if path not in self._files},
            )
        )

    def _finish(self, manifest: layout.Manifest, folders: Collection[str], more: list[str]) -> None:
        """Write the manifest, and make everything durable."""
        tree, encoded = self._staged().tree, layout.encode_sealed(manifest)
        tree.write(layout.MANIFEST, encoded)
        grown = [growing.path for growing in self._growing.values() if growing.in_place]
        made = [growing.path for growing in self._growing.values() if not growing.in_place]
        is_all = tree.sync([*self._written, *made, *more, layout.MANIFEST], self._linked)
        if grown and self._present and not is_all:
            self._present.sync(grown, [])
        tree.close()
        self._staged().check(folders, encoded)

    def _check_kept(self) -> None:
        """Raise FileCorrupt unless all that is taken over is still there: only asked for its size, that is cheap."""
        new = {*self._written, *self._linked, *self._growing}
        for path, entry in self._files.items():
            if path not in new and (self._present is None or self._present.quick_size(path) != entry.size):
                raise FileCorrupt(f"{self.home.path_of(self.session_id)}/{path} is not what it was")

    def _commit_in_place(self, manifest: layout.Manifest) -> None:
        self._check_kept()
        gone = self.old.files.keys() - manifest.files.keys() if self.old else set()
        self._finish(manifest, (), pending.note_gone(self._staged().tree, gone))
        pending.commit(self._folder, self.session_id, gone)
        self._opened = None

    def _swap(self, manifest: layout.Manifest, *, keep_replaced: bool) -> None:
        self._carry_over()
        self._finish(manifest, layout.folders_of(manifest.files), [])
        has_all = self.old is not None and self.old.files.items() <= manifest.files.items()
        self.trashed = put_in_place(
            self.home,
            self._folder,
            self.session_id,
            self._staged().name,
            is_foreign=self._is_foreign,
            to_trash=keep_replaced and not has_all,
        )

    def abandon(self) -> None:
        """Throw away what was not committed."""
        self._writers.close()
        if self._opened is None:
            return
        self._opened.tree.close()
        if not self._is_in_place:
            self._opened.remove()
            return
        with suppress(OSError, MaestroError):  # what fails now is done by whoever takes the lock next
            pending.settle(self._folder, self.session_id)


def _may_grow(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and bool(status.st_mode & stat.S_IWUSR)


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
            manifest = None if place is None or fresh else read_manifest(place, session_id)
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
