"""What a folder in place says it is: its manifest, or, where another program wrote it, a description."""

from __future__ import annotations

import stat

from maestro_state.errors import MaestroError, NewerFormat
from maestro_state.fs.entry import FileEntry
from maestro_state.fs.tree import Tree
from maestro_state.mirror.layouts import session as layout


def described(tree: Tree, session_id: str) -> layout.Manifest:
    """Describe the archive of another program; what is exported is not part of it.

    Nor is a maestro.json that it may have: listed in a manifest, it would be taken for this program's.
    """
    files, ours = {}, (layout.MANIFEST, layout.RECORD)
    for path in tree.walk():
        if not path.startswith("exports/") and path not in ours and (entry := _regular(tree, path)):
            files[path] = entry
    return layout.Manifest(
        format=layout.FORMAT, session_id=session_id, generation=0, written_at="", last_id="", files=files
    )


def _regular(tree: Tree, path: str) -> FileEntry | None:
    status = tree.status(path)
    return tree.entry(path) if status and stat.S_ISREG(status.st_mode) else None


def read_manifest(tree: Tree, session_id: str) -> layout.Manifest | None:
    """Read a folder's manifest; None when there is none, or it is damaged: then nothing in there is trusted."""
    try:
        content = tree.read(layout.MANIFEST, limit=layout.JSON_LIMIT)
        return None if content is None else layout.decode_manifest(content, session_id)
    except NewerFormat:
        raise  # not damaged: what it says may mean something else
    except MaestroError:
        return None
