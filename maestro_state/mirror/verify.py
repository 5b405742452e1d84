"""Is an archive what it was when it was written? Every digest there is, checked; damage named file by file."""

from __future__ import annotations

import msgspec

from maestro_state.errors import MaestroError, NewerFormat
from maestro_state.fs.tree import Tree
from maestro_state.mirror import foreign
from maestro_state.mirror.home import Home
from maestro_state.mirror.layouts import session as layout
from maestro_state.mirror.reader import ArchivedSession
from maestro_state.mirror.view import open_view
from maestro_state.models.run import OutputRef

#: How often an archive that is changed meanwhile is checked.
_TRIES = 10


class Damage(msgspec.Struct, frozen=True):
    """One file that is not what it should be."""

    path: str
    reason: str


class Report(msgspec.Struct, frozen=True):
    """What verify found."""

    ok: bool
    checked: int
    damaged: list[Damage]
    removed: list[str] = []  #: what a cleanup removed on purpose: no damage


def verify(home: Home, session_id: str) -> Report:
    """Check one archive: by its manifest, or, written by another program, by the digests in its own files."""
    for _ in range(_TRIES):
        before = _state(home, session_id)
        report = _check(home, session_id)
        # What is changed while it is read may be taken apart, or grow: that is not damage.
        if report.ok or before == _state(home, session_id):
            break
    return report


def _check(home: Home, session_id: str) -> Report:
    with open_view(home, session_id) as tree:
        manifest, lie = None, None
        try:
            manifest = _manifest(tree, session_id)
        except NewerFormat as error:  # whatever else is there may mean something else, too
            return Report(False, 1, [Damage(layout.MANIFEST, _reason(error))])
        except MaestroError as error:
            lie = Damage(layout.MANIFEST, _reason(error))
        if manifest is not None:
            checked, damaged = _by_manifest(tree, manifest)
            return Report(not damaged, checked + 1, damaged, sorted(manifest.removed))
    # Not while the error is handled: it holds on to all that was read.
    checked, damaged, removed = _by_contents(home, session_id)
    return Report(False, 1, [lie, *damaged]) if lie else Report(not damaged, checked, damaged, removed)


def _manifest(tree: Tree, session_id: str) -> layout.Manifest | None:
    content = tree.read(layout.MANIFEST, limit=layout.JSON_LIMIT)
    return None if content is None else layout.decode_manifest(content, session_id)


def _state(home: Home, session_id: str) -> tuple[str | None, bool]:
    """Say which generation is in place, without keeping its manifest, since a forged one may be large; and whether a
    change is under way.
    """
    with open_view(home, session_id) as tree:
        try:
            content = tree.read(layout.MANIFEST, limit=layout.JSON_LIMIT)
        except MaestroError:
            content = None
        return None if content is None else layout.sha256(content), tree.is_pending


def _by_manifest(tree: Tree, manifest: layout.Manifest) -> tuple[int, list[Damage]]:
    damaged = []
    for path, wanted in manifest.files.items():
        try:
            size = tree.size(path)
            # One of another size is not read: it may be as large as a disk, or larger.
            found = tree.entry(path) if size == wanted.size else None
        except (MaestroError, OSError) as error:
            damaged.append(Damage(path, _reason(error)))
            continue
        if size is None:
            damaged.append(Damage(path, "missing"))
        elif size != wanted.size:
            damaged.append(Damage(path, f"{size} bytes, should be {wanted.size}"))
        elif found != wanted:
            damaged.append(Damage(path, "its digest does not fit"))
    return len(manifest.files), damaged


def _by_contents(home: Home, session_id: str) -> tuple[int, list[Damage], list[str]]:
    """Check what an archive without manifest says about itself: every JSON file, snapshot and output."""
    damaged: list[Damage] = []
    checked = 0
    archived = ArchivedSession(home, session_id)
    with open_view(home, session_id) as tree:
        for path in sorted(path for path in tree.walk() if path.endswith(".json") and not path.startswith("exports/")):
            checked += 1
            try:
                read = foreign.decode if path.endswith("/sent_context.json") else foreign.table
                read(tree.read(path, limit=layout.JSON_LIMIT) or b"", path)
            except (MaestroError, OSError) as error:
                damaged.append(Damage(path, _reason(error)))
        if tree.status(layout.SESSION) is None:
            damaged.append(Damage(layout.SESSION, "missing"))
        broken = {one.path for one in damaged}
        if broken - {layout.MANIFEST}:
            return checked, damaged, []
        for item in archived.items():
            checked += 1
            try:
                archived.snapshot(item)
            except (MaestroError, OSError) as error:
                damaged.append(Damage(layout.blob_path(item.id), _reason(error)))
        outputs = {layout.run_path(run.id, "output.txt"): run.output_ref for run in archived.runs() if run.output_ref}
        removed = [path for path, ref in outputs.items() if ref.removed_at]
        for path in outputs.keys() - removed:
            checked += 1
            if reason := _output_damage(tree, path, outputs[path]):
                damaged.append(Damage(path, reason))
    return checked, damaged, removed


def _output_damage(tree: Tree, path: str, ref: OutputRef) -> str | None:
    size = tree.size(path)
    if size is None:
        return "missing"
    if ref.size is not None and size != ref.size:
        return f"{size} bytes, should be {ref.size}"
    if size > layout.OUTPUT_LIMIT:
        return f"{size} bytes, more than any run prints"
    if not ref.digest or not layout.is_digest(ref.digest):
        return None
    found = tree.entry(path)
    return None if found and found.sha256 == ref.digest else "its digest does not fit"


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return str(error)
