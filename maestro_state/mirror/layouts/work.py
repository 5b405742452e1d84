"""Work sessions on disk: `docs/sessions/<id>[/<child>…]/session.json` and `breadcrumbs/<depth>/<timestamp>.json`.

Files appear whole and links are never followed. What other programs wrote to the same layout is read leniently: a
missing field has its default, a damaged file is passed over and named, never changed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any, Self

import msgspec

from maestro_state.clock import from_iso, iso
from maestro_state.errors import FileCorrupt, InvalidValue, WorkFailed
from maestro_state.fs.handles import Folder
from maestro_state.fs.opening import write_all
from maestro_state.mirror.layouts.session import pretty
from maestro_state.models.message import id_order
from maestro_state.models.names import is_stream_id
from maestro_state.models.undecodable import UNDECODABLE
from maestro_state.models.work import DEPTH_MAX, Accepted, Breadcrumb, WorkSession, breadcrumb_of
from maestro_state.models.work_names import (
    BASE,
    BREADCRUMBS,
    RECORD_FILE,
    WorkPath,
    breadcrumbs_dir,
    derived_id,
    file_stamp,
    is_breadcrumb_file,
    is_depth,
    is_work_id,
)

#: Largest session.json that is read.
_RECORD_LIMIT = 4 << 20

#: Says how far this folder has what was accepted; and who may say so.
_WRITTEN = ".written"
#: What was applied, in that order: an entry and the id of its breadcrumb on each line.
_APPLIED = ".applied"
#: Largest such list that is read.
_APPLIED_LIMIT = 256 << 20
_LOCK = ".lock"

#: Largest breadcrumb file that is looked into for its id.
_BREADCRUMB_LIMIT = 1 << 30

#: So many files are made durable one by one; more of them together at the end, for each costs a disk's turn.
_SINGLY = 8

#: Status shown of a work session whose session.json cannot be read.
UNREADABLE = "unreadable"


class OnDisk(msgspec.Struct, frozen=True):
    """A work session found on disk."""

    path: WorkPath
    record: WorkSession


def open_folder(root: str, path: WorkPath, *, create: bool = False) -> Folder:
    """Open a work session's folder; FileNotFoundError when there is none and it shall not be made."""
    for part in path:
        if not is_work_id(part):
            raise InvalidValue(f"'{part[:40]}' is not the id of a work session")
    # `docs/` is the project's: made as its user makes folders. What holds prompts is only its user's.
    if create:
        Folder.open(root, *BASE, create=True, mode=0o777).close()
    return Folder.open(root, *BASE, *path, create=create)


def opened(root: str, path: WorkPath) -> Folder | None:
    """Open a work session's folder; None when there is none, or something else in its place."""
    try:
        return open_folder(root, path)
    except (FileNotFoundError, WorkFailed):
        return None


def write_record(root: str, path: WorkPath, record: WorkSession) -> None:
    """Write `session.json`, and with the first one the folder; fields that other programs wrote there stay.

    FileCorrupt for one that is there and cannot be read: what it says would be lost.
    """
    with open_folder(root, path, create=True) as folder:
        before = folder.read(RECORD_FILE, limit=_RECORD_LIMIT)
        content = pretty(_foreign_fields(before, folder.path) | msgspec.structs.asdict(record))
        if before != content:
            folder.replace(RECORD_FILE, content)


def _foreign_fields(content: bytes | None, place: str) -> dict[str, Any]:
    """Return what a session.json says that is no field of the record."""
    if content is None:
        return {}
    try:
        document = msgspec.json.decode(content, type=dict[str, Any])
    except UNDECODABLE as error:
        where = os.path.join(place, RECORD_FILE)
        raise FileCorrupt(f"{where} cannot be read: {error}", hint="correct it, or move it away") from error
    return {name: value for name, value in document.items() if name not in WorkSession.__struct_fields__}


