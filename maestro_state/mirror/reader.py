"""An archived session as the same values a live one is: whichever program wrote it, whether anything is missing.

Nothing here writes. A path that leads outside, a link or a device is refused; what is damaged raises FileCorrupt with
the file's name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec

from maestro_state.errors import FileCorrupt, MaestroError, NotFound, RemovedByCleanup
from maestro_state.local.project import IndexRow, Project
from maestro_state.mirror import foreign, removals
from maestro_state.mirror.home import Home
from maestro_state.mirror.layouts import session as layout
from maestro_state.mirror.view import View, open_view, read_steadily
from maestro_state.models.context import ContextItem
from maestro_state.models.message import Event, Message, with_retractions
from maestro_state.models.run import PREVIEW_BYTES, OutputRef, RelevantOutput, Run, SentItem, preview
from maestro_state.models.session import Session
from maestro_state.models.undecodable import UNDECODABLE

_E = TypeVar("_E", Message, Event, "Chunk")

_ENTRY_ID = re.compile(r"[0-9]{1,14}(?:-[0-9]{1,20})?", re.ASCII)

_message = msgspec.json.Decoder(Message).decode
_event = msgspec.json.Decoder(Event).decode
_kept = msgspec.json.Decoder(layout.Kept).decode


class Chunk(msgspec.Struct, frozen=True):
    """Where one piece of a run's output ended."""

    id: str
    run: str
    size: int
    anew: bool = False  #: the run was started again: what it had printed before does not count


_chunk = msgspec.json.Decoder(Chunk).decode


