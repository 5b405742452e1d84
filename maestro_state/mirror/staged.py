"""The tree that a change is written into before it is made: a whole generation, or what waits beside the archive."""

from __future__ import annotations

from collections.abc import Callable, Collection

from maestro_state.errors import ArchiveFailed, MaestroError
from maestro_state.fs.handles import Folder
from maestro_state.fs.tree import Tree
from maestro_state.mirror.home import STAGING, Home, kept_name
from maestro_state.mirror.layouts import session as layout


class Staged:
    """One such tree."""

    def __init__(self, sessions: Folder, name: str, folders: Collection[str] = ()) -> None:
        self.name = name
        self._sessions = sessions
        with sessions.child(STAGING, create=True) as staging:
            self.tree = Tree(staging.child(name, create=True))
        for folder in folders:
            self.tree.folder(folder)

    def reopen(self) -> Tree:
        """Open it again by its name, for handles of one's own."""
        with self._sessions.child(STAGING) as staging:
            return Tree(staging.child(self.name))

    def check(self, folders: Collection[str], manifest: bytes) -> None:
        """Look again, by the name that will be used, at the manifest and every folder; ArchiveFailed when that is not
        what was written.
        """
        try:
            with self.reopen() as tree:
                for folder in folders:
                    tree.folder(folder, create=False)
                is_as_written = tree.read(layout.MANIFEST, limit=layout.JSON_LIMIT) == manifest
        except (FileNotFoundError, MaestroError):
            is_as_written = False
        if not is_as_written:
            raise ArchiveFailed(
                f"{self.tree.root.path} does not hold what was written to it", hint="maestro session sync"
            )

    def remove(self) -> None:
        """Throw it away."""
        self.tree.close()
        with self._sessions.child(STAGING) as staging:
            staging.remove_tree(self.name)


def put_in_place(
    home: Home, sessions: Folder, session_id: str, staged: str, *, is_foreign: Callable[[str], bool], to_trash: bool
) -> str | None:
    """Swap a generation in, under the session's lock; return where the replaced one is, if it went to the trash.

    What others put into that one meanwhile is taken over: `is_foreign` tells.
    """
    if to_trash:
        # Named for it before: killed in between, the replaced one must not be taken for what a killed writer left.
        with sessions.child(STAGING) as staging:
            staging.move(staged, kept_name(staged))
        staged = kept_name(staged)
    replaced = home.swap(sessions, session_id, staged)
    if replaced is None:
        return None
    with sessions.child(STAGING) as staging:
        with Tree(staging.child(replaced)) as before, Tree(sessions.child(session_id)) as present:
            late = [path for path in before.walk() if is_foreign(path) and present.status(path) is None]
            for path in late:
                present.link(path, before, path)
            if late:
                present.sync(late, [])
        if to_trash:
            return home.put_into_trash(staging, replaced, session_id)
        staging.remove_tree(replaced)
        return None