class Filing:
    """Files breadcrumbs into a work session's folder, each under its time. One at a time (`Folder.locked`).

    Where another one has that name, the next gets a number behind it. Repeatable: a breadcrumb that is there already
    is left as it is. At the end, what was filed is durable.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._opened = ExitStack()
        self._places: dict[str, Folder] = {}
        self._known: dict[tuple[str, str], list[str | None]] = {}  # ids in the files of one time, by number
        self._written = 0

    def add(self, crumb: Breadcrumb) -> str:
        """File one; return its name, relative to the folder."""
        depth, stem = str(crumb.depth_level), file_stamp(crumb.timestamp)
        place = self._place(depth)
        ids = self._known.get((depth, stem))
        if ids is None:
            ids = self._known[(depth, stem)] = _ids_of(place, stem)
        if crumb.breadcrumb_id in ids:
            number = ids.index(crumb.breadcrumb_id)
        else:
            number = len(ids)
            ids.append(crumb.breadcrumb_id)
            self._written += 1
            place.replace(_numbered(stem, number), pretty(crumb.document()), durable=self._written <= _SINGLY)
        return f"{BREADCRUMBS}/{depth}/{_numbered(stem, number)}"

    def _place(self, depth: str) -> Folder:
        if depth not in self._places:
            with self._folder.child(BREADCRUMBS, create=True) as places:
                self._places[depth] = self._opened.enter_context(places.child(depth, create=True))
        return self._places[depth]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        """Close, and make what was filed durable."""
        self._opened.close()
        if self._written > _SINGLY and error is None:
            os.sync()


def written_to(folder: Folder) -> str | None:
    """Return the entry up to which this folder has what was accepted."""
    written = (folder.read(_WRITTEN, limit=64) or b"").decode("ascii", "replace").strip()
    return written if is_stream_id(written) else None


def file_page(folder: Folder, page: list[Accepted]) -> None:
    """File breadcrumbs that follow each other, and note how far that is; what came by a file is there already."""
    with folder.locked(_LOCK):
        with Filing(folder) as filing:
            for one in page:
                if not (one.source and has_file(folder, one.source)):
                    filing.add(one.breadcrumb)
        before, last = written_to(folder), page[-1].entry_id
        if before is None or id_order(before) < id_order(last):
            folder.replace(_WRITTEN, last.encode())


def applied_to(folder: Folder) -> str | None:
    """Return the entry up to which this folder knows what was applied."""
    last = _applied_lines(folder)[-1:]
    return last[0][0] if last else None


def applied_ids(root: str, path: WorkPath) -> set[str]:
    """Return the ids of the breadcrumbs that a consumer applied, as far as this folder knows."""
    if (folder := opened(root, path)) is None:
        return set()
    with folder:
        return {breadcrumb_id for _, breadcrumb_id in _applied_lines(folder)}


def note_applied(folder: Folder, page: list[Accepted]) -> None:
    """Note which breadcrumbs were applied; they follow each other and those noted before."""
    with folder.locked(_LOCK):
        before = applied_to(folder)
        lines = [
            f"{one.entry_id} {one.breadcrumb.breadcrumb_id}\n"
            for one in page
            if before is None or id_order(one.entry_id) > id_order(before)
        ]
        with folder.appending(_APPLIED, mode=0o600) as descriptor:
            os.ftruncate(descriptor, (folder.read(_APPLIED, limit=_APPLIED_LIMIT) or b"").rfind(b"\n") + 1)
            write_all(descriptor, "".join(lines).encode())


def _applied_lines(folder: Folder) -> list[tuple[str, str]]:
    """Read the list; a line that was being written when its writer was killed does not count."""
    try:
        text = (folder.read(_APPLIED, limit=_APPLIED_LIMIT) or b"").decode("ascii", "replace")
    except WorkFailed:
        return []  # a link or a device in its place is none of ours
    pairs = [line.split(" ") for line in text.split("\n")[:-1]]
    return [(pair[0], pair[1]) for pair in pairs if len(pair) == 2 and is_stream_id(pair[0])]


def _numbered(stem: str, number: int) -> str:
    return f"{stem}-{number + 1}.json" if number else f"{stem}.json"


def _ids_of(place: Folder, stem: str) -> list[str | None]:
    """Return the ids in the files of one time, in the order of their numbers; None where there is none to read."""
    ids: list[str | None] = []
    while place.status(name := _numbered(stem, len(ids))) is not None:
        try:
            ids.append(_id_in(place.read(name, limit=_BREADCRUMB_LIMIT) or b""))
        except WorkFailed:
            ids.append(None)
    return ids


def _id_in(content: bytes) -> str | None:
    try:
        found = msgspec.json.decode(content)
    except UNDECODABLE:
        return None
    value = found.get("breadcrumb_id") if isinstance(found, dict) else None
    return value if isinstance(value, str) else None


def decode_breadcrumb(content: bytes, depth: str, name: str) -> Breadcrumb:
    """Read a breadcrumb file; what it does not say comes from where it lies and what it holds."""
    try:
        document = msgspec.json.decode(content)
    except RecursionError as error:
        raise InvalidValue("not JSON that can be read: nested too deeply") from error
    except UNDECODABLE as error:
        raise InvalidValue(f"not JSON: {error}") from error
    return breadcrumb_of(
        document,
        timestamp=name.removesuffix(".json").split("-")[0],
        breadcrumb_id=derived_id(hashlib.sha256(content).digest()),
        depth_level=int(depth),
    )


def _moment(said: Any, otherwise: str) -> str:
    """Return a time another program wrote in the form we do, so that times can be compared and sorted."""
    try:
        return iso(from_iso(said))
    except (TypeError, ValueError, OverflowError):
        return otherwise


def _record_of(content: bytes, path: WorkPath, modified: str) -> WorkSession:
    """Read a session.json of ours or of another program; the folder, not the file, says which one it is."""
    work_id, parent = path[-1], path[-2] if len(path) > 1 else None
    fixed = {"session_id": work_id, "breadcrumbs_dir": breadcrumbs_dir(path)}
    empty = {"session_type": "unknown", "status": "interrupted", "created": modified, "modified": modified}
    try:
        document = msgspec.json.decode(content)
        said = {name: value for name, value in document.items() if value is not None}
        said |= {name: _moment(said[name], modified) for name in ("created", "modified") if name in said}
        return msgspec.convert(empty | {"parent_session_id": parent} | said | fixed, WorkSession)
    except (*UNDECODABLE, AttributeError):
        unreadable = empty | {"status": UNREADABLE, "parent_session_id": parent} | fixed
        return msgspec.convert(unreadable, WorkSession)


def read_record(folder: Folder, path: WorkPath) -> WorkSession | None:
    """Read a work session's record; None when the folder has none."""
    try:
        status = folder.status(RECORD_FILE)
        content = folder.read(RECORD_FILE, limit=_RECORD_LIMIT)
    except WorkFailed:
        content, status = b"", None  # a link, a device or far too large: there, but nothing to read
    if content is None:
        return None
    return _record_of(content, path, iso(int(status.st_mtime * 1000) if status else 0))


