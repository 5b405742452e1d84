"""What may go from an archive after a while, and taking it away. Deciding is pure; doing is one more generation.

Only an ended session loses anything, counted from when it was ended, and only one whose archive this program wrote,
unless told otherwise. Never goes: the record, items and their contents, what runs were given and how they ended, the
last output, promoted outputs. A damaged archive is left alone, whatever its age: it may be the last copy.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from maestro_state.clock import from_iso, iso
from maestro_state.errors import ArchiveBusy, MaestroError
from maestro_state.mirror.home import Home
from maestro_state.mirror.layouts import session as layout
from maestro_state.mirror.reader import ArchivedSession
from maestro_state.mirror.verify import verify
from maestro_state.mirror.writer import replacing
from maestro_state.models.run import OPEN, RelevantOutput, Run, last_output
from maestro_state.models.session import Session
from maestro_state.vocabulary import FROZEN

_DAY_MS = 24 * 3600 * 1000
_LOG = re.compile(r"[A-Za-z0-9][\w.-]{0,200}\.log", re.ASCII)
#: The lock that keeps a second cleanup out.
LOCK = ".cleanup.lock"


class Damaged(msgspec.Struct, frozen=True):
    """An archive that was left alone, and why."""

    id: str
    reason: str


class CleanupReport(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What a cleanup did, or would do."""

    dry_run: bool
    removed: list[str]
    kept: int  #: outputs, dry runs and logs that were looked at and stay
    repaired: list[str] = []  #: lists of promoted outputs that were put right
    damaged: list[Damaged] = []
    foreign: list[str] = []  #: archives of other programs, which were left alone
    on_server: list[str] = []  #: ended so long ago, and left alone while the server still has them
    busy: bool = False

    def __add__(self, other: CleanupReport) -> CleanupReport:
        """Return what two of them did: one home after the other."""
        return CleanupReport(
            dry_run=self.dry_run,
            removed=self.removed + other.removed,
            kept=self.kept + other.kept,
            repaired=self.repaired + other.repaired,
            damaged=self.damaged + other.damaged,
            foreign=self.foreign + other.foreign,
            on_server=self.on_server + other.on_server,
            busy=self.busy or other.busy,
        )


class Plan(msgspec.Struct, frozen=True):
    """What goes from one archive."""

    outputs: list[str]  #: runs whose output goes
    dry_runs: list[str]  #: runs that go altogether
    kept: int
    relevant: list[RelevantOutput]  #: what relevant.json says afterwards


def is_due(session: Session, before_ms: int | None) -> bool:
    """Tell whether a session was ended before a time; None: whether it was ended at all.

    One that does not say when it was ended is never old enough.
    """
    if session.state not in FROZEN:
        return False
    if before_ms is None:
        return True
    ended = [from_iso(text) for text in (session.finalized_at, session.aborted_at) if text]
    return bool(ended) and max(ended) < before_ms


def plan(
    session: Session,
    runs: list[Run],
    relevant: list[RelevantOutput],
    last: str | None,
    present: set[str],
    *,
    before_ms: int | None,
) -> Plan:
    """Decide what goes from the archive of a session ended before a time; `present` are runs with an output."""
    is_old = is_due(session, before_ms)
    protected = {one.run_id for one in relevant} | ({last} if last else set())
    newest = last_output(runs)
    if newest:
        protected.add(newest["run_id"])
    outputs, dry_runs, kept = [], [], 0
    for run in runs:
        if run.removed_at:
            continue
        if is_old and run.status == "dry":
            dry_runs.append(run.id)
        elif is_old and run.id in present and run.id not in protected and run.status not in OPEN:
            outputs.append(run.id)
        else:
            kept += run.id in present or run.status == "dry"
    staying = present - set(outputs) - set(dry_runs)
    listed = [one for one in relevant if one.run_id in staying] if session.state in FROZEN else relevant
    return Plan(outputs, dry_runs, kept, listed)


