"""Which folder a command works in: the checkout it stands in, and the project that worktrees of a repository share."""

from __future__ import annotations

import os
import stat

from maestro_state.errors import UsageError
from maestro_state.fs.opening import open_path

#: Longest of the one-line files by which git links a worktree to its repository.
_LINK_MAX = 8192

#: Folders of other programs' layouts, or of ours, that make a folder a project without `.maestro/`.
_KEPT = ("docs/sessions", "docs/maestro")


def find_checkout(start: str | os.PathLike[str]) -> str:
    """Return the nearest parent with `.maestro/` or that is a worktree, else the git root, else the folder itself.

    Of a folder above, only one's own `.maestro/` counts, and none in a place that is everybody's (`/`, `/tmp`): there
    it is an accident, or somebody's way to get what is written in every project below. A repository that is the user's
    whole home, or the whole system, does not make every folder below a part of it.
    """
    try:
        start = os.path.realpath(start)
    except FileNotFoundError:
        raise UsageError("the folder you are in is not there any more", hint="cd into one that is") from None
    if not os.path.isdir(start):
        raise UsageError(f"{start} is not a folder", hint="maestro --project DIR …")
    candidates = [start]
    while (parent := os.path.dirname(candidates[-1])) != candidates[-1]:
        candidates.append(parent)
    for folder in candidates:
        if os.path.lexists(path := os.path.join(folder, ".maestro")) and (folder == start or _counts_above(path)):
            return folder
        if main_of(folder) is not None:
            return folder
    for folder in candidates:
        if os.path.lexists(os.path.join(folder, ".git")) and not is_too_wide(folder):
            return folder
    return start


def _counts_above(path: str) -> bool:
    """Tell whether a `.maestro` is this user's, in a folder that is not everybody's."""
    folder = os.path.dirname(path)
    try:
        is_shared = folder == "/" or bool(os.stat(folder).st_mode & stat.S_IWOTH)
        return not is_shared and os.lstat(path).st_uid == os.geteuid()
    except OSError:
        return False


def is_too_wide(folder: str) -> bool:
    """Tell whether a folder is the user's home or the whole system: never a project by accident."""
    return folder in ("/", os.path.realpath(os.path.expanduser("~")))


def is_begun(folder: str) -> bool:
    """Tell whether there is something of a project in a folder; a home with documents in it is not begun by them."""
    if os.path.lexists(os.path.join(folder, ".maestro")):
        return True
    return not is_too_wide(folder) and any(os.path.isdir(os.path.join(folder, name)) for name in _KEPT)


def home_of(checkout: str) -> str:
    """Return the folder whose server, sessions and archive a checkout uses: the main one's for a worktree.

    A worktree that has a server of its own, from before they were shared, goes on with it.
    """
    if os.path.lexists(os.path.join(checkout, ".maestro", "server")):
        return checkout
    return main_of(checkout) or checkout


def main_of(folder: str) -> str | None:
    """Return the main checkout of the repository that a folder is a linked worktree of; None when it is none.

    Both sides have to say so: an untrusted folder may name any repository, but no repository of ours
    names that folder.
    """
    link = os.path.join(folder, ".git")
    if not os.path.isfile(link) or os.path.islink(link):
        return None
    said = _line(link)
    if not said.startswith("gitdir: "):
        return None
    private = os.path.realpath(os.path.join(folder, said.removeprefix("gitdir: ")))
    back, common = _line(os.path.join(private, "gitdir")), _line(os.path.join(private, "commondir"))
    if not back or not common or os.path.realpath(os.path.join(private, back)) != os.path.realpath(link):
        return None
    repository = os.path.realpath(os.path.join(private, common))
    if os.path.basename(repository) != ".git" or os.path.dirname(private) != os.path.join(repository, "worktrees"):
        return None  # of a bare repository: there is no main checkout
    return os.path.dirname(repository)


def _line(path: str) -> str:
    """Read one of git's one-line files; empty when there is none."""
    try:
        descriptor = open_path(path)
    except OSError:
        return ""
    try:
        return os.fsdecode(os.read(descriptor, _LINK_MAX)).strip()
    except OSError:
        return ""
    finally:
        os.close(descriptor)
