"""Where archives are: `sessions/<id>/`, a hidden folder to build the next generation in, and the trash.

Everything that moves or removes an archive is here, under the session's lock. A name that is not a session id never
gets as far as the disk.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Protocol

from maestro_state.errors import ArchiveBusy, MaestroError, SessionNotFound, WorkFailed
from maestro_state.fs.handles import Folder
from maestro_state.local.project import Project
from maestro_state.models.names import is_session_id, slugify

#: The folder generations are built in: hidden, git-ignored, on the same file system.
STAGING = ".staging"
TRASH = "trash"
#: What an earlier version kept beside the sessions to build checkpoints on: removed where it is found.
_SPARE = ".spare"

_STAGED = re.compile(
    r"(?P<id>[^/.]+--[a-z0-9]{6})\.(?:[0-9a-f]{12}(?P<keep>\.keep)?(?P<old>\.old)?|(?P<next>next))", re.ASCII
)

_TEAM_FOLDER = re.compile(r"[a-z0-9-]{1,41}-[0-9a-f]{10}", re.ASCII)


class Opener(Protocol):
    """Opens a folder of a home by its names; FileNotFoundError when it is not there and shall not be made."""

    def __call__(self, *names: str, create: bool = False) -> Folder: ...


def _check_id(session_id: str) -> None:
    if not is_session_id(session_id):
        raise SessionNotFound(session_id[:80])


class Home:
    """One place where archives are kept."""

    def __init__(self, opener: Opener, path: str) -> None:
        """Take what opens folders in it, and its path for messages; use `of_project` or `of_team`."""
        self._open = opener
        self.path = path

    @classmethod
    def of_project(cls, project: Project) -> Home:
        """Archives in the project's own `.maestro/`."""
        return cls(project.folder, f"{project.path}/.maestro")

    @classmethod
    def of_team(cls, root: str, project: str) -> Home:
        """Archives of many projects below one root, each in a folder of its own that no name can escape."""
        return cls.below(root, team_folder(project))

    @classmethod
    def below(cls, root: str, name: str) -> Home:
        """Archives in a project's folder below a team's root."""
        return cls(partial(Folder.open, root, name), f"{root}/{name}")

    def path_of(self, session_id: str) -> str:
        """Return where a session's archive is, for messages."""
        return f"{self.path}/sessions/{session_id}"

    def sessions(self, *, create: bool = False) -> Folder:
        """Open the folder of sessions; FileNotFoundError when there is none and it shall not be made."""
        return self._open("sessions", create=create)

    def logs(self) -> Folder:
        """Open the folder of logs; FileNotFoundError when there is none."""
        return self._open("logs")

    def ids(self) -> set[str]:
        """Return the ids of the sessions archived here."""
        try:
            with self.sessions() as folder:
                return {name for name in folder.names() if is_session_id(name)}
        except FileNotFoundError:
            return set()

    def names(self) -> set[str]:
        """Return every name in the folder of sessions, whatever it is: for whoever asks about many at once."""
        try:
            with self.sessions() as folder:
                return folder.name_set()
        except FileNotFoundError:
            return set()

    def open_session(self, session_id: str) -> tuple[Folder, Folder | None] | None:
        """Open an archived session, also one whose swap was interrupted halfway, and what waits to be put in place
        there, if a checkpoint is under way or was killed; None when there is no such session.
        """
        _check_id(session_id)
        try:
            with self.sessions() as folder:
                try:
                    place = folder.child(session_id)
                except FileNotFoundError:
                    with folder.child(STAGING) as staging:
                        old = _set_aside(staging, session_id)
                        return (staging.child(old), None) if old else None
                return place, _pending(folder, session_id)
        except FileNotFoundError:
            return None

    @contextmanager
    def locked(self, session_id: str) -> Iterator[Folder]:
        """Hold a session's lock, with what an interrupted change left put right; yields the folder of sessions.

        Never waits, since the holder may be waiting in the same thread: raises ArchiveBusy.
        """
        _check_id(session_id)
        with (
            self.sessions(create=True) as folder,
            folder.child(STAGING, create=True) as staging,
            _held(folder, f".{session_id}.lock", session_id),
        ):
            if folder.status(session_id) is None and (old := _set_aside(staging, session_id)):
                staging.move(old, session_id, into=folder)
            if staging.status(next_name(session_id)) is not None:
                from maestro_state.mirror.pending import settle  # manifests: only where something was interrupted

                settle(folder, session_id)
            yield folder

    def swap(self, folder: Folder, session_id: str, staged: str) -> str | None:
        """Put a staged generation in place of the present one; return what that is called now, among the staged ones.
        The lock is held.

        Killed anywhere, it leaves the old one or the new one: in one step where the file system can exchange two
        names, else in two, of which `locked` and `open_session` mend the first.
        """
        with folder.child(STAGING) as staging:
            if folder.status(session_id) is None:
                staging.move(staged, session_id, into=folder)
                folder.sync_later()
                return None
            old = staged
            if not staging.exchange(staged, folder, session_id):
                old = f"{staged}.old"
                folder.move(session_id, old, into=staging)
                staging.move(staged, session_id, into=folder)
            folder.sync()
            return old

    def sync(self) -> None:
        """Make the names of all sessions last: what `sync_later` leaves to whoever began many at once."""
        with self.sessions() as folder:
            folder.sync()

    def remove(self, session_id: str) -> bool:
        """Remove an archived session for good; tell whether there was one."""
        with self.locked(session_id) as folder, folder.child(STAGING) as staging:
            if folder.status(session_id) is None:
                return False
            _remove_spares(folder)
            # First out of sight in one step: a kill in the middle must not leave half a session to be read.
            gone = staged_name(session_id)
            folder.move(session_id, gone, into=staging)
            folder.sync()
            staging.remove_tree(gone)
            return True

    def move_to_trash(self, session_id: str) -> str | None:
        """Move an archived session to the trash; return where it is now, None when there was none."""
        with self.locked(session_id) as folder:
            if folder.status(session_id) is None:
                return None
            _remove_spares(folder)
            return self.put_into_trash(folder, session_id, session_id)

    def put_into_trash(self, folder: Folder, name: str, session_id: str) -> str:
        """Move a session's archive, by the name it has in a folder, to the trash; return where it is now.
        The lock is held.
        """
        with self._open(TRASH, create=True) as trash:
            kept = session_id if trash.status(session_id) is None else f"{session_id}.{os.urandom(6).hex()}"
            folder.move(name, kept, into=trash)
            trash.sync()
            folder.sync()
            return f"{trash.path}/{kept}"

    def put_export(self, session_id: str, name: str, content: bytes | Iterable[bytes]) -> str:
        """Put an export into a session's folder, beside those that are there."""
        with self.locked(session_id) as folder:
            try:
                place = folder.child(session_id)
            except FileNotFoundError as error:
                raise SessionNotFound(session_id) from error
            with place, place.child("exports", create=True) as exports:
                stem, _, ending = name.rpartition(".")
                number = 1
                while exports.status(name) is not None:
                    number += 1
                    name = f"{stem}-{number}.{ending}"
                exports.replace(name, content)
                return f"{exports.path}/{name}"

    def sweep_leftovers(self) -> list[str]:
        """Remove what killed writers left; a session that is being written right now is left alone, and so is one whose
        leftovers cannot be put right: whoever writes it next says why.
        """
        removed: list[str] = []
        try:
            with self.sessions() as folder, folder.child(STAGING) as staging:
                for name in staging.names():
                    with suppress(MaestroError, OSError):
                        removed += self._sweep_staged(folder, staging, name)
                removed += _remove_spares(folder)
                for name in folder.names():
                    if name.startswith(".") and name.endswith(".lock") and is_session_id(name[1:-5]):
                        _sweep_lock(folder, name)
        except FileNotFoundError:
            pass
        return removed

    def _sweep_staged(self, folder: Folder, staging: Folder, name: str) -> list[str]:
        found = _STAGED.fullmatch(name)
        if found is None or not is_session_id(found["id"]):
            return []
        session_id = found["id"]
        with folder.try_locked(f".{session_id}.lock") as held:
            if held is None:
                return []
            if not found["next"] and not (found["old"] and folder.status(session_id) is None):
                if found["keep"]:
                    self.put_into_trash(staging, name, session_id)
                else:
                    staging.remove_tree(name)
                return [name]
        with self.locked(session_id):
            return [session_id]  # taking the lock put it right


