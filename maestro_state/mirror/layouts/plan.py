"""The plan on disk: `tracks.json`, `phases.json` and `tasks.json` in `docs/maestro/`, changed together or not at all.

A change is computed in memory and every new file written aside; then a note that names them and their digests. The
moment the note has its name is the moment of the change: the files are renamed into place, which needs no more room on
the disk, and the note is removed. A child does the renaming that goes on when this process is killed, so that other
programs, which know nothing of the note, see all files old or all files new. Where that is cut short too (a power cut),
whoever comes next finishes the work: any command about discussions, and every sweep. Tracks are renamed first and tasks
last, so that nothing refers to what is not there yet in between. Files that do not change are not touched.
"""

from __future__ import annotations

import hashlib
import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from maestro_state.errors import FileCorrupt, WorkFailed
from maestro_state.fs.handles import Folder
from maestro_state.models import strict_json
from maestro_state.models.plan import KINDS, Plan

HOME = ("docs", "maestro")

#: The note of a change under way: file name → SHA-256 of its new content, which waits under `aside(name)`.
JOURNAL = ".plan-change.json"

#: Largest plan file that is read.
LIMIT = 64 * 1024 * 1024

#: List → file it is in.
FILES = {row.plural: f"{row.plural}.json" for row in KINDS.values()}

#: Fields that come first in a record, in this order; the others follow by name.
_ORDER = {row.plural: (f"{kind}_id", f"{kind}_name", *([f"{row.parent}_id"] if row.parent else []), "status")
          for kind, row in KINDS.items()}  # fmt: skip

#: Names a killed change may leave: files that wait, and those that were being written.
_LEFT_ASIDE = re.compile(
    r"\.(tracks|phases|tasks)\.json\.next|\.\.((tracks|phases|tasks)\.json\.next|plan-change\.json)\.[0-9a-f]+\.tmp",
    re.ASCII,
)


def finish_change(root: Path) -> None:
    """Finish a change that somebody was killed in, if there is one: files of other programs' interest are no mixture
    of two plans for longer than it takes anybody to come by. Costs one call where there is none.
    """
    try:
        with open_folder(root, *HOME, create=False) as folder:
            is_due = folder.status(JOURNAL) is not None
    except (FileNotFoundError, WorkFailed):
        return
    if is_due:
        with PlanFiles.hold(root):
            pass


def open_folder(root: Path, *names: str, create: bool) -> Folder:
    """Open a folder of the project, made as its user makes folders; FileNotFoundError when it is not there."""
    return Folder.open(str(root), *names, create=create, mode=0o777)


