"""An archive's folder as a zip: taken as one that comes from anybody. Names are those of a session's files, sizes and
digests those of its manifest; what is more is not even unpacked.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from lzma import LZMAError
from typing import IO

import msgspec

from maestro_state.errors import Conflict, FileCorrupt, Refused
from maestro_state.mirror.home import Home
from maestro_state.mirror.layouts import session as layout
from maestro_state.mirror.parcel import MANIFEST_BYTES, Arrival
from maestro_state.mirror.reader import ArchivedSession
from maestro_state.mirror.writer import replacing
from maestro_state.models.message import id_order
from maestro_state.models.names import is_session_id
from maestro_state.models.undecodable import UNDECODABLE
from maestro_state.vocabulary import FROZEN

#: Most bytes that an archive may have in all, and most that one of the zip's may become.
TOTAL_MAX = 8 << 30
RATIO_MAX = 2000
#: And of its manifest, which is read whole: digests hardly shrink.
_MANIFEST_RATIO_MAX = 50
_PIECE = 1 << 20

#: What zipfile raises of a damaged zip, and what each way of packing does.
_UNREADABLE = (
    zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, ValueError, OSError, zlib.error, LZMAError,
)  # fmt: skip


class _Head(msgspec.Struct):
    session_id: str


def read_zip(home: Home, content: IO[bytes], path: str, *, dry_run: bool = False) -> tuple[str, str]:
    """Put the archive in an opened zip in place; return its id, and whether it is new, updated or unchanged here.

    Raises FileCorrupt for one that is damaged or no archive, Conflict where this checkout's goes further.
    """
    with _readable(path):
        file = zipfile.ZipFile(content)
    with file:
        return _taken(home, file, path, dry_run=dry_run)


@contextmanager
def _readable(path: str) -> Iterator[None]:
    """Refuse what cannot be read of a zip."""
    try:
        yield
    except _UNREADABLE as error:
        raise FileCorrupt(f"{path} is not a zip that can be read ({error})") from error


def _taken(home: Home, file: zipfile.ZipFile, path: str, *, dry_run: bool) -> tuple[str, str]:
    names = [one.filename for one in file.infolist()]
    found = [name for name in names if name == layout.MANIFEST or name.endswith(f"/{layout.MANIFEST}")]
    if len(found) != 1 or len(set(names)) != len(names) or found[0].count("/") > 1:
        raise FileCorrupt(f"{path} does not hold the archive of one session", hint="zip -r FILE.zip ID, in its folder")
    told = file.getinfo(found[0])
    if told.file_size > min(MANIFEST_BYTES, _MANIFEST_RATIO_MAX * (told.compress_size + 1024)):
        raise FileCorrupt(f"the manifest in {path} would become larger than any session's")
    with _readable(path), file.open(found[0]) as part:
        head = part.read(MANIFEST_BYTES + 1)
    session_id = _id_in(head, path)
    prefix = found[0][: -len(layout.MANIFEST)]
    manifest = layout.decode_manifest(head, session_id)
    status = _status(home, session_id, manifest)
    if status == "unchanged":
        return session_id, status
    _check_sizes(file, prefix, manifest, path)
    if dry_run:
        return session_id, status
    with replacing(home, session_id) as generation:
        arrival = Arrival(generation)
        arrival.take(layout.MANIFEST, head)
        for name, entry in manifest.files.items():
            for piece in _pieces(file, prefix + name, entry.size, path):
                arrival.take(name, piece)
            if not entry.size:
                arrival.take(name, b"")
        arrival.finish()
    return session_id, status


def _id_in(head: bytes, path: str) -> str:
    try:
        session_id = msgspec.json.decode(head, type=_Head).session_id
    except UNDECODABLE as error:
        raise FileCorrupt(f"the manifest in {path} is damaged") from error
    if len(head) > MANIFEST_BYTES or not is_session_id(session_id):
        raise FileCorrupt(f"the manifest in {path} is not a session's")
    return session_id


def _status(home: Home, session_id: str, manifest: layout.Manifest) -> str:
    if session_id not in home.ids():
        return "new"
    here = ArchivedSession(home, session_id)
    known = here.manifest()
    if known and known.files == manifest.files:
        return "unchanged"
    if here.record().state not in FROZEN:
        raise Refused(f"session {session_id} is not over in this project", hint="it is kept as it is")
    if known is None or not manifest.last_id or id_order(known.last_id or "0") >= id_order(manifest.last_id):
        raise Conflict(
            f"the archive of {session_id} in this project is another, and goes as far", hint="it is kept as it is"
        )
    return "updated"


def _check_sizes(file: zipfile.ZipFile, prefix: str, manifest: layout.Manifest, path: str) -> None:
    """Refuse what would become larger than it says, or than anything reasonable, before any of it is unpacked."""
    there = {one.filename: one for one in file.infolist()}
    total = 0
    for name, entry in manifest.files.items():
        one = there.get(prefix + name)
        if one is None:
            raise FileCorrupt(f"{name} is missing in {path}")
        if one.file_size != entry.size or one.flag_bits & 1:
            raise FileCorrupt(f"{name} in {path} is not what its manifest says")
        total += entry.size
        if total > TOTAL_MAX or entry.size > RATIO_MAX * (one.compress_size + 1024):
            raise FileCorrupt(f"{path} would become larger than any archive")


def _pieces(file: zipfile.ZipFile, name: str, size: int, path: str) -> Iterator[bytes]:
    """Yield a file piece by piece, never more of it than was announced."""
    left = size
    with _readable(path), file.open(name) as part:
        while piece := part.read(min(_PIECE, left + 1)):
            yield piece
            left -= len(piece)