def _sweep_lock(folder: Folder, name: str) -> None:
    with suppress(MaestroError, OSError), folder.try_locked(name) as held:
        if held is not None:
            folder.remove(name)


def _remove_spares(folder: Folder) -> list[str]:
    status = folder.status(_SPARE)
    if status is None or not stat.S_ISDIR(status.st_mode):
        return []
    folder.remove_tree(_SPARE)
    return [_SPARE]


def _pending(folder: Folder, session_id: str) -> Folder | None:
    try:
        with folder.child(STAGING) as staging:
            return staging.child(next_name(session_id))
    except (FileNotFoundError, WorkFailed):
        return None  # a link or a file in its place: nothing Maestro left


@contextmanager
def _held(folder: Folder, name: str, session_id: str) -> Iterator[None]:
    """Hold a lock whose file goes away with it, or raise ArchiveBusy."""
    with folder.try_locked(name) as descriptor:
        if descriptor is None:
            raise ArchiveBusy(f"the archive of {session_id} is being written by somebody else", hint="try again")
        try:
            yield
        finally:
            folder.remove(name)


def _set_aside(staging: Folder, session_id: str) -> str | None:
    """Return the old generation that an interrupted two-step swap set aside."""
    for name in staging.names():
        found = _STAGED.fullmatch(name)
        if found and found["old"] and found["id"] == session_id:
            return name
    return None


def staged_name(session_id: str) -> str:
    """Return a name for a generation in the making, never used before."""
    return f"{session_id}.{os.urandom(6).hex()}"


def kept_name(staged: str) -> str:
    """Return the name of a generation whose place is taken by one that has not all of it: it goes to the trash."""
    return f"{staged}.keep"


def next_name(session_id: str) -> str:
    """Return the name of what waits to be put in place in a session's archive."""
    return f"{session_id}.next"


def team_folder(project: str) -> str:
    """Return the folder of a project below a team's root: readable, and never the same for two projects."""
    import hashlib

    digest = hashlib.sha256(project.encode("utf-8", "surrogateescape")).hexdigest()[:10]
    last = project.rstrip("/").rsplit("/", 1)[-1][:40]
    readable = slugify(last) if re.search(r"[A-Za-z0-9]", last) and last.isprintable() else "project"
    return f"{readable[:40]}-{digest}"


def is_team_folder(name: str) -> bool:
    """Tell whether a folder below a team's root is a project's."""
    return _TEAM_FOLDER.fullmatch(name) is not None