class PlanFiles:
    """The plan files, held so that nobody else changes them meanwhile."""

    def __init__(self, folder: Folder) -> None:
        """Use `hold`."""
        self._folder = folder
        self._before: dict[str, bytes | None] = {}
        self._documents: dict[str, dict[str, Any]] = {}

    @classmethod
    @contextmanager
    def hold(cls, root: Path) -> Iterator[PlanFiles]:
        """Hold the plan of a project; a change that somebody was killed in is finished first."""
        with open_folder(root, *HOME, create=True) as folder, folder.held():
            files = cls(folder)
            files._finish()
            yield files

    def read(self) -> Plan:
        """Read the three lists; one that has no file is empty. Raise FileCorrupt for a file that is no such list."""
        plan: Plan = {}
        for plural, name in FILES.items():
            content = self._folder.read(name, limit=LIMIT)
            self._before[plural] = content
            self._documents[plural] = document = {plural: []} if content is None else _document(plural, content)
            plan[plural] = document[plural]
        return plan

    def changes(self, plan: Plan) -> dict[str, bytes]:
        """Return the new content of every file that a plan changes, by name."""
        changed = {}
        for plural, records in plan.items():
            document = self._documents[plural]
            if not strict_json.same(records, document[plural]):
                ordered = [_ordered(plural, record) for record in records]
                changed[FILES[plural]] = strict_json.page(document | {plural: ordered}, ascii_only=False)
        return changed

    def content(self, name: str) -> bytes:
        """Return a file as it was read; empty when there is none."""
        return self._before[name.removesuffix(".json")] or b""

    def commit(self, changes: dict[str, bytes]) -> None:
        """Put the new files in place, all or none."""
        if not changes:
            return
        for name, content in changes.items():
            self._folder.replace(_aside(name), content, mode=0o666)
        note = {name: _digest(content) for name, content in changes.items()}
        self._folder.replace(JOURNAL, strict_json.page(note), mode=0o666)
        self._place(note)

    def _place(self, note: dict[str, str]) -> None:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # the child has it from us
        try:
            self._move_apart(note)
            self._move(note)  # what is left: there was no child, or somebody killed it
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self._folder.sync()
        self._folder.remove(JOURNAL)

    def _move_apart(self, note: dict[str, str]) -> None:
        """Move the files in a child that neither a kill of this process nor one of its group can stop between two of
        them. It has our hold on the folder: whoever comes by waits for it.

        There may be threads, whose locks nobody lets go of in the child: it does nothing but these calls and exits.
        """
        if len(note) < 2:
            return  # one is whole by itself
        try:
            child = os.fork()
        except OSError:
            return  # no room for one more process
        if child == 0:
            try:
                os.setsid()
                self._move(note)
            finally:
                os._exit(0)
        with suppress(ChildProcessError):  # where SIGCHLD is ignored, this is said when it has ended
            os.waitpid(child, 0)

    def _move(self, note: dict[str, str]) -> None:
        for name in note:
            with suppress(FileNotFoundError):  # it is in place already
                self._folder.move(_aside(name), name)

    def _finish(self) -> None:
        """Finish the change of a process that was killed; without a note, remove what it left aside."""
        names = self._folder.names()
        if JOURNAL in names:
            self._place(self._note())
        for name in self._folder.names():
            if _LEFT_ASIDE.fullmatch(name):
                self._folder.remove(name)

    def _note(self) -> dict[str, str]:
        """Read the note and see that each file it names is there as it says; an untrusted note is not followed."""
        try:
            note = strict_json.read(self._folder.read(JOURNAL, limit=4096) or b"")
            if not isinstance(note, dict) or not set(note) <= set(FILES.values()):
                raise ValueError("it names other files than the plan's")
            for name, digest in note.items():
                content = self._folder.read(_aside(name), limit=LIMIT) or self._folder.read(name, limit=LIMIT)
                if content is None or _digest(content) != digest:
                    raise ValueError(f"{name} is not what it says")
        except ValueError as error:
            raise FileCorrupt(
                f"docs/maestro/{JOURNAL} is not a change Maestro left ({error})", hint="look at it and move it away"
            ) from error
        return dict(note)


def _aside(name: str) -> str:
    return f".{name}.next"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _document(plural: str, content: bytes) -> dict[str, Any]:
    """Read one plan file; every record has an id of its own, and all text can be written again."""
    key = _ORDER[plural][0]
    try:
        document = strict_json.read(content)
        if not isinstance(document, dict) or not isinstance(document.get(plural), list):
            raise ValueError(f"it is not an object with the list {plural}")
        ids = [record.get(key) if isinstance(record, dict) else None for record in document[plural]]
        if not all(strict_json.is_text(one) for one in ids):
            raise ValueError(f"a record has no {key}")
        if len(set(ids)) != len(ids):
            raise ValueError(f"two records have the same {key}")
        strict_json.page(document, ascii_only=False)
    except ValueError as error:
        raise FileCorrupt(
            f"docs/maestro/{FILES[plural]} cannot be used: {error}", hint="correct it, or restore it from git"
        ) from error
    return dict(document)


def _ordered(plural: str, record: dict[str, Any]) -> dict[str, Any]:
    """Return a record with its fields in the order every file has."""
    first = [name for name in _ORDER[plural] if name in record]
    return {name: record[name] for name in [*first, *sorted(set(record) - set(first))]}
