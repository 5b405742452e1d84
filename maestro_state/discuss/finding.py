"""From what a user typed to a discussion: an id, the beginning of one, `latest`, or a path, in any of three formats."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from maestro_state.discuss import legacy
from maestro_state.errors import AmbiguousReference, DiscussionClosed, DiscussionNotFound, NoOpenDiscussion
from maestro_state.fs.handles import Folder
from maestro_state.mirror.layouts import discussion as canonical
from maestro_state.mirror.layouts.discussion import DiscussionFiles, is_discussion_id
from maestro_state.mirror.layouts.plan import open_folder
from maestro_state.models.discussion import Discussion, Meta

ARTIFACTS = ("docs", "maestro", "ai", "artifacts")
WORK_SESSIONS = ("docs", "sessions")

#: Fewest characters that stand for a longer id.
PREFIX_MIN = 4


class Found(msgspec.Struct, frozen=True):
    """Where a reference led: a folder of this project, or a discussion of another format or place."""

    folder: str | None = None
    elsewhere: Discussion | None = None


def newest(records: dict[str, Meta], *, is_open: bool = False) -> str:
    """Return the folder of the discussion last changed, of the open ones if told."""
    # A folder named otherwise than its record is a copy, or another program's: read, but not talked in by accident.
    chosen = [name for name, meta in records.items()
              if not is_open or (meta.session_id == name and not is_closed(meta))]  # fmt: skip
    if not chosen:
        closed = {name: meta for name, meta in records.items() if is_closed(meta)}
        if closed:
            raise DiscussionClosed(newest(closed))
        raise NoOpenDiscussion if is_open else DiscussionNotFound("latest")
    return max(chosen, key=lambda name: (records[name].updated_at, name))


def is_closed(meta: Meta) -> bool:
    """Tell whether a discussion takes no more messages; one with its final_json does not, whatever its status says."""
    return meta.status == "closed" or meta.final_json_present


def find(files: DiscussionFiles, ref: str, *, live: Iterable[str] = ()) -> Found:
    """Find what a reference means; `live` are ids the server knows."""
    on_disk, live = files.ids(), set(live)
    if ref in on_disk or ref in live:
        return Found(ref)
    records, _ = files.metas()
    if ref == "latest":
        return Found(newest(records))
    by_id = [name for name, meta in records.items() if meta.session_id == ref]
    if len(by_id) == 1:
        return Found(by_id[0])
    found = _legacy_by_id(files.root, ref) or _by_path(files, ref)
    if found:
        return found
    known = sorted(live | set(on_disk))
    begun = [name for name in known if len(ref) >= PREFIX_MIN and name.startswith(ref)]
    if len(begun) > 1:
        raise AmbiguousReference(ref, begun)
    if not begun:
        raise DiscussionNotFound(ref)
    return Found(begun[0])


def _legacy_by_id(root: Path, ref: str) -> Found | None:
    if not is_discussion_id(ref):
        return None
    try:
        with open_folder(root, *ARTIFACTS, create=False) as folder:
            return Found(elsewhere=legacy.load_artifact(folder, f"{ref}{legacy.RESULTS}"))
    except FileNotFoundError:
        pass
    try:
        with open_folder(root, *WORK_SESSIONS, ref, create=False) as folder:
            return Found(elsewhere=legacy.load_work_session(folder))
    except FileNotFoundError:
        return None


def _by_path(files: DiscussionFiles, ref: str) -> Found | None:
    if not ref or "\0" in ref:
        return None
    path = Path(ref)
    try:
        if not path.exists():
            return None
    except OSError:  # a name no file system takes
        return None
    path = path.resolve()
    if path.name in (canonical.META, canonical.TRANSCRIPT, legacy.SESSION):
        path = path.parent
    if path.parent == files.root.joinpath(*canonical.HOME) and path.name in files.ids():
        return Found(path.name)
    try:
        return Found(elsewhere=read_path(path))
    except FileNotFoundError:
        return None


def read_path(path: Path) -> Discussion:
    """Read a discussion of any format from the path of its folder or file; FileNotFoundError when there is none."""
    if path.is_file():
        with Folder.open(str(path.parent)) as folder:
            return legacy.load_artifact(folder, path.name)
    with Folder.open(str(path)) as folder:
        names = folder.names()
        if legacy.SESSION in names:
            return legacy.load_work_session(folder)
        if canonical.META in names:
            return canonical.load(folder)
    raise FileNotFoundError(path)
