"""From the arguments of `context add` to what is added: texts, named files, and what folders and globs lead to."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from typing import NamedTuple

from maestro_state.context.listing import list_folder
from maestro_state.context.reading import Place, Tree, check_file
from maestro_state.errors import ContentTooLarge, InvalidValue, PathNotFound, PathRefused
from maestro_state.models.context import Skipped

#: A word with something like a file extension at its end.
_EXTENSION = re.compile(r"\S*\.[A-Za-z][A-Za-z0-9]{0,7}", re.ASCII)


class File(NamedTuple):
    """A file that is to be added."""

    place: Place
    is_named: bool  #: by an argument of its own: trouble with it is an error, not a note


class Choice(NamedTuple):
    """What the arguments mean, in their order."""

    entries: list[File | bytes]
    skipped: list[Skipped]


def is_path_like(text: str) -> bool:
    """Tell whether a text that names no file was probably meant to name one."""
    if text.startswith(("./", "../", "/", "~/")):
        return "\n" not in text
    return bool(text) and not re.search(r"\s", text) and ("/" in text or _EXTENSION.fullmatch(text) is not None)


def _has_magic(text: str) -> bool:
    return any(char in text for char in "*?[")


def choose(
    tree: Tree, arguments: Iterable[str | bytes], *, folder: str, kind: str | None, follow: bool, limit: int
) -> Choice:
    """Sort the arguments into texts and files; look at every named file before anything is read.

    Bytes are a text as they are. `kind` file or text says what all others are. Raises PathNotFound, PathRefused and
    ContentTooLarge for named files; what folders and globs lead to is skipped, with the reason, instead.
    """
    choosing = _Choosing(tree, folder, follow=follow, limit=limit)
    for argument in arguments:
        if isinstance(argument, bytes):
            choosing.entries.append(argument)
        elif kind == "text":
            choosing.entries.append(os.fsencode(argument))
        else:
            choosing.take(argument, must_be_file=kind == "file")
    return Choice(choosing.entries, choosing.skipped)


class _Choosing:
    def __init__(self, tree: Tree, folder: str, *, follow: bool, limit: int) -> None:
        self._tree, self._folder, self._follow, self._limit = tree, folder, follow, limit
        self._seen: set[str] = set()
        self.entries: list[File | bytes] = []
        self.skipped: list[Skipped] = []

    def take(self, argument: str, *, must_be_file: bool) -> None:
        """Sort one argument."""
        if not argument:
            raise InvalidValue("an argument is empty")
        is_path = must_be_file or is_path_like(argument)
        if "\0" not in argument and os.path.lexists(os.path.join(self._folder, argument)):
            self._take_path(argument)
        elif is_path and _has_magic(argument) and "\0" not in argument:
            self._take_glob(argument)
        elif is_path:
            raise PathNotFound(f"there is no file {argument[:200]}", hint="--text if it is a text")
        else:
            self.entries.append(os.fsencode(argument))

    def _take_path(self, argument: str) -> None:
        place = self._tree.place(self._folder, argument, follow=self._follow)
        status = self._tree.status(place)
        if not stat.S_ISDIR(status.st_mode):
            check_file(place.path_rel, status, self._limit)
            self._add(File(place, is_named=True))
            return
        if place.is_outside:
            raise PathRefused(f"{argument} is a link to a folder outside the project", hint="--follow takes files only")
        self._add_all(list_folder(self._tree, place.real), argument)

    def _take_glob(self, argument: str) -> None:
        from maestro_state.context.patterns import Glob

        names = argument.split("/")
        at = next(index for index, name in enumerate(names) if _has_magic(name))
        base, pattern = "/".join(names[:at]) or ("/" if argument.startswith("/") else "."), names[at:]
        if not os.path.isdir(os.path.join(self._folder, base)):
            raise PathNotFound(f"nothing fits {argument[:200]}", hint="--text if it is a text")
        place = self._tree.place(self._folder, base, follow=False)
        glob, above = Glob("/".join(pattern)), 0 if place.real == "." else len(place.real) + 1
        self._add_all([path for path in list_folder(self._tree, place.real) if glob.fits(path[above:])], argument)

    def _add_all(self, paths: list[str], argument: str) -> None:
        """Add what a folder or glob led to, as far as it can be added."""
        found = 0
        for path in paths:
            place = Place(path, path, is_outside=False)
            try:
                status = self._tree.status(place)
                if stat.S_ISLNK(status.st_mode):
                    raise PathRefused("a link; name it to add it")
                check_file(path, status, self._limit)
                path.encode()
            except PathNotFound:
                continue  # git still lists what was deleted but not committed
            except ContentTooLarge:
                self._skip(path, f"larger than {self._limit} bytes")
                continue
            except UnicodeEncodeError:
                self._skip(ascii(path), "the name is not UTF-8")
                continue
            except PathRefused as refused:
                self._skip(path, "not a regular file" if "regular" in str(refused) else str(refused))
                continue
            found += 1
            self._add(File(place, is_named=False))
        if not found and not self.skipped:
            raise PathNotFound(f"{argument[:200]} leads to no file that is not ignored", hint="--file PATH names one")

    def _add(self, file: File) -> None:
        if file.place.path_rel not in self._seen:
            self._seen.add(file.place.path_rel)
            self.entries.append(file)

    def _skip(self, path: str, reason: str) -> None:
        self.skipped.append(Skipped(path, reason))
