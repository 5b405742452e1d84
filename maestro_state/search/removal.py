"""Taking sessions out of the cache at once: what was deleted must not lie on in it until the next search."""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress

from maestro_state.errors import MaestroError
from maestro_state.local.project import Project


def forget(project: Project, session_ids: Collection[str]) -> None:
    """Take sessions out of the cache, if there is one; one that cannot be changed is only a cache.

    What still has an archive is read anew by the next search.
    """
    if not session_ids or not os.path.lexists(os.path.join(project.path, ".maestro", "cache", "search.db")):
        return
    import sqlite3  # only where there is something to do

    from maestro_state.search.opening import FILES, FOLDER, open_store
    from maestro_state.search.store import SCAN

    try:
        with open_store(project, os.environ) as store, store.changing():
            with store.transaction():
                store.erase(session_ids)
                store.note(SCAN, "")
            store.shed()
    except TimeoutError:  # whoever changes it does not let go: in a cache that is gone nobody finds anything
        with suppress(OSError, MaestroError), project.folder(FOLDER) as folder:
            for name in FILES:
                folder.remove(name)
    except (OSError, MaestroError, sqlite3.Error):
        return