class ArchivedSession:
    """One session in an archive. Opened for each question anew, so that a swap between two never mixes them."""

    def __init__(self, home: Home, session_id: str) -> None:
        """Name the session; SessionNotFound when it is not there."""
        self._home = home
        self.id = session_id
        with self._tree():
            pass

    def _tree(self) -> View:
        return open_view(self._home, self.id)

    def manifest(self) -> layout.Manifest | None:
        """Return the manifest; None when there is none that can be trusted."""
        with self._tree() as tree:
            return tree.manifest

    def _where(self, path: str) -> str:
        return f"{self._home.path_of(self.id)}/{path}"

    def record(self) -> Session:
        with self._tree() as tree:
            return self._session(tree)

    def _session(self, tree: View) -> Session:
        status = tree.status(layout.SESSION)
        content = tree.read(layout.SESSION, limit=layout.JSON_LIMIT)
        if content is None or status is None:
            raise self._damage(layout.SESSION, "is missing")
        row = foreign.table(content, self._where(layout.SESSION))
        return foreign.session(self.id, row, foreign.mtime(status.st_mtime))

    def is_own(self) -> bool:
        """Tell whether this program wrote the archive: its manifest says so, or is there and damaged."""
        with self._tree() as tree:
            manifest = tree.manifest
            return layout.RECORD in manifest.files if manifest else tree.status(layout.MANIFEST) is not None

    def _own(self, tree: View, manifest: layout.Manifest | None) -> layout.Record | None:
        """Return what this program wrote in one file, if that is still what the manifest says."""
        if manifest is None or layout.RECORD not in manifest.files:
            return None
        content = tree.read(layout.RECORD, limit=layout.RECORD_LIMIT)
        if content is None or layout.sha256(content) != manifest.files[layout.RECORD].sha256:
            return None
        return layout.decode_record(content)

    def fields(self) -> dict[str, Any]:
        """Return what the record has beyond session.json."""
        with self._tree() as tree:
            own = self._own(tree, tree.manifest)
            return own.fields if own else {}

    def contents(self) -> tuple[Session, list[ContextItem], list[Run], list[RelevantOutput]]:
        """Return the record, the items and the runs together, of one generation."""
        return read_steadily(self._tree, self._contents)

    def _contents(self, tree: View) -> tuple[Session, list[ContextItem], list[Run], list[RelevantOutput]]:
        record, manifest = self._session(tree), tree.manifest
        own = self._own(tree, manifest)
        runs = own.runs if own else self._read_runs(tree)
        if record.cleanup_at:
            runs = removals.told(runs, manifest, record.cleanup_at, self._runs_with_output(tree))
        if own:
            return record, own.items, runs, own.relevant
        return record, self._read_items(tree), runs, self._read_relevant(tree)

    def items(self) -> list[ContextItem]:
        """Return every item, removed ones too, in the order they were added."""
        return self.contents()[1]

    def runs(self) -> list[Run]:
        """Return every run, oldest first."""
        return self.contents()[2]

    def relevant(self) -> list[RelevantOutput]:
        """Return the promoted outputs."""
        return self.contents()[3]

    def _read_items(self, tree: View) -> list[ContextItem]:
        found = [name[:-5] for name in tree.names("context/items") if name.endswith(".json")]
        return [
            foreign.item(item_id, self._json(tree, layout.item_path(item_id)))
            for item_id in sorted(filter(layout.ITEM_ID.fullmatch, found), key=lambda one: int(one[4:]))
        ]

    def _read_runs(self, tree: View) -> list[Run]:
        found = filter(layout.RUN_ID.fullmatch, tree.names("runs"))
        return [self._read_run(tree, run_id) for run_id in sorted(found, key=int)]

    def _read_run(self, tree: View, run_id: str) -> Run:
        status = tree.status(f"runs/{run_id}")
        meta = layout.run_path(run_id, "meta.json")
        row = self._json(tree, meta) if tree.status(meta) is not None else {}
        has_output = tree.status(layout.run_path(run_id, "output.txt")) is not None
        mtime_ms = foreign.mtime(status.st_mtime) if status else 0
        run = foreign.run(run_id, row, has_output=has_output, mtime_ms=mtime_ms)
        if run.prompt_preview is None and (pieces := tree.pieces(layout.run_path(run_id, "prompt.txt"), PREVIEW_BYTES)):
            run = msgspec.structs.replace(run, prompt_preview=preview(next(pieces, b"")))
        return run

    def _read_relevant(self, tree: View) -> list[RelevantOutput]:
        if tree.status(layout.RELEVANT) is None:
            return []
        return foreign.relevant(self._json(tree, layout.RELEVANT))

    def _json(self, tree: View, path: str) -> dict[str, Any]:
        content = tree.read(path, limit=layout.JSON_LIMIT)
        if content is None:
            raise FileCorrupt(f"{self._where(path)} is missing")
        return foreign.table(content, self._where(path))

    def sent_context(self, run_id: str) -> list[SentItem]:
        """Return what a run was given."""
        path = layout.run_path(_checked(run_id), "sent_context.json")
        with self._tree() as tree:
            content = tree.read(path, limit=layout.JSON_LIMIT)
        return [] if content is None else foreign.sent(content, self._where(path))

    def prompt(self, run_id: str) -> bytes:
        """Return a run's prompt; raise FileCorrupt when it is not what was sent."""
        _checked(run_id)
        return read_steadily(self._tree, lambda tree: self._prompt(tree, run_id))

    def _prompt(self, tree: View, run_id: str) -> bytes:
        path = layout.run_path(run_id, "prompt.txt")
        wanted = self._read_run(tree, run_id).prompt_digest
        content = tree.read(path, limit=layout.CONTENT_LIMIT)
        manifest = tree.manifest if content is None else None
        if manifest and path in manifest.removed:
            raise RemovedByCleanup(f"run {run_id}", manifest.removed[path].removed_at)
        if content is None and wanted:
            raise self._damage(path, "is missing")
        if content is not None and wanted and layout.is_digest(wanted) and layout.sha256(content) != wanted:
            raise self._damage(path, "is damaged: its digest does not fit")
        return content or b""

    def _damage(self, path: str, what: str) -> FileCorrupt:
        return FileCorrupt(f"{self._where(path)} {what}", hint=f"maestro verify {self.id}")

    def snapshot(self, item: ContextItem) -> bytes:
        """Return an item's content; raise FileCorrupt when it is not what was added."""
        return self._part(layout.named_blob(item.snapshot.blob), item.snapshot.digest)

    def blob(self, digest: str) -> bytes:
        """Return the content with this digest: an item's, or a prompt."""
        _, items, runs, _ = self.contents()
        for item in items:
            if item.snapshot.digest == digest:
                return self.snapshot(item)
        for run in runs:
            if run.prompt_digest == digest:
                return self.prompt(run.id)
            for path, known in layout.part_files(run):
                if known == digest:
                    return self._part(path, digest)
        raise FileCorrupt(f"the archive of {self.id} has no content with digest {digest[:80]}")

    def _part(self, path: str, digest: str) -> bytes:
        return read_steadily(self._tree, lambda tree: self._content(tree, path, digest))

    def _content(self, tree: View, path: str, digest: str) -> bytes:
        content = tree.read(path, limit=layout.CONTENT_LIMIT)
        if content is None:
            raise self._damage(path, "is missing")
        if layout.is_digest(digest) and layout.sha256(content) != digest:
            raise self._damage(path, "is damaged: its digest does not fit")
        return content

    def output(self, run_id: str) -> Iterator[bytes]:
        """Yield a run's output piece by piece; nothing when it left none.

        Hashed on the way: raises FileCorrupt at the end of one that is not what the run printed, and RemovedByCleanup
        instead of passing off what is gone for an empty text.
        """
        path = layout.run_path(_checked(run_id), "output.txt")
        wanted, is_there = read_steadily(self._tree, lambda tree: self._announced_output(tree, run_id, path))
        if not is_there:
            return
        with self._tree() as tree:
            pieces = tree.pieces(path)
            if pieces is None:  # a cleanup came in between
                yield from self.output(run_id)
                return
            digest, size = hashlib.sha256(), 0
            for piece in pieces:
                digest.update(piece)
                size += len(piece)
                yield piece
        if wanted and wanted.digest and layout.is_digest(wanted.digest) and digest.hexdigest() != wanted.digest:
            raise self._damage(path, "is damaged: its digest does not fit")
        if wanted and wanted.size is not None and size != wanted.size:
            raise self._damage(path, f"is damaged: {size} bytes, should be {wanted.size}")

    def _announced_output(self, tree: View, run_id: str, path: str) -> tuple[OutputRef | None, bool]:
        """Return what a run's output should be, and whether there is one; raise what `output` does."""
        wanted, found = self._read_run(tree, run_id).output_ref, tree.size(path)
        if found is None and wanted and wanted.size != 0:
            if removed_at := self._removed_at(tree, path):
                raise RemovedByCleanup(f"the output of run {run_id}", removed_at)
            raise self._damage(path, "is missing")
        most = layout.OUTPUT_LIMIT if wanted is None or wanted.size is None else wanted.size
        if found is not None and found > most:
            raise self._damage(path, f"is damaged: {found} bytes, should be {most} at most")
        return wanted, found is not None

    def _removed_at(self, tree: View, path: str) -> str | None:
        """Return when a cleanup removed a file that is not there; None when it should be there."""
        cleanup_at = self._session(tree).cleanup_at
        return removals.removed_at(path, tree.manifest, cleanup_at) if cleanup_at else None

    def last_output(self) -> dict[str, Any] | None:
        """Return which run's output is the last one."""
        with self._tree() as tree:
            if tree.status(layout.LAST_OUTPUT) is None:
                return None
            row = self._json(tree, layout.LAST_OUTPUT)
        run_id = str(row.get("run_id", ""))
        if not layout.RUN_ID.fullmatch(run_id):
            return None
        return {"run_id": run_id, "path": f"../runs/{run_id}/output.txt", "timestamp": str(row.get("timestamp", ""))}

    def runs_with_output(self) -> set[str]:
        """Return the runs whose output is there."""
        with self._tree() as tree:
            return self._runs_with_output(tree)

    def _runs_with_output(self, tree: View) -> set[str]:
        found = filter(layout.RUN_ID.fullmatch, tree.names("runs"))
        return {one for one in found if tree.status(layout.run_path(one, "output.txt")) is not None}

    def removed(self) -> list[str]:
        """Return the files that a cleanup removed, as far as the manifest knows."""
        with self._tree() as tree:
            manifest = tree.manifest
        return sorted(manifest.removed) if manifest else []

    def is_as_written(self, path: str) -> bool:
        """Tell whether a file is what the manifest says; one of another program's, without a manifest, always is."""
        with self._tree() as tree:
            manifest = tree.manifest
            if manifest is None or path not in manifest.files:
                return True
            try:
                return tree.entry(path) == manifest.files[path]
            except MaestroError:
                return False

    def files(self, path: str) -> list[str]:
        """Return the paths of all files in a folder of the archive."""
        with self._tree() as tree:
            return list(tree.walk(path)) if tree.status(path) is not None else []

    def document(self, path: str) -> dict[str, Any]:
        """Return a JSON file as it is, unknown fields and all."""
        with self._tree() as tree:
            return self._json(tree, path)

    def record_without(self, runs: set[str], relevant: list[RelevantOutput]) -> bytes:
        """Return maestro.json without some runs, and with these promoted outputs."""
        with self._tree() as tree:
            own = self._own(tree, tree.manifest)
        if own is None:
            raise FileCorrupt(f"{self._where(layout.RECORD)} is damaged")
        kept = [run for run in own.runs if run.id not in runs]
        return layout.encode_record(msgspec.structs.replace(own, runs=kept, relevant=relevant))

    def messages(self) -> list[Message]:
        """Return every message, those marked that were taken back."""
        found = list(self._lines(layout.MESSAGES, _message))
        return with_retractions(found, foreign.retracted(self.fields().get("retracted")))

    def kept(self) -> dict[str, bytes]:
        """Return what a framework keeps of its own, by name."""
        with self._tree() as tree:
            lines = _split_lines(tree.pieces(layout.KEPT) or iter(()), first=b"[")
            try:
                return {one.name: one.value for one in (_kept(line or b"") for line in lines)}
            except (*UNDECODABLE, TypeError) as error:
                raise self._damage(layout.KEPT, f"is damaged ({error})") from error

    def events(self) -> Iterator[Event]:
        """Yield the stored events, in order."""
        return self._lines(layout.EVENTS, _event)

    def chunks(self) -> Iterator[Chunk]:
        """Yield where the pieces of output ended, in order."""
        kept: list[Chunk] = []
        for chunk in self._lines(layout.CHUNKS, _chunk):
            if chunk.anew:
                kept = [one for one in kept if one.run != chunk.run]
            kept.append(chunk)
        return iter(kept)

    def _lines(self, path: str, decode: Callable[[bytes], _E]) -> Iterator[_E]:
        with self._tree() as tree:
            for number, line in enumerate(_split_lines(tree.pieces(path) or iter(())), start=1):
                try:
                    if line is None:
                        raise msgspec.DecodeError("it is longer than any can be, or not JSON")
                    value = decode(line)
                    if not _ENTRY_ID.fullmatch(value.id):
                        raise msgspec.DecodeError("its id is none")
                    yield value
                except UNDECODABLE as error:
                    raise FileCorrupt(f"{self._where(path)} is damaged in line {number} ({error})") from error


