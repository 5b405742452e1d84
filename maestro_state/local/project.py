"""The project a command works in: its root, its `.maestro/` folder, and the two small files that say which session this
checkout is on (`sessions/active`, `sessions/index.json`). Everything else on disk is the archive's.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from maestro_state.errors import FileCorrupt, MaestroError, NoProject, UsageError, WorkFailed
from maestro_state.fs.handles import Folder, refusal
from maestro_state.fs.private import read_project_file
from maestro_state.local.checkouts import find_checkout, home_of, is_begun, is_too_wide
from maestro_state.models.names import is_session_id

if TYPE_CHECKING:
    from pathlib import Path

    from maestro_state.models.session import Session, SessionSummary

#: Written once, and the user's from then on. Prompts and answers must not slip into a commit; what is below the first
#: rule is machine-local, also for who commits sessions on purpose.
_GITIGNORE = b"""\
# Sessions hold prompts, answers and copies of files. Take the next line away to commit them.
/sessions/
/logs/
/server/
/trash/
/sessions/active
/sessions/.*
/config/.*
"""
#: What earlier versions wrote. As long as it is untouched it is replaced; nobody gets it by taking lines out of ours.
_OLD_GITIGNORE = b"/server/\n/logs/\n/trash/\n/sessions/active\n/sessions/.*\n"

_GITIGNORE_LIMIT = 64 * 1024

#: Names the session that a checkout is on.
_ACTIVE = ".maestro/sessions/active"

#: The list of sessions that other programs and the shell read: a cache, which the archives themselves can rebuild.
INDEX = "index.json"
#: Where a damaged or outdated one is set aside.
SET_ASIDE = "index.json.damaged"

#: Largest index file that is read: far above 100 000 sessions.
_INDEX_LIMIT = 64 * 1024 * 1024


#: Rows up to which an index is rewritten in a millisecond or two.
_SHORT_INDEX = 1000


class IndexRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """One session in `sessions/index.json`."""

    id: str
    slug: str
    state: str
    created_at: str
    updated_at: str
    finalized_at: str | None = None
    active: bool | None = None

    @classmethod
    def of(cls, found: Session | SessionSummary, *, active: bool = False) -> IndexRow:
        """Return the row of a session, from its record or its summary."""
        return cls(
            id=found.id,
            slug=found.slug,
            state=found.state,
            created_at=found.created_at,
            updated_at=found.updated_at,
            finalized_at=found.finalized_at,
            active=True if active else None,
        )


#: What turns the rows of an index into those it shall have.
Change = Callable[[list[IndexRow]], list[IndexRow]]


class _IndexFile(msgspec.Struct, frozen=True):
    sessions: list[IndexRow]


_decode_index = msgspec.json.Decoder(_IndexFile).decode


class Project:
    """One project, seen from one of its checkouts: worktrees of a repository share the main one's, but for `active`."""

    def __init__(self, root: str, checkout: str | None = None, *, is_named: bool = True) -> None:
        """Take the root and the checkout; `is_named` when somebody said that it is one. Nothing is written yet."""
        self.path = root  #: the project's top folder
        self.checkout = checkout or root  #: where its files are and runs work
        self._is_named = is_named
        #: What reads rows of the index from the archives; whoever knows archives says so.
        self.read_rows: Callable[[], list[IndexRow]] = list
        #: Who is told, in one line, that something was put right.
        self.warn: Callable[[str], None] = _log_warning

    @classmethod
    def at(cls, folder: str | os.PathLike[str] | None = None) -> Project:
        """Find the project of a folder, by default the current one."""
        checkout = find_checkout(folder or ".")
        return cls(home_of(checkout), checkout, is_named=folder is not None)

    @property
    def root(self) -> Path:
        """Return the project's top folder as a Path."""
        from pathlib import Path  # 10 ms that most commands do without

        return Path(self.path)

    def begin(self) -> None:
        """Make this folder a project if it is none yet; refuses a home, or the whole system, that nobody named."""
        if is_begun(self.path):
            self._remember()
            return
        if is_too_wide(self.path) and not self._is_named:
            raise UsageError(
                f"{self.path} is {'the whole system' if self.path == '/' else 'your home'}, not a project",
                hint=f"cd into a project, or name it: maestro --project {self.path} …",
            )
        self.sessions(create=True).close()
        self._remember()

    def _remember(self) -> None:
        from maestro_state.local.registry import remember

        remember(self.path, os.environ)

    def check_begun(self) -> None:
        """Raise NoProject where there is nothing to read: reading makes nothing."""
        if not is_begun(self.path):
            raise NoProject(self.path)

    def folder(self, *names: str, create: bool = False) -> Folder:
        """Open `.maestro/` or a folder in it; FileNotFoundError when there is none and it shall not be made."""
        return _open_maestro(self.path, *names, create=create)

    def sessions(self, *, create: bool = False) -> Folder:
        """Open `.maestro/sessions/`; FileNotFoundError when there is none and it shall not be made."""
        return self.folder("sessions", create=create)

    def active(self) -> str | None:
        """Return the id of the session this checkout is on."""
        try:
            content = read_project_file(self.checkout, _ACTIVE)
        except OSError as error:
            path = os.path.join(self.checkout, os.path.dirname(_ACTIVE), error.filename or "active")
            if error.errno:
                raise refusal(error, path) from error
            raise FileCorrupt(f"{path} is not a file of Maestro's", hint="move it away") from error
        if content is None or not content.strip():
            return None
        session_id = content.decode("utf-8", "replace").strip()
        if not is_session_id(session_id):
            raise FileCorrupt(f"{_ACTIVE} does not hold a session id", hint="maestro session switch REF writes it anew")
        return session_id

    def active_mark(self) -> tuple[int, int, int] | None:
        """Return what is another after every change of the active session: one stat, nothing is read."""
        try:
            found = os.stat(os.path.join(self.checkout, ".maestro", "sessions", "active"), follow_symlinks=False)
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_ctime_ns

    def set_active(self, session_id: str | None) -> None:
        """Put this checkout on a session, or on none."""
        with _open_maestro(self.checkout, "sessions", create=True) as folder:
            if session_id is None:
                folder.remove("active")
            else:
                folder.replace("active", f"{session_id}\n".encode(), mode=0o644)

    def index(self) -> list[IndexRow]:
        """Read `index.json`; an empty list when there is none."""
        try:
            with self.sessions() as folder:
                found = _read_index(folder)
        except FileNotFoundError:
            return []
        return found.sessions if found else []

    def index_put(self, row: IndexRow) -> None:
        """Add or replace a session's row; two terminals doing so at once lose nothing."""
        self._rewrite(lambda rows: [*(one for one in rows if one.id != row.id), row])

    def index_refresh(self, *newer: IndexRow) -> None:
        """Bring sessions' rows up to date, their `active` marks kept.

        While only its time of activity moves, it is written once a minute; in a long index, where that costs more than
        it tells, once an hour.
        """

        def fresh(rows: list[IndexRow]) -> list[IndexRow]:
            known = {one.id: one for one in rows}
            grain = len("2026-11-16T04:05") if len(rows) <= _SHORT_INDEX else len("2026-11-16T04")
            changed = {}
            for row in newer:
                one = known.get(row.id)
                wanted = msgspec.structs.replace(row, active=one.active if one else None)
                same = one and msgspec.structs.replace(one, updated_at=row.updated_at) == wanted
                if not (same and one and one.updated_at[:grain] == row.updated_at[:grain]):
                    changed[row.id] = wanted
            return [*(one for one in rows if one.id not in changed), *changed.values()] if changed else rows

        self._rewrite(fresh)

    def index_add(self, added: list[IndexRow]) -> None:
        """Add or replace the rows of many sessions in one write, their `active` marks kept."""

        def merged(rows: list[IndexRow]) -> list[IndexRow]:
            marks, ids = {one.id: one.active for one in rows}, {one.id for one in added}
            fresh = [msgspec.structs.replace(one, active=marks.get(one.id)) for one in added]
            return [*(one for one in rows if one.id not in ids), *fresh]

        self._rewrite(merged)

    def index_drop(self, session_id: str) -> None:
        """Remove a session's row."""
        self._rewrite(lambda rows: [one for one in rows if one.id != session_id])

    def index_mark_active(self, session_id: str | None) -> None:
        """Move the `active` mark."""

        def mark(row: IndexRow) -> IndexRow:
            return msgspec.structs.replace(row, active=True if row.id == session_id else None)

        self._rewrite(lambda rows: [mark(row) for row in rows])

    def index_rebuild(self, rows: list[IndexRow]) -> None:
        """Set a damaged or outdated index aside and write a new one."""
        with self.sessions(create=True) as folder, folder.locked(".index.lock"):
            _set_aside(folder)
            folder.replace(INDEX, _encode_index(rows), mode=0o644)

    def _rewrite(self, change: Change) -> None:
        with self.sessions(create=True) as folder, folder.locked(".index.lock"):
            rows, is_whole = self._rows_or_rebuilt(folder, change)
            changed = change(rows)
            if changed != rows or not is_whole:
                folder.replace(INDEX, _encode_index(changed), mode=0o644)

    def _rows_or_rebuilt(self, folder: Folder, change: Change) -> tuple[list[IndexRow], bool]:
        """Read the index; where it is damaged or missing, what the archives say, and that it has to be written."""
        try:
            found = _read_index(folder)
        except FileCorrupt as error:
            rows = self.read_rows()
            _set_aside(folder)
            self.warn(f"{error}: set aside as {SET_ASIDE}, rebuilt from {_archives(len(rows))}")
            return rows, False
        if found is not None:
            return found.sessions, True
        rows = self.read_rows()
        # The first session of a checkout is no news: whoever writes its row knows it.
        if {row.id for row in rows} - {row.id for row in change([])}:
            self.warn(f".maestro/sessions/{INDEX} was missing: rebuilt from {_archives(len(rows))}")
        return rows, not rows


