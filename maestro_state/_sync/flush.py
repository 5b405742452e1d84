# Generated from maestro_state/_async by `make generate`. Do not edit.
"""From the server to the disk: one session's next generation, as it was at one moment, and the mark that says so.

Read bounded: contents by digest one at a time, streams page by page. Incremental: the manifest's last id is the place
to go on from, and what did not change is linked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from maestro_state._sync.server import Server
from maestro_state._sync.source import FIRST, Live
from maestro_state.archive import layout
from maestro_state.archive.home import Home
from maestro_state.archive.places import Places
from maestro_state.archive.verify import verify
from maestro_state.archive.writer import Generation, replacing
from maestro_state.clock import iso, pause
from maestro_state.contents import last_output
from maestro_state.errors import ArchiveBusy, ArchiveFailed, FileCorrupt, SessionNotFound
from maestro_state.models import id_order
from maestro_state.ops import archiving
from maestro_state.ops.archiving import Moment
from maestro_state.ops.index import entry_of, index_session, read_summary
from maestro_state.project import IndexRow
from maestro_state.states import FROZEN

#: How often a session's lock is tried, and the pause between: a minute in all.
_TRIES = 3000
_PAUSE_S = 0.02

#: Contents fetched at a time, in number and in bytes.
_AHEAD = 32
_AHEAD_BYTES = 8 << 20


T = TypeVar("T")


class Flushed(msgspec.Struct, frozen=True):
    """What a flush did."""

    session_id: str
    path: str
    state: str
    written: bool  #: False when the archive was up to date already
    current: bool  #: False when the session moved on meanwhile: the archive is whole, but the next flush has more


class Flush:
    """Writes sessions to their archives."""

    def __init__(self, server: Server, places: Places) -> None:
        """Take the server to read from and the places to write to."""
        self._server = server
        self._places = places

    def flush(self, session_id: str, *, mark: bool = True) -> Flushed:
        """Bring a session's archive up to date, verify it, and let the server know. Repeatable, safe at once.

        Without `mark` the server keeps its keys for the full grace. Raises ArchiveFailed when the archive cannot be
        written: the session stays as it is.
        """
        progress = self._server.fetch(archiving.read_progress(self._server.terms, session_id))
        if progress.last_id is None:
            raise SessionNotFound(session_id)
        live = Live(self._server, session_id)
        home = self._places.of(session_id, progress.project)
        for _ in range(_TRIES):
            try:
                return self._flush(live, home, mark=mark)
            except ArchiveBusy:
                pause(_PAUSE_S)
        return self._flush(live, home, mark=mark)

    def _flush(self, live: Live, home: Home, *, mark: bool) -> Flushed:
        try:
            moment, written = self._write(live, home, fresh=False)
        except FileCorrupt:
            moment, written = self._write(live, home, fresh=True)
        if moment.session.state in FROZEN and not verify(home, live.id).ok:
            # The last chance to mend what the disk has lost, while the server still has everything.
            moment, written = self._write(live, home, fresh=True)
            if not verify(home, live.id).ok:
                raise ArchiveFailed(f"the archive of {live.id} does not hold what was written to it")
        if self._places.is_own(moment.project):
            self._places.project.index_refresh(IndexRow.of(moment.session))
        current = self._mark(live.id, moment.last_id) if mark else False
        path = home.path_of(live.id)
        return Flushed(live.id, path, moment.session.state, written, current)

    def _mark(self, session_id: str, last_id: str) -> bool:
        terms = self._server.terms
        server_ms = self._server.fetch(archiving.read_time())
        marked = self._server.run(archiving.mark_archived(terms, session_id, last_id, server_ms))
        if marked.summary:
            self._server.run(index_session(terms, entry_of(session_id, marked.summary)))
        elif marked.word == "MOVED":
            # It changed while it was written. Said once: a session that always does is not late for ever.
            newest = self._server.fetch(read_summary(terms, session_id))
            if newest:
                self._server.run(index_session(terms, entry_of(session_id, newest), is_on_disk=True))
        return bool(marked.word == "OK")

    def _write(self, live: Live, home: Home, *, fresh: bool) -> tuple[Moment, bool]:
        with replacing(home, live.id, fresh=fresh) as generation:
            # Read under the lock: of two flushes at once the second one sees what the first one wrote.
            moment = live.moment()
            old = generation.old
            if old and old.last_id == moment.last_id:
                return moment, False
            if old and old.last_id and id_order(old.last_id) > id_order(moment.last_id):
                raise ArchiveFailed(
                    f"the archive of {live.id} goes further than the server's session: it is kept as it is",
                    hint=f"maestro session fork {live.id} NEW continues from the archive",
                )
            if old and not old.last_id:
                raise FileCorrupt(f"the archive of {live.id} does not say how far it goes")
            _write_contents(generation, live, moment)
            start = f"({old.last_id}" if old else FIRST
            _write_streams(generation, live, start, moment)
            is_live = moment.session.state not in FROZEN
            generation.commit(last_id=moment.last_id, written_at=iso(self._server.now_ms()), keep_spare=is_live)
            return moment, True


def _write_contents(generation: Generation, live: Live, moment: Moment) -> None:
    """Write everything but the streams; what is as it was is not even written out to compare."""
    seen: dict[str, str] = {}
    known = generation.known()
    items = {item.id: item for item in known.items} if known else {}
    runs = {run.id: run for run in known.runs} if known else {}
    blobs = _Blobs(live, _wanted(generation, moment))
    for item in moment.items:
        path = layout.item_path(item.id)
        if not (items.get(item.id) == item and generation.keep(path)):
            generation.put(path, layout.pretty(item))
        _write_blob(generation, blobs, layout.blob_path(item.id), item.snapshot.digest, seen)
    for run in moment.runs:
        meta, sent = layout.run_path(run.id, "meta.json"), layout.run_path(run.id, "sent_context.json")
        # What a run is sent is settled when it is started: with the run known, so is that.
        if not (runs.get(run.id) == run and generation.keep(meta) and generation.keep(sent)):
            generation.put(meta, layout.pretty(run))
            generation.put(sent, layout.pretty(msgspec.json.decode(moment.sent.get(run.id, b"[]"))))
        if run.prompt_digest:
            _write_blob(generation, blobs, layout.run_path(run.id, "prompt.txt"), run.prompt_digest, seen)
    newest = last_output(moment.runs)
    active = {"items": [item.id for item in moment.items if item.state == "active"]}
    generation.put(layout.ACTIVE, layout.pretty(active | ({"last_output_ref": newest["run_id"]} if newest else {})))
    if newest:
        generation.put(layout.LAST_OUTPUT, layout.pretty(newest))
    generation.put(layout.RELEVANT, layout.pretty({"items": moment.relevant}))
    record = layout.Record(fields=moment.fields, items=moment.items, runs=moment.runs, relevant=moment.relevant)
    generation.put(layout.RECORD, layout.encode_record(record))
    document = msgspec.to_builtins(moment.session)
    del document["status"]  # follows from the clocks: it is true only while one looks
    generation.put(layout.SESSION, layout.pretty(document))


def _wanted(generation: Generation, moment: Moment) -> list[str]:
    """Return the digests that are not on disk yet, in the order they are asked for."""
    pairs = [(layout.blob_path(item.id), item.snapshot.digest) for item in moment.items]
    pairs += [(layout.run_path(run.id, "prompt.txt"), run.prompt_digest) for run in moment.runs if run.prompt_digest]
    return list(dict.fromkeys(digest for path, digest in pairs if not generation.has(path, digest)))


class _Blobs:
    """Contents fetched several at a time, as many as fit into a few megabytes."""

    def __init__(self, live: Live, wanted: list[str]) -> None:
        self.session_id = live.id
        self._live = live
        self._wanted = wanted
        self._ahead: dict[str, bytes] = {}

    def get(self, digest: str) -> bytes:
        if digest not in self._ahead and digest in self._wanted:
            at = self._wanted.index(digest)
            self._ahead = self._live.blobs(self._wanted[at : at + _AHEAD], _AHEAD_BYTES)
        return self._ahead.pop(digest, None) or self._live.blob(digest)


def _write_blob(generation: Generation, blobs: _Blobs, path: str, digest: str, seen: dict[str, str]) -> None:
    if not (generation.has(path, digest) and generation.keep(path)):
        if digest in seen:
            generation.same(path, seen[digest])
        else:
            content = blobs.get(digest)
            if layout.sha256(content) != digest:
                raise ArchiveFailed(f"the server's content of {path} in {blobs.session_id} does not fit its digest")
            generation.put(path, content, digest)
    seen.setdefault(digest, path)


def _write_streams(generation: Generation, live: Live, start: str, moment: Moment) -> None:
    """Append what the streams have got since; take the rest over as it is."""
    end = moment.last_id
    for messages in live.message_pages(start, end):
        generation.append(layout.MESSAGES, layout.json_lines([one.document() for one in messages]))
    for events in live.event_pages(start, end):
        generation.append(layout.EVENTS, layout.json_lines([one.document() for one in events]))
    printed: dict[str, str] = {}
    for pieces in live.output_pages(start, end, moment.printed):
        chunks: list[dict[str, object]] = []
        for entry_id, run_id, data in pieces:
            path, anew = printed.get(run_id), False
            if path is None:
                first = moment.first.get(run_id)
                if first and id_order(entry_id) < id_order(first):
                    continue  # printed by a try that was given up
                path = printed[run_id] = layout.run_path(run_id, "output.txt")
                anew = entry_id == first
            generation.append(path, data, anew=anew)
            chunk = {"id": entry_id, "run": run_id, "size": len(data)}
            chunks.append(chunk | {"anew": True} if anew else chunk)
        if chunks:
            generation.append(layout.CHUNKS, layout.json_lines(chunks))
    # Of a run that has printed nothing since it was put back, the archive has only what the given-up try printed.
    for path in (layout.MESSAGES, layout.EVENTS, layout.CHUNKS, *_outputs(moment)):
        if not generation.is_written(path) and generation.has(path) and not generation.keep(path):
            raise FileCorrupt(f"{path} of {live.id} is not what it was")


def _outputs(moment: Moment) -> list[str]:
    return [layout.run_path(run.id, "output.txt") for run in moment.runs if run.id in moment.first]


def patiently(action: Callable[[], T]) -> T:
    """Do something under a session's lock as soon as whoever holds it lets go. Never blocks the thread: the holder
    may be in it.
    """
    for _ in range(_TRIES):
        try:
            return action()
        except ArchiveBusy:
            pause(_PAUSE_S)
    return action()
