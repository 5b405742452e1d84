"""Archives: write a session to disk now, verify, export, clean up, and the sweep that keeps everything on time."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, BinaryIO, cast

import msgspec

from maestro_state._sync.queue import Queue
from maestro_state._sync.records import Records
from maestro_state._sync.server import Server
from maestro_state.api.export import EXPORTS, write_export
from maestro_state.clock import iso
from maestro_state.errors import ArchiveFailed, InvalidValue, Refused, SessionNotFound
from maestro_state.local.embedded import erasure
from maestro_state.mirror.export import file_name
from maestro_state.mirror.home import Home
from maestro_state.mirror.leaks import Leak, find_leaks, marked
from maestro_state.mirror.places import Places
from maestro_state.mirror.redaction import Secrets
from maestro_state.mirror.retention import CleanupReport, clean
from maestro_state.mirror.verify import Damage, Report, verify
from maestro_state.models.binding import Bound
from maestro_state.search.removal import forget
from maestro_state.state.calls import checkpoints as archiving
from maestro_state.state.calls import index as index_ops
from maestro_state.state.calls import sessions as session_ops
from maestro_state.upkeep.archive_lock import once_unlocked
from maestro_state.upkeep.checkpoint import Checkpoint, Checkpoints
from maestro_state.upkeep.pull import Pull, Pulled
from maestro_state.upkeep.sweep import Follower, Recoverer, Sweep, SweepReport
from maestro_state.vocabulary import FROZEN

#: Longest retention: a hundred years.
_DAYS_MAX = 36_500


class Exported(msgspec.Struct, frozen=True):
    """Where an export is."""

    path: str
    format: str
    warnings: list[str]


class Archives:
    """What can be done with sessions on disk."""

    def __init__(
        self,
        server: Server,
        sessions: Records,
        places: Places,
        queue: Queue,
        *,
        retention_days: int,
        checkpoint_seconds: int,
        output_bytes: int,
        can_scan: bool,
    ) -> None:
        self._queue = queue
        self._server = server
        self._sessions = sessions
        self._places = places
        self._checkpoints = Checkpoints(server, places)
        self._days = retention_days
        self._horizon_ms = 2 * checkpoint_seconds * 1000
        self._can_scan = can_scan
        self._output_bytes = output_bytes

    def checkpoint(self, ref: str | None = None) -> Checkpoint:
        """Write a session to disk now; one that only the disk has is up to date."""
        source = self._sessions.source(ref)
        if source.archived:
            record = source.record()
            path = self._places.own.path_of(source.id)
            return Checkpoint(source.id, path, record.state, written=False, current=True)
        return self._checkpoints.checkpoint(source.id)

    def pull(self, ref: str, progress: Callable[[int, int], None] | None = None) -> Pulled:
        """Bring an archived session from the team's disk into this checkout, through the server; see AsyncPull."""
        pull = Pull(self._server, self._places, self._queue)
        try:
            session_id = self._sessions.resolve(ref)
        except SessionNotFound:
            # Nobody here knows it: a worker may, by the name that a framework's key gives to its sessions.
            session_id = bound.slug if (bound := Bound.in_reference(ref)) else ref
        if present := pull.present(session_id):
            return present
        state = self._server.connection.call("HGET", self._server.terms.keys.of_session(session_id, "session"), "state")
        if state is not None and state.decode() not in FROZEN:
            raise Refused(f"session {session_id} is live: it is read from the server", hint="maestro session sync")
        return pull.pull(session_id, progress)

    def send(self, ref: str, token: str, sender: str, is_stopping: Callable[[], object]) -> str | None:
        """Send an archive of this machine's to whoever asked for it; see AsyncPull."""
        return Pull(self._server, self._places, self._queue).send(ref, token, sender, is_stopping)

    def defer(self, session_id: str, reason: str) -> bool:
        """Note on a session why its archive waits, for doctor and whoever asks; False when it does not wait."""
        word = self._server.run(archiving.defer_archive(self._server.terms, session_id, reason))
        return bool(word == "OK")

    def verify(self, ref: str | None = None) -> Report:
        """Check every digest of a session's archive; without a reference, of this checkout's active session.

        One that is live and not on disk yet is written first.
        """
        session_id = self._sessions.resolve(ref)
        if session_id not in self._places.own.ids():
            self.checkpoint(session_id)
        return verify(self._places.own, session_id)

    def secrets(self, ref: str | None = None) -> list[Leak]:
        """Return where a session's archive holds what looks like a secret that a tool printed; never the value."""
        session_id = self._sessions.resolve(ref)
        if session_id not in self._places.own.ids():
            self.checkpoint(session_id)
        return find_leaks(self._places.own, session_id)

    def secrets_all(self) -> list[Leak]:
        """Return that of every archive within reach, by path from the folder of sessions."""
        found = []
        for home, session_id in self._archived():
            leaks = find_leaks(home, session_id)
            found += [Leak(f"{session_id}/{one.path}", one.line, one.rule) for one in leaks]
        return found

    def verify_all(self) -> Report:
        """Check every archive within reach: this checkout's, and with an archive root all that are below it."""
        checked, damaged, removed = 0, [], []
        for home, session_id in self._archived():
            report = verify(home, session_id)
            checked += report.checked
            damaged += [Damage(f"{session_id}/{one.path}", one.reason) for one in report.damaged]
            removed += [f"{session_id}/{path}" for path in report.removed]
        return Report(not damaged, checked, damaged, removed)

    def _archived(self) -> Iterator[tuple[Home, str]]:
        for home in self._places.homes():
            for session_id in sorted(home.ids()):
                yield home, session_id

    def unwritten(self) -> int:
        """Count the sessions with changes that are not on disk."""
        return sum(self._server.fetch_all(archiving.count_dirty(self._server.terms)))

    def sweep(
        self,
        recoverers: Sequence[Recoverer] = (),
        followers: Sequence[Follower] = (),
        *,
        thorough: bool = False,
        pause_ms: int = 0,
    ) -> SweepReport:
        """Do one pass of what is due; see Sweep."""
        return self._sweeper().sweep(recoverers, followers, thorough=thorough, pause_ms=pause_ms)

    def sweep_shards(self, pause_ms: int = 0) -> SweepReport:
        """Take a share of a pass that somebody else is in charge of; see Sweep."""
        return self._sweeper().sweep_shards(pause_ms)

    def _sweeper(self) -> Sweep:
        return Sweep(
            self._server, self._places, horizon_ms=self._horizon_ms, can_scan=self._can_scan, queue=self._queue
        )

    def cleanup(self, *, days: int | None = None, dry_run: bool = False, foreign: bool = False) -> CleanupReport:
        """Remove outputs and dry runs of sessions ended so many days ago, and old logs; 0 is every ended session.

        In all archives within reach: with an archive root, those of every project below it.
        Never anything of a session that was not ended, nor of an archive that another program wrote, unless `foreign`
        is given. The server lets go of an ended session first, if the disk has all of it; else it is left alone.

        Of the two clocks, ours and the server's, the earlier one decides what is old.
        """
        days = self._days if days is None else days
        if not 0 <= days <= _DAYS_MAX:
            raise InvalidValue(f"the days must be between 0 and {_DAYS_MAX}, not {days}")
        terms = self._server.terms
        now_ms = min(self._server.now_ms(), self._server.fetch(archiving.read_time()))
        entries = index_ops.all_sessions(self._server.fetch_all(index_ops.all_rows(terms)))
        live = {entry.id for entry in entries} | self._on_server({session_id for _, session_id in self._archived()})
        if not dry_run:
            erasure.ask(self._places.project.path)
        report = CleanupReport(dry_run=dry_run, removed=[], kept=0)
        for home in self._places.homes():
            report += clean(
                home, live, now_ms=now_ms, days=days, dry_run=dry_run, foreign=foreign, release=self._release
            )
        if not dry_run and report.removed:
            erasure.ask(self._places.project.path)
            forget(self._places.project, {part for path in report.removed for part in path.split("/")[2:3]})
        return report

    def _release(self, session_id: str) -> bool:
        """Have the server let go of a session that the disk has all of; tell whether it has."""
        terms = self._server.terms
        if self._server.run(session_ops.delete_session(terms, session_id, only_archived=True)) == "MOVED":
            return False
        self._server.unindex(session_id)
        return True

    def _on_server(self, ids: set[str]) -> set[str]:
        """Return those of some ids that the server has, whatever the index says."""
        ordered, keys = sorted(ids), self._server.terms.keys
        found = self._server.connection.calls([("EXISTS", keys.of_session(one, "session")) for one in ordered])
        return {one for one, exists in zip(ordered, found, strict=True) if exists}

    def export(
        self, ref: str | None = None, *, form: str = "md", output: str | None = None, redact: bool = False
    ) -> Exported:
        """Write a session's whole history to one file: in its archive's `exports/`, or where `output` says.

        With `redact`, what looks like a secret is replaced by what kind it is.
        """
        _check_form(form)
        session_id = self._sessions.resolve(ref)
        if output is None and not self._sessions.source(session_id).archived:
            self._checkpoints.checkpoint(session_id)
        with tempfile.TemporaryFile() as file:
            notes = self.write_export(cast(BinaryIO, file), session_id, form=form, redact=redact)
            file.seek(0)
            if output is not None:
                path = str(_put(Path(output), cast(BinaryIO, file)))
            else:
                name = file_name(iso(self._server.now_ms()), form)
                path = once_unlocked(lambda: self._places.own.put_export(session_id, name, _pieces(file)))
        return Exported(path, form, notes)

    def write_export(
        self, file: BinaryIO, ref: str | None = None, *, form: str = "md", redact: bool = False
    ) -> list[str]:
        """Write a session's whole history to an open file; return what a reader should be warned of."""
        _check_form(form)
        source = self._sessions.source(ref)
        redaction = Secrets() if redact else None
        notes = write_export(source, form, file, limit=self._output_bytes, redaction=redaction)
        if not redact and (count := marked(self._places.own, source.id)):
            places = "1 place looks" if count == 1 else f"{count} places look"
            notes.append(f"{places} like a secret that a tool printed: export --redact leaves it out")
        return notes


def _check_form(form: str) -> None:
    if form not in EXPORTS:
        raise InvalidValue(f"'{form[:20]}' is not a format", hint="md or json")


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    """Yield a file from its beginning: it is tried again while somebody else writes the archive."""
    file.seek(0)
    while piece := file.read(1 << 20):
        yield piece


def _put(path: Path, file: BinaryIO) -> Path:
    """Put an export where the user wants it: whole, or not at all, and never over something that is there."""
    if os.path.lexists(path):
        raise Refused(f"{path} is there already", hint="choose another name, or remove it first")
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent or ".", prefix=f".{path.name}.", delete=False) as aside:
            try:
                aside.writelines(_pieces(file))
                aside.close()
                os.replace(aside.name, path)
            except BaseException:  # also when interrupted
                os.unlink(aside.name)
                raise
    except OSError as error:
        raise ArchiveFailed(f"{path} could not be written: {os.strerror(error.errno or 0)}") from error
    return path.absolute()
