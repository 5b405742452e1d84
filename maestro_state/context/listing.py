"""Which files a folder holds: what git would list, or the same by reading `.gitignore` where git is not."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator
from typing import TYPE_CHECKING

from maestro_state.context.reading import OWN_FOLDERS, PRIVATE, Place, Tree
from maestro_state.errors import MaestroError, PathRefused, WorkFailed

if TYPE_CHECKING:
    from maestro_state.context.patterns import Rule  # its library is not needed where git lists

_REFUSED = (*PRIVATE, "..", ".", "")

#: How long git may take to list a folder, in seconds.
_GIT_SECONDS = 60

#: Largest `.gitignore` that is read, in bytes.
_RULES_MAX = 1 << 20

#: Deepest folder that is entered.
_DEPTH_MAX = 100

#: A repository's own configuration must not make git start programs.
_GIT = ("git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.quotePath=false")


def list_folder(tree: Tree, folder: str) -> list[str]:
    """Return the files below a folder of the project, relative to the project, in order; ignored ones left out."""
    prefix = "" if folder == "." else folder + "/"
    found = _by_git(os.path.join(tree.root, folder))
    if found is None:
        paths = set(_by_walking(tree, folder))
    else:
        # A repository's index may have been made by hand, to name what is not in it.
        paths = {prefix + name for name in found if not any(part in _REFUSED for part in name.split("/"))}
    return sorted(path for path in paths if not path.startswith(OWN_FOLDERS))


def _by_git(folder: str) -> list[str] | None:
    """Ask git; None when the folder is in no work tree, or there is no git."""
    if not _may_be_in_work_tree(folder):
        return None
    environment = {name: os.environ[name] for name in ("HOME", "XDG_CONFIG_HOME") if name in os.environ}
    path = os.pathsep.join(entry for entry in os.get_exec_path() if os.path.isabs(entry))
    environment |= {"PATH": path, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
    command = [*_GIT, "-C", folder, "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    try:
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=_GIT_SECONDS, check=False
        )
    except FileNotFoundError:
        return None
    except subprocess.TimeoutExpired as error:
        raise WorkFailed(f"git did not list {folder} within {_GIT_SECONDS} s") from error
    if done.returncode != 0:
        return None
    return [os.fsdecode(name) for name in done.stdout.split(b"\0") if name]


def _may_be_in_work_tree(folder: str) -> bool:
    """Look for what every work tree has at its top: without it there is no need to start git, which costs 10 ms."""
    above = os.path.realpath(folder)
    while not os.path.lexists(os.path.join(above, ".git")):
        if above == (above := os.path.dirname(above)):
            return False
    return True


def _by_walking(tree: Tree, folder: str) -> Iterator[str]:
    names: list[str] = [] if folder == "." else folder.split("/")
    yield from _walk(tree, names, [(depth, _rules(tree, names[:depth])) for depth in range(len(names) + 1)])


def _walk(tree: Tree, names: list[str], stack: list[tuple[int, list[Rule]]]) -> Iterator[str]:
    from maestro_state.context.patterns import is_ignored

    if len(names) > _DEPTH_MAX:
        raise PathRefused(f"{'/'.join(names[:5])}/… is more than {_DEPTH_MAX} folders deep")
    try:
        with os.scandir(os.path.join(tree.root, *names)) as entries:
            inside = sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return  # gone meanwhile, or not ours to read: git passes over it too
    for entry in inside:
        path = [*names, entry.name]
        is_folder = entry.is_dir(follow_symlinks=False)
        if entry.name in PRIVATE or is_ignored(stack, path, is_folder=is_folder):
            continue
        if is_folder:
            yield from _walk(tree, path, [*stack, (len(path), _rules(tree, path))])
        else:
            yield "/".join(path)


def _rules(tree: Tree, names: list[str]) -> list[Rule]:
    from maestro_state.context.patterns import parse_rules

    path = "/".join([*names, ".gitignore"])
    place = Place(path, path, is_outside=False)
    try:
        if not stat.S_ISREG(tree.status(place).st_mode):
            return []
        return parse_rules(tree.read(place, _RULES_MAX).data.decode("utf-8", "surrogateescape"))
    except MaestroError:
        return []
