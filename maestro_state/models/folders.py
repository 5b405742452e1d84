"""Folders of one machine that another one has elsewhere: `MAESTRO_PATHS`. Pure.

A folder is mapped if it is one of the named ones, or below: compared name by name, so that `/home/ana/shop` says
nothing of `/home/ana/shopping`. A path with `..` is never mapped: where that leads, only its own machine knows.
"""

from __future__ import annotations

#: The folder of whoever asks for a run → the one of this machine.
FolderMap = dict[str, str]

#: How such a map is written.
FORM = "/home/ana/shop=/projects/shop, more of them after a ':'; absolute paths without '..'"


def parse_folders(text: str) -> FolderMap:
    """Read a map; ValueError with what is wrong."""
    found: FolderMap = {}
    for pair in text.split(":"):
        asked, separator, here = pair.strip().partition("=")
        if not separator or "=" in here:
            raise ValueError(f"'{pair[:80]}' is not ASKED=HERE")
        for path in (asked, here):
            if not path.startswith("/") or not path.isprintable() or ".." in path.split("/"):
                raise ValueError(f"'{path[:80]}' is not an absolute path without '..'")
        asked = _tidy(asked)
        if asked in found:
            raise ValueError(f"'{asked[:80]}' is mapped twice")
        found[asked] = _tidy(here)
    return found


def mapped(folders: FolderMap, folder: str) -> tuple[str, str] | None:
    """Return where a folder is on this machine, after the mapped folder that it is in; None when the map says nothing
    of it. The longest name counts.
    """
    names = _names(folder)
    if names is None:
        return None
    for count in range(len(names), -1, -1):
        root = folders.get("/" + "/".join(names[:count]))
        if root is not None:
            return root, "/".join([root.rstrip("/"), *names[count:]]) or "/"
    return None


def is_below(folder: str, above: str) -> bool:
    """Tell whether a folder is another one, or below it, by their names alone."""
    names, others = _names(folder), _names(above)
    return names is not None and others is not None and names[: len(others)] == others


def _names(path: str) -> list[str] | None:
    names = [name for name in path.split("/") if name not in ("", ".")]
    return None if not path.startswith("/") or ".." in names else names


def _tidy(path: str) -> str:
    return "/" + "/".join(name for name in path.split("/") if name not in ("", "."))
