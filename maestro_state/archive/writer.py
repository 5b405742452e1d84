"""The next generation of an archive: built aside, hard-linked where nothing changed, swapped in whole.

What is written is pushed in file by file, so that no session needs to fit into memory. Nothing of the present
generation is touched before the swap, and a file is never written to once it has a second name.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from maestro_state.archive import layout
from maestro_state.archive.growing import Growing
from maestro_state.archive.home import STAGING, Home, staged_name
from maestro_state.archive.lanes import Lanes
from maestro_state.archive.spare import Spares, Stamps, stamps_of
from maestro_state.archive.tree import Tree
from maestro_state.disk import Folder, write_all
from maestro_state.errors import ArchiveFailed, FileCorrupt, MaestroError

#: Files that grow at the same time and have something waiting, at most; the oldest is written then.
_GROWING_MAX = 32

_COPY_BYTES = 1 << 20


class Generation:
    """One generation in the making; `replacing` opens it, `commit` puts it in place."""

    def __init__(
        self, home: Home, folder: Folder, session_id: str, old: Tree | None, manifest: layout.Manifest | None
    ) -> None:
        """Name the present one, whose manifest is given if it has a good one. Nothing is made before it is needed."""
        self.session_id = session_id
        self.old = manifest
        self.home, self._folder = home, folder
        self._staged = staged_name(session_id)
        self._base = old
        self._files: dict[str, layout.FileEntry] = {}
        self._written: list[str] = []
        self._removed = dict(manifest.removed) if manifest else {}
        self._growing: dict[str, Growing] = {}
        self._gathering: dict[str, Growing] = {}
        self._new: Tree | None = None
        self._lanes = Lanes(self._open_staged)
        #: Second names of files that may not be written yet.
        self._same: list[tuple[str, str]] = []
        #: What the tree had of the spare it is built on, and still has as it was.
        self._have: dict[str, layout.FileEntry] = {}
        self._is_built_on_spare = False
        self._linked: list[str] = []
        self._stamps: Stamps | None = None
        self._has_strange_folders = False
        self.trashed: str | None = None  #: where the replaced one is, if it was put into the trash

    @property
    def _tree(self) -> Tree:
        """The folder it is built in: the spare, which has nearly everything, else an empty one."""
        if self._new is None:
            with self._folder.child(STAGING, create=True) as staging:
                found = None
                if self._base and self.old:
                    self._stamps = stamps_of(self._base, self.old)
                    spares = Spares(self._folder)
                    found = spares.take(self.session_id, self.old, self._stamps, staging, self._staged)
                self._new = Tree(staging.child(self._staged, create=True))
            if found is not None:
                self._is_built_on_spare = True
                self._have = dict(found.files)
            for name in layout.FOLDERS:
                self._new.folder(name)
        return self._new

    def _clear(self, path: str) -> None:
        """Take away what the spare has under a path: a file may have other names, so it is never written to."""
        tree = self._tree
        if self._have.pop(path, None) is not None or (self._is_built_on_spare and tree.status(path) is not None):
            tree.remove(path)

    def has(self, path: str, digest: str | None = None) -> bool:
        """Tell whether the present generation has a file, with this digest if one is given."""
        entry = self.old.files.get(path) if self.old else None
        return entry is not None and (digest is None or entry.sha256 == digest)

    def known(self) -> layout.Record | None:
        """Return what the present generation has in maestro.json; None when that is not as its manifest says."""
        if self._base is None or not self.has(layout.RECORD):
            return None
        content = self._base.read(layout.RECORD, limit=layout.JSON_LIMIT)
        if content is None or not self.has(layout.RECORD, layout.sha256(content)):
            return None
        return layout.decode_record(content)

    def put(self, path: str, content: bytes, digest: str | None = None) -> None:
        """Write a file whole, whose digest may be known already; one that did not change is linked."""
        digest = digest or layout.sha256(content)
        if self.has(path, digest) and self.keep(path):
            return
        self._clear(path)
        self._lanes.write(path, content)
        self._note(path, layout.FileEntry(digest, len(content)))

    def keep(self, path: str) -> bool:
        """Take a file over from the present generation unchanged; False when it is not there as it should be."""
        if self.old is None or self._base is None or path not in self.old.files:
            return False
        entry, tree = self.old.files[path], self._tree
        if self._have.get(path) != entry:
            status = self._base.status(path)
            if status is None or status.st_size != entry.size:
                return False
            self._clear(path)
            tree.link(path, self._base, path)
            self._linked.append(path)
        self._files[path] = entry
        return True

    def same(self, path: str, as_path: str) -> None:
        """Give a file of this generation a second name: the same content is stored once."""
        self._clear(path)
        self._same.append((path, as_path))
        self._linked.append(path)
        self._files[path] = self._files[as_path]

    def append(self, path: str, content: bytes, *, anew: bool = False) -> None:
        """Add to the end of a file: the first time, what the present generation has of it is copied, unless `anew`."""
        growing = self._growing.get(path)
        if growing is None:
            self._clear(path)
            growing = self._growing[path] = Growing(self._lanes, path)
            if self.has(path) and not anew:
                self._copy(path, growing)
        if path not in self._gathering:
            self._gathering[path] = growing
            if len(self._gathering) > _GROWING_MAX:
                self._gathering.pop(next(iter(self._gathering))).rest()
        growing.write(content)

    def _copy(self, path: str, target: Growing) -> None:
        descriptor = self._base.open(path) if self._base else None
        if descriptor is None:
            raise FileCorrupt(f"{self.home.path_of(self.session_id)}/{path} is missing")
        with os.fdopen(descriptor, "rb", buffering=0) as source:
            while piece := source.read(_COPY_BYTES):
                target.write(piece)
        wanted = self.old.files[path] if self.old else None
        if wanted != target.entry():
            raise FileCorrupt(f"{self.home.path_of(self.session_id)}/{path} is damaged")

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
            growing.rest()
            if growing.entry() != wanted.get(path):
                raise FileCorrupt(f"{path} of {self.session_id} is not what was announced: its digest does not fit")

    def staged(self) -> Tree:
        """Open what is written so far, to be read before it is put in place; what still grows is `settle`d first."""
        self._lanes.drain()
        return self._open_staged()

    def _open_staged(self) -> Tree:
        with self._folder.child(STAGING) as staging:
            return Tree(staging.child(self._staged))

    def is_written(self, path: str) -> bool:
        """Tell whether this generation has the file already."""
        return path in self._files or path in self._growing

    def _note(self, path: str, entry: layout.FileEntry) -> None:
        self._files[path] = entry
        self._written.append(path)

    def _carry_over(self) -> None:
        """Take over what is not ours: exports, and whatever somebody else put into the folder."""
        if self._base is None or self._is_built_on_spare:
            return  # the spare has it already
        known = layout.folders_of(self._files)
        for path in self._base.walk():
            if self._is_strange(path):
                self._has_strange_folders |= path.rpartition("/")[0] not in known
                self._tree.link(path, self._base, path)

    def _is_strange(self, path: str) -> bool:
        ours = self.old.files if self.old else {}
        return path not in ours and path not in self._files and path not in self._removed and path != layout.MANIFEST

    def _take_late(self, staging: Folder, replaced: str) -> bool:
        """Take over what somebody put into the replaced generation while this one was built; tell whether a name came
        or went there.
        """
        with Tree(staging.child(replaced)) as before:
            is_known = self.old is not None and self._stamps is not None and not self._has_strange_folders
            if is_known and self.old and stamps_of(before, self.old) == self._stamps:
                return False
            with Tree(self._folder.child(self.session_id)) as present:
                late = [path for path in before.walk() if self._is_strange(path) and present.status(path) is None]
                for path in late:
                    present.link(path, before, path)
                if late:
                    present.sync([], late)
        return True

    def commit(
        self, *, last_id: str, written_at: str, keep_spare: bool = False, keep_replaced: bool = False
    ) -> layout.Manifest:
        """Finish the generation, every file of it read back; make it durable and swap it in.

        With `keep_spare` the replaced one is kept to build the next on, with `keep_replaced` in the trash if it has
        anything that this one has not. Raises ArchiveFailed when what is on
        the disk is not what was written: nothing is swapped then.
        """
        tree = self._tree
        for path, growing in self._growing.items():
            growing.rest()
            self._note(path, growing.entry())
        for path in [path for path in self._have if path not in self._files]:
            self._clear(path)
        self._lanes.drain()
        self._lanes.close()
        for path, as_path in self._same:
            tree.link(path, tree, as_path)
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
        manifest = layout.sealed(manifest)
        encoded = layout.encode_sealed(manifest)
        if self._is_built_on_spare:
            tree.remove(layout.MANIFEST)
        descriptor = tree.create(layout.MANIFEST)
        try:
            write_all(descriptor, encoded)
        finally:
            os.close(descriptor)
        tree.sync([*self._written, layout.MANIFEST], self._linked)
        tree.close()
        found = self._check_staged(manifest, encoded)
        stamps = found if keep_spare and self._stamps is not None else None
        # What comes or goes in a folder that is not ours shows in no stamp: such a session goes without a spare.
        if self._has_strange_folders or self._stamps is None or (stamps and self._stamps.keys() - stamps.keys()):
            stamps = None
        self._swap(manifest, stamps, keep_replaced=keep_replaced)
        return manifest

    def _swap(self, manifest: layout.Manifest, stamps: Stamps | None, *, keep_replaced: bool) -> None:
        """Put the generation in place, and the one that was there aside, or away."""
        spares = Spares(self._folder)
        spares.discard(self.session_id)
        replaced = self.home.swap(self._folder, self.session_id, self._staged)
        if replaced is None:
            return
        with self._folder.child(STAGING) as staging:
            is_kept = (
                not self._take_late(staging, replaced)
                and stamps is not None
                and self._stamps is not None
                and spares.keep(
                    self.session_id, staging, replaced, stamps=self._stamps, present=stamps, digest=manifest.digest
                )
            )
            if is_kept:
                return
            if keep_replaced and (self.old is None or not self.old.files.items() <= manifest.files.items()):
                self.trashed = self.home.put_into_trash(staging, replaced, self.session_id)
            else:
                staging.remove_tree(replaced)

    def _check_staged(self, manifest: layout.Manifest, encoded: bytes) -> Stamps:
        """Look again, by the names that will be swapped in, at what says what all the others are, and every folder."""
        with self._open_staged() as tree:
            stamps = stamps_of(tree, manifest)
            if stamps is None or tree.read(layout.MANIFEST, limit=layout.JSON_LIMIT) != encoded:
                path = self.home.path_of(self.session_id)
                raise ArchiveFailed(f"{path} would not hold what was written to it", hint="maestro session sync")
            return stamps

    def abandon(self) -> None:
        """Throw the unfinished generation away."""
        self._lanes.close()
        if self._new is None:
            return
        self._new.close()
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
