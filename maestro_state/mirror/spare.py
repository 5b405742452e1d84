"""The generation before the present one, kept to build the next one on: two trees that take turns.

Linking a thousand unchanged files anew costs far more than what changed since. A spare is used only if it is provably
as it was left: neither in it nor in the present generation has a name come or gone since, which every folder's time of
change tells. It is moved away before it is touched, so a kill leaves no half-changed one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping

import msgspec

from maestro_state.errors import MaestroError, WorkFailed
from maestro_state.fs.handles import Folder
from maestro_state.fs.tree import Tree
from maestro_state.mirror.layouts import session as layout
from maestro_state.models.names import is_session_id

#: The folder spares are in: hidden and git-ignored, beside the sessions.
SPARES = ".spare"
#: Seconds after which a spare that was not used costs more room than it is worth.
STALE_S = 3600.0

#: Folder → those in it, the top one in itself by an empty name → when a name in one last came or went, in nanoseconds.
Stamps = dict[str, dict[str, int]]


class Ledger(msgspec.Struct, frozen=True):
    """What a spare was left with."""

    digest: str  #: of the present generation's manifest
    differ: set[str]  #: our files that the spare does not have as the present generation has them
    strangers: set[str]  #: files of others, which must be the same in both: else what somebody writes to one is lost
    present: Stamps
    spare: Stamps


_decode = msgspec.json.Decoder(Ledger).decode


def by_place(folders: Iterable[str]) -> dict[str, list[str]]:
    """Return the names of folders by the folder they are in."""
    places: dict[str, list[str]] = {}
    for path in folders:
        above, _, name = path.rpartition("/")
        places.setdefault(above, []).append(name)
    return places


def stamps_of(tree: Tree, folders: Mapping[str, Iterable[str]]) -> Stamps | None:
    """Return the stamps of folders of a generation; None when one is missing or none."""
    try:
        return {above: tree.folder(above, create=False).times(names) for above, names in folders.items()}
    except (FileNotFoundError, NotADirectoryError, MaestroError):
        return None


class Spares:
    """The spares of one home; a session's are touched under its lock only."""

    def __init__(self, sessions: Folder) -> None:
        """Take the folder of sessions."""
        self._sessions = sessions

    def _folder(self, *, create: bool = False) -> Folder | None:
        """Open the folder of spares; None when there is none, or a link or a file is in its place: spares only save
        time, so nothing fails for want of them.
        """
        try:
            return self._sessions.child(SPARES, create=create)
        except (FileNotFoundError, WorkFailed):
            return None

    def take(
        self, session_id: str, manifest: layout.Manifest, present: Tree, target: Folder, name: str
    ) -> tuple[Ledger | None, Stamps | None]:
        """Move a session's spare out of the way under a name, to be built on; return what it was left with, and the
        stamps of the present generation.

        No ledger when there is no spare, or it cannot be trusted: then it is gone. Its inner folders are looked at by
        whoever builds on it.
        """
        folder = self._folder()
        if folder is not None:
            with folder:
                ledger = self._ledger(folder, session_id, present)
                if ledger and ledger.digest == manifest.digest and stamps_of(present, ledger.present) == ledger.present:
                    folder.move(session_id, name, into=target)  # without it its ledger says nothing
                    return ledger, ledger.present
            self.discard(session_id)
        return None, stamps_of(present, by_place(layout.folders_of(manifest.files)))

    def _ledger(self, folder: Folder, session_id: str, present: Tree) -> Ledger | None:
        """Read what a spare was left with; None when its outer folders, or others' files, are not as they were then."""
        try:
            content = folder.read(f"{session_id}.json", limit=layout.JSON_LIMIT)
            if content is None or layout.is_dense(content):
                return None
            ledger = _decode(content)
            outer = {path: names for path, names in ledger.spare.items() if path != "runs"}
            with folder.child(session_id) as place, Tree(place) as tree:
                is_untouched = stamps_of(tree, outer) == outer and all(
                    _is_one_file(tree.status(path), present.status(path)) for path in ledger.strangers
                )
        except (FileNotFoundError, MaestroError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        return ledger if is_untouched else None

    def keep(self, session_id: str, source: Folder, name: str, ledger: Ledger) -> bool:
        """Keep a generation that was just replaced, by the name it has in a folder; tell whether that was possible."""
        folder = self._folder(create=True)
        if folder is None:
            return False
        with folder:
            source.move(name, session_id, into=folder)
            folder.replace(f"{session_id}.json", msgspec.json.encode(ledger), durable=False)
        return True

    def discard(self, session_id: str) -> None:
        """Remove a session's spare, if there is one."""
        folder = self._folder()
        if folder is None:
            return
        with folder:
            for name in (f"{session_id}.json", session_id):
                folder.remove_tree(name)  # whatever it is; a link is removed itself, never followed

    def sweep(self) -> list[str]:
        """Remove the spares of sessions that are gone or have been quiet for a while; one in use is left alone."""
        removed: list[str] = []
        folder = self._folder()
        if folder is None:
            return removed
        with folder:
            names = folder.names()
        for session_id in sorted({name.removesuffix(".json") for name in names}):
            if not is_session_id(session_id):
                continue
            with self._sessions.try_locked(f".{session_id}.lock") as held:
                if held is not None and self._is_stale(session_id):
                    self.discard(session_id)
                    removed.append(f"{SPARES}/{session_id}")
        return removed

    def _is_stale(self, session_id: str) -> bool:
        if self._sessions.status(session_id) is None:
            return True
        folder = self._folder()
        if folder is None:
            return False
        with folder:
            ledger = folder.status(f"{session_id}.json")
        # A clock that was set back makes it look new, one set forward old: either way only room is at stake.
        return ledger is None or time.time() - ledger.st_mtime > STALE_S


def _is_one_file(one: os.stat_result | None, other: os.stat_result | None) -> bool:
    return one is not None and other is not None and (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
