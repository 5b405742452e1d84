"""Whether a file now differs from the snapshot that an item of context holds of it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable

import msgspec

from maestro_state.clock import from_iso
from maestro_state.context.reading import Tree
from maestro_state.errors import NotFound, UsageError, WorkFailed
from maestro_state.models.context import ContextItem, ListedItem

SAME, CHANGED, MISSING = "same", "changed", "missing"

#: A file changed within this time of its snapshot may have changed twice in one tick of its clock, in milliseconds.
_RACY_MS = 2000


def with_drift(root: str | os.PathLike[str], items: Iterable[ContextItem]) -> list[ListedItem]:
    """Return the items, each file with how it compares now. Reads a file only when its clock does not tell."""
    with Tree(root) as tree:
        return [
            msgspec.convert(msgspec.to_builtins(item) | {"drift": drift_of(tree, item)}, ListedItem) for item in items
        ]


def drift_of(tree: Tree, item: ContextItem) -> str | None:
    """Return same, changed or missing; None for what is no file."""
    if item.kind != "file":
        return None
    source = item.source
    try:
        place = tree.place(tree.root, str(source.get("path_rel")), follow=True)
        status = tree.status(place)
        if status.st_size != source.get("size"):
            return CHANGED
        if _clock_tells(item, status):
            return SAME
        content = tree.read(place, status.st_size)
    except NotFound:
        return MISSING
    except (UsageError, WorkFailed):
        return CHANGED  # something is there, and it is not that file any more
    return SAME if hashlib.sha256(content.data).hexdigest() == item.snapshot.digest else CHANGED


def _clock_tells(item: ContextItem, status: os.stat_result) -> bool:
    try:
        recorded, added = from_iso(item.source["mtime"]), from_iso(item.source["added_at"])
    except (KeyError, TypeError, ValueError):
        return False  # written by another program, which need not keep them
    return status.st_mtime_ns // 1_000_000 == recorded and recorded + _RACY_MS < added
