"""The file mailbox of a work session: breadcrumbs that other programs put into its folder.

A file is only ever read here, and stays where it is; that each is taken once is decided where breadcrumbs are
accepted, by their ids. One that is no breadcrumb is set aside under `rejected/` with its reason beside it, but not
before it has been left alone for a while: it may still be on its way in.
"""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Iterator

import msgspec

from maestro_state.errors import InvalidValue, WorkFailed
from maestro_state.fs.handles import Folder
from maestro_state.mirror.layouts.session import pretty
from maestro_state.mirror.layouts.work import breadcrumb_files, decode_breadcrumb, opened
from maestro_state.models.undecodable import UNDECODABLE
from maestro_state.models.work import Breadcrumb
from maestro_state.models.work_names import BASE, BREADCRUMBS, REJECTED, WorkPath, file_stamp, is_depth

#: How long a file that is no breadcrumb must not have changed before it is set aside.
SETTLE_NS = 1_000_000_000

#: Ending of the note beside a file that was set aside.
_NOTE = ".reason"

Mark = tuple[int, int, int]  #: inode, size and time of change: what tells whether a file is still the same


class Delivery(msgspec.Struct, frozen=True):
    """A breadcrumb found in the mailbox."""

    source: str  #: the file, relative to the work session's folder
    breadcrumb: Breadcrumb
    is_own: bool  #: it is what Maestro itself would write there
    mark: Mark


class Rejected(msgspec.Struct, frozen=True):
    """A file that was not taken, and why."""

    source: str
    reason: str


class _Note(msgspec.Struct, frozen=True):
    """What lies beside a file that was set aside."""

    source: str
    reason: str
    depth: str = ""
    name: str = ""
    size: int = 0  #: in bytes, when it was set aside


class Outcome(msgspec.Struct, frozen=True):
    """What one consumption came to."""

    applied: int
    duplicates: int  #: breadcrumbs that were there a second time, in another file
    rejected: list[Rejected]


class Mailbox:
    """The mailbox of one work session, as one consumer sees it."""

    def __init__(self, root: str, path: WorkPath, *, limit: int) -> None:
        self.path = path
        self._root = root
        self._limit = limit
        self._done: dict[str, Mark] = {}
        self._watched: dict[str, tuple[Mark, int]] = {}
        self.rejected: list[Rejected] = []

    def deliveries(self, now_ns: int) -> Iterator[Delivery]:
        """Yield what is new; what is no breadcrumb goes to `rejected` or, still young, waits for the next time."""
        if (folder := opened(self._root, self.path)) is None:
            return
        seen = set()
        with folder:
            self._take_back(folder)
            for place, depth, name in breadcrumb_files(folder):
                seen.add(_source(depth, name))
                delivery = self._delivery(folder, place, depth, name, now_ns)
                if delivery is not None:
                    yield delivery
        self._watched = {source: known for source, known in self._watched.items() if source in seen}

    def took(self, delivery: Delivery) -> None:
        """Do not offer this file again unless it changes."""
        self._done[delivery.source] = delivery.mark

    def refuse(self, delivery: Delivery, reason: str) -> None:
        """Report a breadcrumb that could not be accepted; its file stays, for it is a breadcrumb."""
        self.took(delivery)
        self.rejected.append(Rejected(self._named(delivery.source), reason))

    @property
    def is_waiting(self) -> bool:
        """Tell whether there are files that may still be on their way in."""
        return bool(self._watched)

    def _delivery(self, folder: Folder, place: Folder, depth: str, name: str, now_ns: int) -> Delivery | None:
        source = _source(depth, name)
        status = place.status(name)
        if status is None:
            return None
        mark = (status.st_ino, status.st_size, status.st_mtime_ns)
        if self._done.get(source) == mark:
            return None
        try:
            if not stat.S_ISREG(status.st_mode):
                raise InvalidValue("not a file")
            if status.st_size > self._limit:
                raise InvalidValue(f"{status.st_size} bytes; at most {self._limit} are taken")
            content = place.read(name, limit=self._limit)
            if content is None:
                return None
            crumb = decode_breadcrumb(content, depth, name)
        except (InvalidValue, WorkFailed) as error:
            if self._has_settled(source, mark, now_ns):
                self._set_aside(folder, place, depth, name, str(error))
            return None
        self._watched.pop(source, None)
        is_own = name.startswith(file_stamp(crumb.timestamp)) and content == pretty(crumb.document())
        return Delivery(source, crumb, is_own, mark)

    def _has_settled(self, source: str, mark: Mark, now_ns: int) -> bool:
        """Tell whether a file has not changed for long enough, by its own clock or by ours."""
        known, since_ns = self._watched.get(source, (None, 0))
        if known != mark:
            # A clock of the future would make it wait for ever, so only the past counts here.
            since_ns = min(now_ns, mark[2])
            self._watched[source] = (mark, since_ns)
        return now_ns - since_ns >= SETTLE_NS

    def _set_aside(self, folder: Folder, place: Folder, depth: str, name: str, reason: str) -> None:
        source = _source(depth, name)
        with folder.child(REJECTED, create=True) as aside:
            target = _free_name(aside, f"{depth}-{name}")
            try:
                place.move(name, target, into=aside)
            except FileNotFoundError:
                return  # another consumer was faster
            status = aside.status(target)
            size = status.st_size if status else 0
            note = _Note(source=self._named(source), reason=reason, depth=depth, name=name, size=size)
            aside.replace(f"{target}{_NOTE}", pretty(note))
        self._watched.pop(source, None)
        self.rejected.append(Rejected(self._named(source), reason))

    def _take_back(self, folder: Folder) -> None:
        """Return what became a breadcrumb after all to its place: its writer paused for long, and went on."""
        try:
            aside = folder.child(REJECTED)
        except (FileNotFoundError, WorkFailed):
            return
        with aside:
            for noted in [name for name in aside.names() if name.endswith(_NOTE)]:
                name = noted.removesuffix(_NOTE)
                status = aside.status(name)
                try:
                    note = msgspec.json.decode(aside.read(noted, limit=1 << 16) or b"", type=_Note)
                    if status is None or status.st_size == note.size or not is_depth(note.depth):
                        continue
                    decode_breadcrumb(aside.read(name, limit=self._limit) or b"", note.depth, note.name)
                    with folder.child(BREADCRUMBS) as places, places.child(note.depth) as place:
                        if place.status(note.name) is None:
                            aside.move(name, note.name, into=place)
                            aside.remove(noted)
                except (*UNDECODABLE, InvalidValue, WorkFailed, FileNotFoundError):
                    continue  # stays where it is, with its reason

    def _named(self, source: str) -> str:
        return "/".join((*BASE, *self.path, source))


def _source(depth: str, name: str) -> str:
    """Return how a file is named in records and reports: always text, whatever bytes its name has."""
    return f"{BREADCRUMBS}/{depth}/{name}".encode("utf-8", "replace").decode()


def _free_name(folder: Folder, name: str) -> str:
    """Return a name that nothing has yet, so that nothing set aside before is written over."""
    if folder.status(name) is None:
        return name
    stem = hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:8]
    number = 2
    while folder.status(f"{stem}-{number}-{name}"[:250]) is not None:
        number += 1
    return f"{stem}-{number}-{name}"[:250]
