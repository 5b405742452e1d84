"""A finished generation takes the present one's place; that one goes aside, to the trash, or away."""

from __future__ import annotations

from collections.abc import Callable

from maestro_state.archive.home import STAGING, Home
from maestro_state.archive.spare import Ledger, Spares, Stamps, stamps_of
from maestro_state.archive.staged import Staged
from maestro_state.archive.tree import Tree
from maestro_state.disk import Folder


class Placing:
    """One such change of places; the session's lock is held."""

    def __init__(self, home: Home, sessions: Folder, staged: Staged, is_strange: Callable[[str], bool]) -> None:
        """Take what was built, and what tells others' files from ours."""
        self._home = home
        self._sessions = sessions
        self._staged = staged
        self._is_strange = is_strange

    def put(self, stamps: Stamps | None, ledger: Ledger | None, *, to_trash: bool) -> str | None:
        """Swap it in. With a ledger the replaced one is kept as the spare, if its stamps are what they were; else it
        goes to the trash, and where it is there is returned, or away.
        """
        session_id, spares = self._staged.session_id, Spares(self._sessions)
        if self._staged.is_empty:
            spares.discard(session_id)  # there may be one that could not be built on
        replaced = self._home.swap(self._sessions, session_id, self._staged.name)
        if replaced is None:
            return None
        with self._sessions.child(STAGING) as staging:
            is_as_it_was = not self._take_late(staging, replaced, stamps)
            if is_as_it_was and ledger and spares.keep(session_id, staging, replaced, ledger):
                return None
            spares.discard(session_id)
            if to_trash:
                return self._home.put_into_trash(staging, replaced, session_id)
            staging.remove_tree(replaced)
            return None

    def _take_late(self, staging: Folder, replaced: str, stamps: Stamps | None) -> bool:
        """Take over what somebody put into the replaced generation while this one was built; tell whether a name came
        or went there.
        """
        with Tree(staging.child(replaced)) as before:
            if stamps and stamps_of(before, stamps) == stamps:
                return False
            with Tree(self._sessions.child(self._staged.session_id)) as present:
                late = [path for path in before.walk() if self._is_strange(path) and present.status(path) is None]
                for path in late:
                    present.link(path, before, path)
                if late:
                    present.sync(late, [])
        return True
