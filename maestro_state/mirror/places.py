"""Which home a session's archive belongs in: the project it was started in, or a team's root folder."""

from __future__ import annotations

import os
from collections.abc import Iterator

from maestro_state.errors import AmbiguousReference, ArchiveElsewhere, ArchiveFailed
from maestro_state.fs.handles import Folder
from maestro_state.local.project import IndexRow, Project
from maestro_state.mirror.home import Home, is_team_folder
from maestro_state.models.names import pick


class Places:
    """The homes this program may write to and read from."""

    def __init__(self, project: Project, archive_root: str | None) -> None:
        self.project = project
        self._root = archive_root
        self.own = self._team(project.path) if self._root else Home.of_project(project)

    def index_rows(self) -> list[IndexRow]:
        """Return what the archives say of their sessions, for an index to be rebuilt."""
        from maestro_state.mirror.reader import index_rows  # msgspec's readers: only for an index to be rebuilt

        return index_rows(self.project, self.own)

    def _team(self, project: str) -> Home:
        if self._root is None:
            raise ArchiveFailed("there is no MAESTRO_ARCHIVE_ROOT")
        return Home.of_team(self._root, project)

    def is_own(self, project: str | None) -> bool:
        """Tell whether a session belongs to this checkout."""
        return project is None or project == self.project.path

    def of(self, session_id: str, project: str | None) -> Home:
        """Return where a session's archive belongs.

        What a server says about paths is not obeyed: without a team's root only this checkout is written to.
        """
        if self._root:
            if not os.access(self._root, os.W_OK | os.X_OK):
                raise ArchiveElsewhere(f"{self._root} cannot be written here", hint="is MAESTRO_ARCHIVE_ROOT mounted?")
            return self._team(project or self.project.path)
        if not self.is_own(project):
            raise ArchiveElsewhere(
                f"session {session_id} belongs to another checkout ({str(project)[:200]})",
                hint="run maestro sweep there, or set MAESTRO_ARCHIVE_ROOT",
            )
        return self.own

    def find(self, ref: str) -> tuple[Home, str]:
        """Find an archived session by id, slug or suffix in every home within reach; raises SessionNotFound."""
        found: dict[str, Home] = {}
        for home in self.homes():
            for session_id in home.ids():
                found.setdefault(session_id, home)
        try:
            session_id = pick(ref, sorted(found))
        except AmbiguousReference:
            from maestro_state.mirror.bindings import latest_of

            if latest := latest_of(self.homes(), ref):
                return latest
            raise
        return found[session_id], session_id

    def files(self, session_id: str, folder: str) -> list[str]:
        """Return the paths of a session's files below a folder, as the last checkpoint wrote them."""
        from maestro_state.mirror.reader import ArchivedSession

        return ArchivedSession(self.own, session_id).files(folder)

    def homes(self) -> Iterator[Home]:
        """Yield every home within reach, this checkout's first: with a team's root, those of all its projects."""
        yield self.own
        if self._root is None:
            return
        with Folder.open(self._root) as root:
            names = [name for name, kind in sorted(root.kinds().items()) if kind == "folder" and is_team_folder(name)]
        for name in names:
            if (home := Home.below(self._root, name)).path != self.own.path:
                yield home
