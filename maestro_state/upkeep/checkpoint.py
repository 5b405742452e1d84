"""From the server to the disk: one session's next generation, as it was at one moment, and the mark that says so.

Read bounded: contents a megabyte at a time, streams page by page. Incremental: the manifest's last id is the place
to go on from, and what did not change is linked.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import msgspec

from maestro_state._sync.server import Server
from maestro_state._sync.source import FIRST, Live
from maestro_state.clock import iso
from maestro_state.errors import ArchiveBusy, ArchiveFailed, FileCorrupt, MaestroError, SessionNotFound
from maestro_state.local.project import IndexRow
from maestro_state.mirror.home import Home
from maestro_state.mirror.layouts import session as layout
from maestro_state.mirror.leaks import mark
from maestro_state.mirror.places import Places
from maestro_state.mirror.verify import verify
from maestro_state.mirror.writer import Generation, replacing
from maestro_state.models.context import ContextItem
from maestro_state.models.message import id_order
from maestro_state.models.run import Run, last_output
from maestro_state.state.calls import checkpoints as archiving
from maestro_state.state.calls.checkpoints import Before, Moment
from maestro_state.state.calls.index import entry_of, read_summary
from maestro_state.upkeep.archive_lock import once_unlocked
from maestro_state.upkeep.stream_archiving import is_of_this_history, merge_streams, write_streams
from maestro_state.vocabulary import FROZEN

Part = TypeVar("Part", ContextItem, Run)


class Checkpoint(msgspec.Struct, frozen=True):
    """What a checkpoint did."""

    session_id: str
    path: str
    state: str
    written: bool  #: False when the archive was up to date already
    current: bool  #: False when the session moved on meanwhile: the archive is whole, but the next checkpoint has more


class Checkpoints:
    """Writes sessions to their archives."""

    def __init__(self, server: Server, places: Places, index: Callable[[IndexRow], object] | None = None) -> None:
        """Take what puts a session's row into the checkout's index, where that is not to be done one by one."""
        self._server = server
        self._places = places
        self._index = index or places.project.index_refresh

    def checkpoint(self, session_id: str) -> Checkpoint:
        """Bring a session's archive up to date, verify it, and let the server know. Repeatable, safe at once.

        Raises ArchiveFailed when the archive cannot be written: the session stays as it is.
        """
        progress = self._server.fetch(archiving.read_progress(self._server.terms, session_id))
        if progress.last_id is None:
            raise SessionNotFound(session_id)
        if progress.filling and progress.state not in FROZEN:
            # Its messages keep their ids: written now, those that are still to come would be passed over for ever.
            raise ArchiveBusy(f"session {session_id} is still taking over what it is a fork of", hint="try again")
        live = Live(self._server, session_id)
        home = self._places.of(session_id, progress.project)
        return once_unlocked(lambda: self._checkpoint(live, home))

    def _checkpoint(self, live: Live, home: Home) -> Checkpoint:
        moment, written = self._written(live, home)
        if moment.session.state in FROZEN and not verify(home, live.id).ok:
            # The last chance to mend what the disk has lost, while the server still has everything.
            moment, written = self._write(live, home, fresh=True)
            if not verify(home, live.id).ok:
                raise ArchiveFailed(f"the archive of {live.id} does not hold what was written to it")
        if self._places.is_own(moment.project):
            self._index(IndexRow.of(moment.session))
        current = self._mark(live.id, moment.last_id)
        if written and moment.session.state in FROZEN:
            # Last: whoever waits for the archive has it by now, and it is whole without.
            with suppress(MaestroError, OSError):
                mark(home, live.id)
        path = home.path_of(live.id)
        return Checkpoint(live.id, path, moment.session.state, written, current)

    def _mark(self, session_id: str, last_id: str) -> bool:
        terms = self._server.terms
        server_ms = self._server.fetch(archiving.read_time())
        marked = self._server.run(archiving.mark_archived(terms, session_id, last_id, server_ms))
        if marked.summary:
            self._server.index(entry_of(session_id, marked.summary))
        elif marked.word == "MOVED":
            # It changed while it was written. Said once: a session that always does is not late for ever.
            newest = self._server.fetch(read_summary(terms, session_id))
            if newest:
                self._server.index(entry_of(session_id, newest), is_on_disk=True)
        return bool(marked.word == "OK")

    def _written(self, live: Live, home: Home) -> tuple[Moment, bool]:
        with suppress(FileCorrupt):
            return self._write(live, home, fresh=False)
        return self._write(live, home, fresh=True)

    def _write(self, live: Live, home: Home, *, fresh: bool) -> tuple[Moment, bool]:
        with replacing(home, live.id, fresh=fresh) as generation:
            # Read under the lock: of two at once the second one sees what the first one wrote.
            old, before = generation.old, _before(generation)
            if old and not old.last_id:
                raise FileCorrupt(f"the archive of {live.id} does not say how far it goes")
            moment = live.moment(before)
            is_known = old is not None and is_of_this_history(generation, live, old.last_id, moment)
            if old and is_known and old.last_id == moment.last_id:
                return moment, False
            is_frozen = moment.session.state in FROZEN
            if old and not is_frozen and id_order(old.last_id) > id_order(moment.last_id):
                raise ArchiveFailed(
                    f"the archive of {live.id} goes further than the server's session: it is kept as it is",
                    hint=f"maestro session fork {live.id} NEW continues from the archive",
                )
            if is_known and not is_frozen and not moment.is_whole:
                generation.change_in_place()
            _write_contents(generation, live, moment, before)
            _write_kept(generation, live, moment)
            if old and not is_known:
                merge_streams(generation, live, moment)
            else:
                write_streams(generation, live, f"({old.last_id}" if old else FIRST, moment)
            generation.commit(
                last_id=moment.last_id,
                written_at=iso(self._server.now_ms()),
                keep_replaced=not is_known,  # it may have what the server has not
            )
            return moment, True


def _before(generation: Generation) -> Before | None:
    """Return what the archive has; None when there is none to go on from."""
    known = generation.known()
    if known is None or generation.old is None:
        return None
    return Before(generation.old.last_id, known.items, known.runs, known.relevant)


def _write_contents(generation: Generation, live: Live, moment: Moment, before: Before | None) -> None:
    """Write everything but the streams. Of a session that was read whole every file is compared with what the archive
    has; else what is as it was is not even read.
    """
    generation.keep_all(_wanted(moment) if moment.is_whole else None)
    known = before if before and not moment.is_whole else None
    items = _changed(moment.items, known.items if known else [])
    runs = _changed(moment.runs, known.runs if known else [])
    for item in items:
        generation.put(layout.item_path(item.id), layout.pretty(item))
    for run in runs:
        generation.put(layout.run_path(run.id, "meta.json"), layout.pretty(run))
        sent = layout.pretty(msgspec.json.decode(moment.sent.get(run.id, b"[]")))
        generation.put_lasting(layout.run_path(run.id, "sent_context.json"), sent, layout.sha256(sent))
    _write_blobs(generation, live, items, runs)
    newest = last_output(moment.runs)
    active = {"items": [item.id for item in moment.items if item.state == "active"]}
    generation.put(layout.ACTIVE, layout.pretty(active | ({"last_output_ref": newest["run_id"]} if newest else {})))
    if newest:
        generation.put(layout.LAST_OUTPUT, layout.pretty(newest))
    else:
        generation.leave_out(layout.LAST_OUTPUT)
    generation.put(layout.RELEVANT, layout.pretty({"items": moment.relevant}))
    record = layout.Record(fields=moment.fields, items=moment.items, runs=moment.runs, relevant=moment.relevant)
    generation.put(layout.RECORD, layout.encode_record(record))
    document = msgspec.to_builtins(moment.session)
    del document["status"]  # follows from the clocks: it is true only at the moment it is asked for
    generation.put(layout.SESSION, layout.pretty(document))


def _write_kept(generation: Generation, live: Live, moment: Moment) -> None:
    """Write what a framework keeps of its own, if that changed since; what changes meanwhile is written next time."""
    changed_at, old = moment.fields.get("kept_id"), generation.old
    if changed_at is None:
        generation.leave_out(layout.KEPT)
    elif not generation.has(layout.KEPT) or old is None or id_order(changed_at) > id_order(old.last_id):
        rows = [layout.Kept(name, value) for name, value in sorted(live.kept().items())]
        generation.put(layout.KEPT, layout.json_lines(rows))


def _wanted(moment: Moment) -> set[str]:
    """Return every file the archive of a session has: there may be others, of a history that the server gave up."""
    wanted = {layout.SESSION, layout.ACTIVE, layout.LAST_OUTPUT, layout.RELEVANT, layout.RECORD,
              layout.MESSAGES, layout.EVENTS, layout.CHUNKS, layout.KEPT}  # fmt: skip
    for item in moment.items:
        wanted |= {layout.item_path(item.id), layout.blob_path(item.id)}
    for run in moment.runs:
        names = ("meta.json", "sent_context.json", "prompt.txt", "output.txt", "activity.jsonl")
        wanted |= {layout.run_path(run.id, name) for name in names}
        wanted |= {path for path, _ in layout.part_files(run)}
    return wanted


def _changed(found: list[Part], known: list[Part]) -> list[Part]:
    """Return what is not as the archive has it; what a run was sent is settled when it starts, so the run tells."""
    before = {one.id: one for one in known}
    return [one for one in found if before.get(one.id) != one]


def _write_blobs(generation: Generation, live: Live, items: list[ContextItem], runs: list[Run]) -> None:
    """Write what items and prompts contain; what the archive has under any name is not even fetched."""
    wanted = [(layout.blob_path(item.id), item.snapshot.digest) for item in items]
    wanted += [(layout.run_path(run.id, "prompt.txt"), run.prompt_digest) for run in runs if run.prompt_digest]
    wanted += [row for run in runs for row in layout.part_files(run)]
    missing: dict[str, list[str]] = {}
    for path, digest in wanted:
        if not generation.share(path, digest):
            missing.setdefault(digest, []).append(path)
    for digest, content in live.blobs(list(missing)):
        if layout.sha256(content) != digest:
            raise ArchiveFailed(f"the server's content of {missing[digest][0]} in {live.id} does not fit its digest")
        for path in missing[digest]:
            generation.put_lasting(path, content, digest)
