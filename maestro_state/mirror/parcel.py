"""Archives that travel: read whole here, written whole there, every byte checked against the manifest on arrival.

What arrives is believed no more than any untrusted archive: names stay inside, sizes are those announced, digests fit,
or nothing of it is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from tempfile import SpooledTemporaryFile
from typing import IO

import msgspec

from maestro_state.errors import ArchiveBusy, Conflict, FileCorrupt
from maestro_state.mirror import foreign
from maestro_state.mirror.home import Home
from maestro_state.mirror.layouts import session as layout
from maestro_state.mirror.reader import ArchivedSession
from maestro_state.mirror.view import View, described, open_view
from maestro_state.mirror.writer import Generation
from maestro_state.models.message import id_order

#: Largest manifest, and most files, that are taken: far above what any session has.
MANIFEST_BYTES = 64 * 1024 * 1024
FILES_MAX = 1_000_000

#: Bytes of copies that are kept in memory, not on disk.
_COPIES_BYTES = 1 << 20
#: How often an archive that is changed meanwhile is copied.
_TRIES = 10


def contents_of(home: Home, session_id: str, piece_bytes: int) -> Iterator[tuple[str, bytes]]:
    """Yield an archive as parts of files, the manifest first; every file has at least one part.

    All of it is of one generation, however long it takes and whatever is checkpointed meanwhile.
    """
    with SpooledTemporaryFile(max_size=_COPIES_BYTES) as copies, ExitStack() as stack:
        tree, manifest, sizes = _copied(home, session_id, copies)
        stack.push(tree)
        encoded = layout.encode_manifest(manifest)
        for at in range(0, len(encoded), piece_bytes):
            yield layout.MANIFEST, encoded[at : at + piece_bytes]
        for path in manifest.files:
            pieces = _pieces(copies, sizes[path], piece_bytes) if path in sizes else tree.pieces(path, piece_bytes)
            if pieces is None:
                # Another generation took its place: what lasts is there too, and so is what grows, to where it was.
                tree = stack.enter_context(open_view(home, session_id))
                tree.manifest = manifest
                pieces = tree.pieces(path, piece_bytes)
            if pieces is None:
                raise FileCorrupt(f"{path} of {session_id} is missing")
            yield path, next(pieces, b"")
            yield from ((path, piece) for piece in pieces)


def _copied(home: Home, session_id: str, copies: IO[bytes]) -> tuple[View, layout.Manifest, dict[str, int]]:
    """Copy what a checkpoint may replace, and open the rest: that stays, or only grows."""
    for _ in range(_TRIES):
        tree = open_view(home, session_id)
        try:
            before, sizes = tree.stamp(), {}
            # One that another program wrote has no manifest: it gets one for the way.
            manifest = _only_a_session(tree.manifest or described(tree, session_id))
            copies.seek(0)
            copies.truncate()
            for path in manifest.files:
                if not (layout.grows(path) or layout.is_lasting(path)):
                    sizes[path] = sum(copies.write(piece) for piece in tree.pieces(path) or ())
            copies.seek(0)
            if tree.stamp() == before:
                return tree, manifest, sizes
        except BaseException:
            tree.close()
            raise
        tree.close()
    raise ArchiveBusy(f"the archive of {session_id} is changed again and again", hint="try again")


def _pieces(copies: IO[bytes], size: int, piece_bytes: int) -> Iterator[bytes]:
    for at in range(0, size, piece_bytes):
        yield copies.read(min(piece_bytes, size - at))


def _only_a_session(manifest: layout.Manifest) -> layout.Manifest:
    """Return a manifest of the files that every session has: what else lies in the folder stays where it is."""
    return msgspec.structs.replace(
        manifest,
        files={path: entry for path, entry in manifest.files.items() if layout.is_own(path)},
        removed={path: one for path, one in manifest.removed.items() if layout.is_own(path)},
    )


class Arrival:
    """An archive as it comes in, part by part, into a generation that is put in place only when all of it fits."""

    def __init__(self, generation: Generation) -> None:
        self._generation = generation
        self._head = bytearray()
        self._manifest: layout.Manifest | None = None
        self._expected: Iterator[str] = iter(())
        self._path = ""
        self._left = 0
        self.files = 0
        self.bytes = 0
        self.total = 0  #: bytes that were announced

    def take(self, path: str, data: bytes) -> None:
        """Take the next part; raise FileCorrupt for one that was not announced, or Conflict for an older archive."""
        if self._manifest is None:
            if path == layout.MANIFEST:
                self._head += data
                if len(self._head) > MANIFEST_BYTES:
                    raise FileCorrupt(f"the manifest of {self._generation.session_id} is too large")
                return
            self._open()
        if path != self._path:
            self._next_file(path)
        self._left -= len(data)
        if self._left < 0:
            raise FileCorrupt(f"{path} of {self._generation.session_id} is larger than announced")
        self.bytes += len(data)
        self._generation.append(path, data, anew=True)

    def _open(self) -> None:
        generation = self._generation
        manifest = layout.decode_manifest(bytes(self._head), generation.session_id)
        if len(manifest.files) > FILES_MAX or layout.MANIFEST in manifest.files:
            raise FileCorrupt(f"the manifest of {generation.session_id} names what is no file of a session")
        for path in (*manifest.files, *manifest.removed):
            if not layout.is_own(path):
                raise FileCorrupt(f"{path[:80]!r}, sent for {generation.session_id}, is no file of a session")
        for path, entry in manifest.files.items():
            if not 0 <= entry.size <= layout.limit_of(path):
                raise FileCorrupt(f"{path} of {generation.session_id} would have {entry.size} bytes, which none has")
        if layout.SESSION not in manifest.files:
            raise FileCorrupt(f"what came for {generation.session_id} is not a session")
        old = generation.old
        if old and old.last_id and (not manifest.last_id or id_order(old.last_id) > id_order(manifest.last_id)):
            raise Conflict(
                f"the archive of {generation.session_id} in this checkout goes further than the team's",
                hint="it is kept as it is",
            )
        self._manifest = manifest
        self._expected = iter(manifest.files)
        self.total = sum(entry.size for entry in manifest.files.values())

    def _next_file(self, path: str) -> None:
        if self._manifest is None or path != next(self._expected, None):
            raise FileCorrupt(f"{path[:80]!r} of {self._generation.session_id} was not announced, or comes out of turn")
        self._path, self._left = path, self._manifest.files[path].size
        self.files += 1

    def finish(self) -> None:
        """Put the archive in place if it is what was announced, to the last byte; else raise FileCorrupt."""
        if self._manifest is None:
            self._open()
        manifest = self._manifest
        if manifest is None or next(self._expected, None) is not None:
            raise FileCorrupt(f"the archive of {self._generation.session_id} did not arrive whole")
        self._generation.settle(manifest.files)
        _Staged(self._generation, manifest).check()
        for path, removal in manifest.removed.items():
            self._generation.note_removed(path, removal)
        self._generation.commit(last_id=manifest.last_id, written_at=manifest.written_at, keep_replaced=True)


class _Staged(ArchivedSession):
    """An archive that has arrived and is not in place yet, read as it will be."""

    def __init__(self, generation: Generation, manifest: layout.Manifest) -> None:
        self._generation = generation
        self._announced = manifest
        super().__init__(generation.home, generation.session_id)

    def _tree(self) -> View:
        tree = View(self.id, self._generation.written_so_far())
        tree.manifest = self._announced  # it is written when the archive is put in place
        return tree

    def check(self) -> None:
        """Raise FileCorrupt unless this is a session that can be read: a manifest fits whatever it was made for."""
        if not foreign.is_session(self.document(layout.SESSION)):
            raise FileCorrupt(f"what came for {self.id} is not a session")
        _, _, runs, _ = self.contents()
        for run in runs:
            self.sent_context(run.id)
        for lines in (self.messages(), self.events(), self.chunks()):
            for _ in lines:
                pass