def walk(root: str, under: WorkPath = ()) -> Iterator[OnDisk]:
    """Yield every work session on disk, parents before children."""
    if (folder := opened(root, under)) is None:
        return
    with folder:
        if under and (record := read_record(folder, under)) is not None:
            yield OnDisk(under, record)
        names = [name for name in folder.names() if is_work_id(name)] if len(under) <= DEPTH_MAX else []
    for name in names:
        yield from walk(root, (*under, name))


def find(root: str, work_id: str) -> OnDisk | None:
    """Find one work session on disk, at whatever depth."""
    return next((one for one in walk(root) if one.path[-1] == work_id), None)


def read_at(root: str, path: WorkPath) -> OnDisk | None:
    """Read the work session at a place, if there is one."""
    if (folder := opened(root, path)) is None:
        return None
    with folder:
        record = read_record(folder, path)
    return OnDisk(path, record) if record else None


def child_folders(root: str, path: WorkPath) -> list[str]:
    """List the ids of work sessions that lie in another one's folder."""
    if (folder := opened(root, path)) is None:
        return []
    with folder:
        return [name for name in folder.names() if is_work_id(name)]


def has_file(folder: Folder, source: str) -> bool:
    """Tell whether a breadcrumb file is still where it was."""
    _, depth, name = source.split("/", 2)
    try:
        with folder.child(BREADCRUMBS) as places, places.child(depth) as place:
            return place.status(name) is not None
    except (FileNotFoundError, WorkFailed):
        return False


def count_breadcrumbs(root: str, path: WorkPath) -> int:
    """Count the files that may be breadcrumbs."""
    if (folder := opened(root, path)) is None:
        return 0
    with folder:
        return sum(1 for _ in breadcrumb_files(folder))


def breadcrumb_files(folder: Folder) -> Iterator[tuple[Folder, str, str]]:
    """Yield folder, depth and name of every file that may be a breadcrumb, by name over all depths: names are times."""
    with ExitStack() as opened:
        try:
            places = opened.enter_context(folder.child(BREADCRUMBS))
        except (FileNotFoundError, WorkFailed):
            return
        found = []
        for depth in filter(is_depth, places.names()):
            with suppress(FileNotFoundError, WorkFailed):  # a link or a file in its place is none of ours
                place = opened.enter_context(places.child(depth))
                found += [(name, int(depth), depth, place) for name in place.names() if is_breadcrumb_file(name)]
        for name, _, depth, place in sorted(found, key=lambda one: one[:3]):
            yield place, depth, name


def read_breadcrumbs(root: str, path: WorkPath, *, limit: int) -> list[Breadcrumb]:
    """Read what the disk has, by time, each id once; files that cannot be read are passed over."""
    try:
        folder = open_folder(root, path)
    except FileNotFoundError:
        return []
    found: dict[str, Breadcrumb] = {}
    with folder:
        for place, depth, name in breadcrumb_files(folder):
            try:
                content = place.read(name, limit=limit)
                crumb = decode_breadcrumb(content or b"", depth, name)
            except (InvalidValue, WorkFailed):
                continue
            found.setdefault(crumb.breadcrumb_id, crumb)
    return sorted(found.values(), key=lambda crumb: (crumb.at_ms, file_stamp(crumb.timestamp)))
