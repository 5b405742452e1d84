"""The tree that a generation is built in: the spare, which has nearly everything, else an empty folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Mapping

from maestro_state.errors import FileCorrupt
from maestro_state.fs.entry import FileEntry
from maestro_state.fs.handles import Folder
from maestro_state.fs.tree import Tree
from maestro_state.mirror.home import STAGING, staged_name
from maestro_state.mirror.layouts import session as layout
from maestro_state.mirror.spare import Ledger, Spares, Stamps, by_place, stamps_of


class Staged:
    """One such tree, under a name that was never used before."""

    def __init__(
        self, sessions: Folder, session_id: str, present: Tree | None, manifest: layout.Manifest | None
    ) -> None:
        """Take the session's spare if it fits the present generation, and has been left alone; else make a folder."""
        self.name = staged_name(session_id)
        self._sessions = sessions
        self.session_id = session_id
        self._ledger: Ledger | None = None
        #: Folders of the spare in which something is changed here, each looked at before.
        self._touched: set[str] = set()
        #: When names in the present generation last came and went; None when that is not known of every folder.
        self.stamps: Stamps | None = None
        with sessions.child(STAGING, create=True) as staging:
            if present and manifest:
                spares = Spares(sessions)
                self._ledger, self.stamps = spares.take(session_id, manifest, present, staging, self.name)
            self.tree = Tree(staging.child(self.name, create=True))
        if self._ledger is None:
            for name in layout.FOLDERS:
                self.tree.folder(name)

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing was there to begin with."""
        return self._ledger is None

    @property
    def strangers(self) -> set[str]:
        """What others put into the present generation and is here too."""
        return self._ledger.strangers if self._ledger else set()

    def lacks(self, files: dict[str, FileEntry]) -> set[str]:
        """Return which files of the present generation are not here as they are there."""
        return set(files) if self._ledger is None else self._ledger.differ & files.keys()

    def make_way(self, path: str, *, to_write: bool = False) -> None:
        """Take away what is under a path; to write there, a file that nobody else has a name for may stay: writing over
        it costs less than removing it and making another.
        """
        if self._ledger is None:
            return
        self._touch(path.rpartition("/")[0])
        status = self.tree.status(path)
        if status is not None and not (to_write and _may_be_written_over(status)):
            self.tree.remove(path)

    def _touch(self, folder: str) -> None:
        """Look at a folder before the first change: afterwards its time says nothing about what others did."""
        if folder in self._touched or self._ledger is None:
            return
        self._touched.add(folder)
        above, _, name = folder.rpartition("/")
        left = self._ledger.spare.get(above, {}).get(name)
        if left is None:
            self._touch(above)  # it will be made
        elif stamps_of(self.tree, {above: [name]}) != {above: {name: left}}:
            raise self._damaged()

    def leave_only(self, files: dict[str, FileEntry], present: dict[str, FileEntry]) -> None:
        """Take away what the spare has of ours beyond these files."""
        if self._ledger is not None:
            for path in (present.keys() | self._ledger.differ) - files.keys():
                if self.tree.status(path) is not None:
                    self.make_way(path)

    def reopen(self) -> Tree:
        """Open it again by its name, for handles of one's own."""
        with self._sessions.child(STAGING) as staging:
            return Tree(staging.child(self.name))

    def look(self, manifest: layout.Manifest, encoded: bytes) -> Stamps | None:
        """Look again, by the names that will be swapped in, at what says what all the others are, and every folder;
        None when that is not what was written. Raises FileCorrupt when others changed the spare.
        """
        with self.reopen() as tree:
            stamps = stamps_of(tree, self._folders(manifest))
            if stamps is None or tree.read(layout.MANIFEST, limit=layout.JSON_LIMIT) != encoded:
                return None
        for above, left in self._ledger.spare.items() if self._ledger else ():
            changed = [name for name, time in left.items() if stamps[above][name] != time]
            if any((f"{above}/{name}" if above else name) not in self._touched for name in changed):
                raise self._damaged()
        return stamps

    def _folders(self, manifest: layout.Manifest) -> Mapping[str, Collection[str]]:
        """Return every folder there should be."""
        if self._ledger is None:
            return by_place(layout.folders_of(manifest.files))
        spare = self._ledger.spare
        touched = by_place(self._touched)
        return {above: {*spare.get(above, ()), *touched.get(above, ())} for above in spare.keys() | touched.keys()}

    def _damaged(self) -> FileCorrupt:
        return FileCorrupt(f"the spare of {self.session_id} is not as it was left")

    def remove(self) -> None:
        """Throw it away."""
        self.tree.close()
        with self._sessions.child(STAGING) as staging:
            staging.remove_tree(self.name)


def _may_be_written_over(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and bool(status.st_mode & stat.S_IWUSR)
