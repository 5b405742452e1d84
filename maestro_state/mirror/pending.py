"""A change of an archive in its place: for the checkpoints of a session that lives, of which little is new each time.

What exists and grows is added to where it is: whoever goes by the manifest reads no further than that counts. All else
that is new waits beside the archive, in `.staging/<id>.next/`, with the new manifest. That the manifest takes its place
is the moment of the change; then the other files take theirs, each in one step. Killed before that moment, what waits
is dropped and what grew is cut off again; killed after it, what waits is put in place: by whoever takes the session's
lock next. Files of others in the archive's folder are never touched.
"""

from __future__ import annotations

import stat
from collections.abc import Collection, Iterable
from contextlib import suppress

import msgspec

from maestro_state.errors import FileCorrupt, MaestroError, WorkFailed
from maestro_state.fs.entry import FileEntry
from maestro_state.fs.handles import Folder
from maestro_state.fs.tree import Tree
from maestro_state.mirror.home import STAGING, next_name
from maestro_state.mirror.layouts import session as layout
from maestro_state.mirror.view import read_manifest
from maestro_state.models.undecodable import UNDECODABLE

#: The note of what goes with the change: a list of paths.
_GONE = ".gone.json"
_OWN = (_GONE, layout.MANIFEST)

_gone = msgspec.json.Decoder(list[str]).decode


def note_gone(pending: Tree, gone: Collection[str]) -> list[str]:
    """Note which files will go, before the change; return what was written."""
    if not gone:
        return []
    pending.write(_GONE, msgspec.json.encode(sorted(gone)))
    return [_GONE]


def commit(sessions: Folder, session_id: str, gone: Iterable[str]) -> None:
    """Make the change that waits, which is durable by now. The lock is held."""
    with (
        sessions.child(STAGING) as staging,
        Tree(sessions.child(session_id)) as place,
        Tree(staging.child(next_name(session_id))) as pending,
    ):
        waiting = [path for path in pending.walk() if path not in _OWN]
        _check_room(place, waiting)  # first, what could fail: afterwards nothing should
        pending.move(layout.MANIFEST, place)
        place.root.sync()
        # Not made durable one by one: what a power cut undoes of this, it also leaves waiting.
        _put_in_place(place, pending, waiting, gone)
        staging.remove_tree(next_name(session_id))


def settle(sessions: Folder, session_id: str) -> None:
    """Finish or undo a change that was interrupted. The lock is held."""
    name = next_name(session_id)
    with sessions.child(STAGING) as staging:
        # Else there is no archive to change, or a link in that place: nothing Maestro left.
        if _is_folder(sessions, session_id) and _is_folder(staging, name):
            with Tree(sessions.child(session_id)) as archive, Tree(staging.child(name)) as pending:
                manifest = read_manifest(archive.root, session_id)
                if manifest is not None:
                    _settle(archive, pending, manifest)
                    archive.root.sync()
        staging.remove_tree(name)


def _is_folder(above: Folder, name: str) -> bool:
    status = above.status(name)
    return status is not None and stat.S_ISDIR(status.st_mode)


def _settle(place: Tree, pending: Tree, manifest: layout.Manifest) -> None:
    files = manifest.files
    waiting = [path for path in _walk(pending) if path in files and _holds(pending, path, files[path])]
    gone = [path for path in _noted(pending) if layout.is_own(path) and path not in files]
    _check_room(place, waiting)
    _put_in_place(place, pending, waiting, gone)
    for path, entry in manifest.files.items():
        if layout.grows(path):
            with suppress(OSError):  # missing, or no file: verify tells
                place.cut(path, entry.size)


def _walk(pending: Tree) -> list[str]:
    try:
        return list(pending.walk())
    except WorkFailed:
        return []  # nested deeper than anything Maestro left


def _holds(pending: Tree, path: str, entry: FileEntry) -> bool:
    try:
        return pending.entry(path) == entry
    except MaestroError:
        return False  # a link or a pipe in its place: nothing Maestro left


def _noted(pending: Tree) -> list[str]:
    try:
        return _gone(pending.read(_GONE, limit=layout.JSON_LIMIT) or b"[]")
    except (MaestroError, *UNDECODABLE):
        return []


def _check_room(place: Tree, waiting: Iterable[str]) -> None:
    """Make the folders of what waits; raise FileCorrupt where somebody has put a folder in a file's place."""
    for path in waiting:
        place.folder(path.rpartition("/")[0])
        status = place.status(path)
        if status is not None and stat.S_ISDIR(status.st_mode):
            raise FileCorrupt(f"{place.root.path}/{path} is a folder", hint="move it away")


def _put_in_place(place: Tree, pending: Tree, waiting: Iterable[str], gone: Iterable[str]) -> None:
    for path in waiting:
        pending.move(path, place)
    for path in gone:
        with suppress(FileNotFoundError, IsADirectoryError):
            place.remove(path)
