"""A finished generation takes the present one's place; that one goes aside, to the trash, or away."""

from __future__ import annotations

from collections.abc import Callable

from maestro_state.fs.handles import Folder
from maestro_state.fs.tree import Tree
from maestro_state.mirror.home import STAGING, Home
from maestro_state.mirror.spare import Ledger, Spares, Stamps, stamps_of
from maestro_state.mirror.staged import Staged


def put_in_place(
    home: Home,
    sessions: Folder,
    staged: Staged,
    *,
    is_strange: Callable[[str], bool],
    stamps: Stamps | None,
    ledger: Ledger | None,
    to_trash: bool,
) -> str | None:
    """Swap a generation in, under the session's lock.

    With a ledger the replaced one is kept as the spare, if its stamps are what they were; else it goes away, or to the
    trash, and where it is there is returned. What others put into it meanwhile is taken over: `is_strange` tells.
    """
    session_id, spares = staged.session_id, Spares(sessions)
    if staged.is_empty:
        spares.discard(session_id)  # there may be one that could not be built on
    replaced = home.swap(sessions, session_id, staged.name)
    if replaced is None:
        return None
    with sessions.child(STAGING) as staging:
        with Tree(staging.child(replaced)) as before, Tree(sessions.child(session_id)) as present:
            is_as_it_was = stamps is not None and stamps_of(before, stamps) == stamps
            if not is_as_it_was:
                _take_late(before, present, is_strange)
        if is_as_it_was and ledger and spares.keep(session_id, staging, replaced, ledger):
            return None
        spares.discard(session_id)
        if to_trash:
            return home.put_into_trash(staging, replaced, session_id)
        staging.remove_tree(replaced)
        return None


def _take_late(before: Tree, present: Tree, is_strange: Callable[[str], bool]) -> None:
    """Take over what somebody put into the replaced generation while the new one was built."""
    late = [path for path in before.walk() if is_strange(path) and present.status(path) is None]
    for path in late:
        present.link(path, before, path)
    if late:
        present.sync(late, [])