def _split_lines(pieces: Iterator[bytes], first: bytes = b"{") -> Iterator[bytes | None]:
    """Yield the lines; None, and no more, in place of one that is too long or does not begin as its value does."""
    waiting: list[bytes] = []
    size = 0
    for piece in pieces:
        *whole, rest = piece.split(b"\n")
        if whole:
            yield from (line for line in (b"".join((*waiting, whole[0])), *whole[1:]) if line)
            waiting, size = [], 0
        if not size and rest and rest[:1] != first:
            yield None
            return
        waiting.append(rest)
        size += len(rest)
        if size > layout.LINE_LIMIT:
            yield None
            return
    if size:
        yield b"".join(waiting)


def _checked(run_id: str) -> str:
    if not layout.RUN_ID.fullmatch(run_id):
        raise NotFound(f"'{run_id[:40]}' is not the id of a run", hint="maestro runs")
    return run_id


def index_rows(project: Project, home: Home) -> list[IndexRow]:
    """Read the rows of a new index from the archives themselves, those that cannot be read left out."""
    active = project.active()
    rows: list[IndexRow] = []
    for session_id in sorted(home.ids()):
        try:
            rows.append(IndexRow.of(ArchivedSession(home, session_id).record(), active=session_id == active))
        except MaestroError:
            continue
    return rows
