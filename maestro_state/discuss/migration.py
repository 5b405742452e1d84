"""Bulk conversion of legacy discussions. Originals are only read; running it again converts only what is new."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from maestro_state.discuss import legacy
from maestro_state.discuss.finding import ARTIFACTS, WORK_SESSIONS, read_path
from maestro_state.errors import DiscussionNotFound, MaestroError
from maestro_state.fs.handles import Folder
from maestro_state.mirror.layouts import discussion as canonical
from maestro_state.mirror.layouts.discussion import DiscussionFiles, is_discussion_id
from maestro_state.models import strict_json
from maestro_state.models.discussion import Discussion


class Migrated(msgspec.Struct, frozen=True):
    """One discussion that was converted, or would be."""

    source: str = msgspec.field(name="from")
    session_id: str
    path: str


class Skipped(msgspec.Struct, frozen=True):
    """One that was not, and why."""

    source: str = msgspec.field(name="from")
    reason: str


class Report(msgspec.Struct, frozen=True):
    """What `discuss migrate` prints."""

    migrated: list[Migrated]
    skipped: list[Skipped]
    dry_run: bool = False


def candidates(root: Path, paths: Sequence[str]) -> list[tuple[Path, bool]]:
    """List what there is to convert, and whether it was named by the user; raise for a named path that is not there.

    Without paths: every artefact and every work session below this project's `docs/`.
    """
    if not paths:
        return [(path, False) for path in _below(root)]
    found: list[tuple[Path, bool]] = []
    for text in paths:
        path = Path(text)
        if "\0" in text or not path.exists():
            raise DiscussionNotFound(text)
        path = path.parent if path.name == legacy.SESSION else path
        inside = [] if path.is_file() or _is_discussion(path) else list(_inside(path))
        found += [(one, True) for one in inside or [path]]
    return found


def migrate(
    files: DiscussionFiles,
    found: Sequence[tuple[Path, bool]],
    *,
    dry_run: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Convert every candidate that can be; the rest is skipped, each with its reason."""
    report = Report([], [], dry_run)
    for number, (path, is_named) in enumerate(found, start=1):
        if progress:
            progress(number, len(found))
        try:
            reason = None if is_named else _not_a_discussion(path)
            migrated = None if reason else _migrate(files, read_path(path), dry_run=dry_run)
            reason = reason or ("is there already" if migrated is None else None)
        except FileNotFoundError:
            reason = "holds no discussion"
        except MaestroError as error:
            reason = str(error)
        if reason:
            report.skipped.append(Skipped(str(path), reason))
        elif migrated:
            report.migrated.append(Migrated(str(path), *migrated))
    return report


def _migrate(files: DiscussionFiles, found: Discussion, *, dry_run: bool) -> tuple[str, str] | None:
    """Write one in the canonical form; None when it is there already."""
    session_id = found.meta.session_id
    is_new = session_id not in files.ids() if dry_run else files.take_in(found)
    return (session_id, files.path(session_id)) if is_new else None


def _below(root: Path) -> Iterator[Path]:
    yield from _inside(root.joinpath(*ARTIFACTS))
    yield from _inside(root.joinpath(*WORK_SESSIONS))


def _inside(folder: Path) -> Iterator[Path]:
    """Yield the artefacts and the discussion folders in a folder, and the children of work sessions, by name."""
    if not folder.is_dir() or folder.is_symlink():
        return
    for path in sorted(folder.iterdir()):
        if path.is_symlink():
            continue
        if path.is_file():
            if path.name.endswith(legacy.RESULTS):
                yield path
        elif is_discussion_id(path.name) and _is_discussion(path):
            yield path
            if (path / legacy.SESSION).is_file():
                yield from _inside(path)


def _is_discussion(path: Path) -> bool:
    return (path / legacy.SESSION).is_file() or (path / canonical.META).is_file()


def _not_a_discussion(path: Path) -> str | None:
    """Say why a work session nobody named is left alone; every work of any kind lies beside the discussions."""
    if path.is_file() or not (path / legacy.SESSION).is_file():
        return None
    with Folder.open(str(path)) as folder:
        content = folder.read(legacy.SESSION, limit=legacy.LIMIT) or b""
    try:
        document: Any = strict_json.read(content)
    except ValueError as error:
        return f"{legacy.SESSION} is not JSON: {error}"
    kind = document.get("session_type") if isinstance(document, dict) else None
    if isinstance(kind, str) and "discuss" in kind.lower():
        return None
    return f"is a work session of type {kind!r:.40}, not a discussion (name its path to convert it all the same)"