def _log_warning(text: str) -> None:
    from maestro_state.local.logs import get_logger

    get_logger("maestro.project").warning("put_right", reason=text)


def _archives(count: int) -> str:
    return f"{count} archived session{'' if count == 1 else 's'}"


def _set_aside(folder: Folder) -> None:
    """Move whatever is in the index's place out of the way, over one that was set aside before."""
    found, there = folder.status(INDEX), folder.status(SET_ASIDE)
    if found is None:
        return
    # What is no file stays where it is, and a folder takes no file's place.
    is_in_the_way = there is not None and (not stat.S_ISREG(there.st_mode) or stat.S_ISDIR(found.st_mode))
    folder.move(INDEX, f"{SET_ASIDE}.{os.urandom(4).hex()}" if is_in_the_way else SET_ASIDE)


def _ignore(folder: Folder) -> None:
    """Keep what is in `.maestro/` out of commits, unless its user decided otherwise."""
    try:
        found = folder.read(".gitignore", limit=_GITIGNORE_LIMIT)
    except MaestroError:
        return  # a link, or larger than any of ours: somebody's own
    if found is None or found == _OLD_GITIGNORE:
        folder.replace(".gitignore", _GITIGNORE, mode=0o644)


def _open_maestro(root: str, *names: str, create: bool = False) -> Folder:
    if create:
        with Folder.open(root, ".maestro", create=True) as folder:
            _ignore(folder)
    return Folder.open(root, ".maestro", *names, create=create)


def _read_index(folder: Folder) -> _IndexFile | None:
    try:
        content = folder.read(INDEX, limit=_INDEX_LIMIT)
    except WorkFailed as error:
        raise FileCorrupt(str(error), hint=error.hint) from error  # a link, a socket: no reason to stop
    if content is None:
        return None
    try:
        return _decode_index(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FileCorrupt(
            f".maestro/sessions/{INDEX} is damaged ({error})",
            hint="the next command that writes it sets it aside and rebuilds it",
        ) from error


def _encode_index(rows: list[IndexRow]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(_IndexFile(rows)), indent=2) + b"\n"
