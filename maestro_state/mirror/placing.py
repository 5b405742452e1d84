"""A finished generation takes the present one's place; that one goes away, or to the trash."""

from __future__ import annotations

from collections.abc import Callable

from maestro_state.fs.handles import Folder
from maestro_state.fs.tree import Tree
from maestro_state.mirror.home import STAGING, Home


def put_in_place(
    home: Home, sessions: Folder, session_id: str, staged: str, *, is_foreign: Callable[[str], bool], to_trash: bool
) -> str | None:
    """Swap a generation in, under the session's lock; return where the replaced one is, if it went to the trash.

    What others put into that one meanwhile is taken over: `is_foreign` tells.
    """
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