def clean(
    home: Home,
    live: set[str],
    *,
    now_ms: int,
    days: int,
    dry_run: bool,
    foreign: bool = False,
    release: Callable[[str], bool] = lambda _: False,
) -> CleanupReport:
    """Clean every archive of a home that the server does not have any more, and the logs. Repeatable.

    `release` has the server let go of an ended session whose archive is whole, and tells whether it did.
    0 days is every ended session; with `foreign` also archives of other programs. A second one at the same time does
    nothing and says so. Raises ArchiveFailed when the disk does not take it.
    """
    report = CleanupReport(dry_run=dry_run, removed=[], kept=0)
    before_ms = now_ms - days * _DAY_MS
    try:
        folder = home.sessions()
    except FileNotFoundError:
        return report
    with folder, folder.try_locked(LOCK) as held:
        if held is None:
            report.busy = True
            return report
        ids = home.ids()
        released = set[str]()
        for session_id in sorted(ids & live):
            with suppress(MaestroError):  # damaged: the server has it whole, and whoever writes it next mends it
                archived = ArchivedSession(home, session_id)
                if not is_due(archived.record(), before_ms if days else None):
                    continue
                is_whole = archived.is_own() and verify(home, session_id).ok
                if is_whole and (dry_run or release(session_id)):
                    released.add(session_id)
                else:
                    report.on_server.append(session_id)
        for session_id in sorted((ids - live) | released):
            try:
                archived = ArchivedSession(home, session_id)
                if foreign or archived.is_own():
                    _clean_session(home, archived, report, before_ms=before_ms if days else None, now_ms=now_ms)
                else:
                    report.foreign.append(session_id)
            except ArchiveBusy:
                continue  # being written: it is not old
            except MaestroError as error:
                report.damaged.append(Damaged(session_id, str(error)))
        # One that was written to within a day may be somebody's who still does.
        _clean_logs(home, report, before_ms=min(before_ms, now_ms - _DAY_MS))
    return report


def _clean_session(
    home: Home, archived: ArchivedSession, report: CleanupReport, *, before_ms: int | None, now_ms: int
) -> None:
    session, _, runs, relevant = archived.contents()
    session_id = session.id
    last = (archived.last_output() or {}).get("run_id")
    present = archived.runs_with_output()
    wanted = plan(session, runs, relevant, last, present, before_ms=before_ms)
    report.kept += wanted.kept
    paths = [layout.run_path(run_id, "output.txt") for run_id in wanted.outputs]
    paths += [path for run_id in wanted.dry_runs for path in archived.files(f"runs/{run_id}")]
    # The record knows the promoted outputs too, so that a damaged list of them is not the last copy.
    is_list_damaged = session.state in FROZEN and not archived.is_as_written(layout.RELEVANT)
    needs_repair = is_list_damaged or wanted.relevant != relevant
    if not paths and not needs_repair:
        return
    damaged = [one for one in verify(home, session_id).damaged if not is_list_damaged or one.path != layout.RELEVANT]
    if damaged:
        shown = "; ".join(f"{one.path}: {one.reason}" for one in damaged[:3])
        report.damaged.append(Damaged(session_id, f"damaged, so nothing was removed ({shown})"))
        return
    if not report.dry_run:
        _apply(home, session_id, wanted, set(paths), removed_at=iso(now_ms))
    inside = f"{os.path.basename(home.path)}/sessions/{session_id}"
    report.removed += [f"{inside}/{path}" for path in paths]
    report.repaired += [f"{inside}/{layout.RELEVANT}"] if needs_repair else []


def _apply(home: Home, session_id: str, wanted: Plan, gone: set[str], *, removed_at: str) -> None:
    """Write the generation without what goes; old or new, never between."""
    archived = ArchivedSession(home, session_id)
    with replacing(home, session_id, adopt=True) as generation:
        manifest = generation.old
        if manifest is None:
            return
        document = archived.document(layout.SESSION) | {"cleanup_at": removed_at}
        rewritten = {layout.SESSION: layout.pretty(document)}
        if layout.RECORD in manifest.files:
            rewritten[layout.RECORD] = archived.record_without(set(wanted.dry_runs), wanted.relevant)
            rewritten[layout.RELEVANT] = layout.pretty({"items": wanted.relevant})
        elif layout.RELEVANT in manifest.files:
            rewritten[layout.RELEVANT] = layout.pretty(_without_broken(archived.document(layout.RELEVANT), wanted))
        for path in manifest.files:
            if path in gone:
                generation.drop(path, removed_at)
            elif path in rewritten:
                generation.append(path, rewritten[path], anew=True)  # never linked: it may be what is damaged
            elif not generation.keep(path):
                raise ArchiveBusy(f"{session_id} changed while it was cleaned")
        generation.commit(last_id=manifest.last_id, written_at=removed_at)


def _without_broken(document: dict[str, Any], wanted: Plan) -> dict[str, Any]:
    """Return another program's list of promoted outputs without those that are gone, everything else as it was."""
    staying = {one.run_id for one in wanted.relevant}
    rows = document.get("items")
    kept = [
        row
        for row in (rows if isinstance(rows, list) else [])
        if isinstance(row, dict) and str(row.get("run_id", "")) in staying
    ]
    return document | {"items": kept}


def _clean_logs(home: Home, report: CleanupReport, *, before_ms: int) -> None:
    try:
        folder = home.logs()
    except FileNotFoundError:
        return
    with folder:
        for name, kind in sorted(folder.kinds().items()):
            status = folder.status(name)
            if kind != "file" or status is None or not _LOG.fullmatch(name):
                continue
            if status.st_mtime * 1000 >= before_ms:
                report.kept += 1
                continue
            if not report.dry_run:
                folder.remove(name)
            report.removed.append(f"{os.path.basename(home.path)}/logs/{name}")
