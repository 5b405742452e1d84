#!/usr/bin/env python3
"""Back up a team's server while it runs, and restore it elsewhere: its append-only file, then the archives.

    maestro-backup save --data /data --archive /archive --to /backup --keep 7
    maestro-backup restore --from /backup --data /data --archive /archive

Needs Python only, and asks the server nothing: what it acknowledged is in its append-only file. The archives
come second, since the server lets go only of what is in them: whatever is archived meanwhile is in both, and read
together it is what it was. A backup counts when it has its final name; every file in it is named with its digest.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

LOG_FOLDER = "appendonlydir"
LIST = "backup.json"
#: The form of the list; of one that is newer, nobody knows here what it asks for.
VERSION = 1
#: Where a backup is put together before it takes its place.
RESTORING = ".restoring"
#: What is in no archive: what a restore that was killed left, and what a new disk begins with.
_NOT_OURS = frozenset({RESTORING, "lost+found"})
_NAME = re.compile(r"\d{8}T\d{6}Z(-\d+)?")
#: One line of the server's list of its own files; history (h) is what it is about to remove.
_LOG_LINE = re.compile(r'file "?(?P<name>[^/"\s]+)"? seq \d+ type (?P<type>[bhi])(?: .*)?')
#: How often something that changes while it is copied is copied again, and the pause in between.
_TRIES, _PAUSE_S = 50, 0.1
_PIECE = 1 << 20


class Failed(Exception):
    """It cannot be done: one line that says what to do."""


def save(data: Path, archive: Path, to: Path, keep: int, now: datetime) -> Path:
    """Write the next backup and remove those that are not kept; return its folder."""
    if not to.is_dir():
        _refuse(f"{to} is not a folder", "make it, on another disk than the server's")
    with _alone(to, "another backup is being written to"):
        return _save(data, archive, to, keep, now)


def _save(data: Path, archive: Path, to: Path, keep: int, now: datetime) -> Path:
    for left in to.iterdir():  # by one that was killed: nobody else writes here now
        if left.name.startswith(".") and _NAME.fullmatch(left.name[1:]):
            shutil.rmtree(left)
    name = _free_name(to, now)
    partial = to / f".{name}"
    partial.mkdir(mode=0o700)
    try:
        saving = _Saving(partial)
        saving.save_log(data / LOG_FOLDER, partial / "data" / LOG_FOLDER)
        if not archive.is_dir():
            _refuse(f"{archive} is not a folder", "name the folder of the archives (MAESTRO_ARCHIVE_ROOT)")
        saving.save_folder(archive, partial / "archive")
        document = {"version": VERSION, "made_at": now.isoformat(), "files": saving.files()}
        (partial / LIST).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        _settle(to)
        partial.rename(to / name)
        _settle(to)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    # By name the newest, but for this one: a clock that was set back must not cost the backup that was just made.
    others = [folder for folder in _backups(to) if folder.name != name]
    for old in others[: len(others) + 1 - keep]:
        shutil.rmtree(old)
    return to / name


@contextmanager
def _alone(folder: Path, other: str) -> Iterator[None]:
    """Be the only one who writes there; whoever is killed lets go."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _refuse(f"{other} {folder}", "wait until it is done")
        yield
    finally:
        os.close(opened)


def restore(source: Path, name: str | None, data: Path, archive: Path) -> Path:
    """Put a backup, the newest unless named, in place of nothing; return its folder."""
    found = _backups(source)
    if name is not None:
        found = [folder for folder in found if folder.name == name]
    if not found:
        _refuse(f"there is no backup {name or ''} in {source}".replace("  ", " "), "maestro-backup list shows what is")
    chosen = found[-1]
    files = _checked(chosen)
    for top, folder in (("data", data), ("archive", archive)):
        whose = next((described for name, described in files.items() if name.startswith(f"{top}/")), None)
        _make_folders(folder, folder, whose)
    with _alone(archive, "a backup is being restored to"):
        _restore(chosen, files, data, archive)
    return chosen


def _restore(chosen: Path, files: dict[str, dict[str, Any]], data: Path, archive: Path) -> None:
    """Put it together beside its places, so that what cannot be written whole is not there at all."""
    parts = {"data": data / RESTORING, "archive": archive / RESTORING}
    for part in parts.values():  # left by one that was killed: nobody else writes here now
        shutil.rmtree(part, ignore_errors=True)
    for target in (data / LOG_FOLDER, archive):
        if target.is_dir() and {path.name for path in target.iterdir()} - _NOT_OURS:
            _refuse(f"{target} is not empty", "stop the server and the workers, and move what is there aside")
    try:
        for part in parts.values():
            part.mkdir(mode=0o700)
        for relative, described in files.items():
            top, _, rest = relative.partition("/")
            target = parts[top] / rest
            _make_folders(target.parent, parts[top], described)
            shutil.copyfile(chosen / relative, target)
            target.chmod(described["mode"])
            _give(target, described)
        _settle(archive, data)
        # The server's log comes last, in one step: with it, everything is there.
        for entry in sorted(parts["archive"].iterdir()):
            entry.rename(archive / entry.name)
        (parts["data"] / LOG_FOLDER).rename(data / LOG_FOLDER)
        _settle(archive, data)
    finally:
        for part in parts.values():
            shutil.rmtree(part, ignore_errors=True)


class _Saving:
    """One backup that is being written, and whose its files were."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._owners: dict[Path, os.stat_result] = {}

    def save_log(self, source: Path, target: Path) -> None:
        """Copy the files that the server's own list names, as they were when it was read or later, and the list."""
        target.mkdir(parents=True)
        for _ in range(_TRIES):
            try:
                (listing,) = source.glob("*.manifest")
                text = listing.read_text(encoding="utf-8")
                needed = {found["name"]: line for line in text.splitlines() if (found := _log_line(line, listing))}
                with ExitStack() as stack:
                    # All are open before the first is copied: what a rewrite removes meanwhile is still read.
                    opened = [(name, stack.enter_context((source / name).open("rb"))) for name in needed]
                    for name, file in opened:
                        with (target / name).open("wb") as out:
                            shutil.copyfileobj(file, out, _PIECE)
                        self._owners[target / name] = os.fstat(file.fileno())
            except (FileNotFoundError, ValueError):  # no list yet, or it was rewritten just now
                time.sleep(_PAUSE_S)
                continue
            (target / listing.name).write_text("".join(f"{line}\n" for line in needed.values()), encoding="utf-8")
            self._owners[target / listing.name] = listing.stat()
            return
        _refuse(f"{source} has no append-only file", "is --data the folder of a server started with appendonly yes?")

    def save_folder(self, source: Path, target: Path) -> None:
        """Copy what is below a folder; a session's archive as one thing, everything else file by file."""
        if (source / "manifest.json").is_file():
            self._save_whole(source, target)
            return
        try:
            entries = sorted(os.scandir(source), key=lambda entry: entry.name)
        except FileNotFoundError:
            return  # removed meanwhile
        target.mkdir()
        for entry in entries:
            if source.name == "sessions" and entry.name.startswith("."):
                continue  # being built, or a cache
            if entry.name in _NOT_OURS:
                continue
            if entry.is_dir(follow_symlinks=False):
                self.save_folder(Path(entry.path), target / entry.name)
            elif entry.is_file(follow_symlinks=False):
                self._save_whole(Path(entry.path), target / entry.name)

    def _save_whole(self, source: Path, target: Path) -> None:
        """Copy a file, or a folder with all that is in it, that did not change meanwhile."""
        for _ in range(_TRIES):
            before = _state(source)
            try:
                if target.is_dir():
                    shutil.rmtree(target)
                if source.is_dir():
                    shutil.copytree(source, target, symlinks=True, ignore=_special, copy_function=self._copy)
                elif before:
                    self._copy(str(source), str(target))
            except (OSError, shutil.Error):
                if _state(source) == before:
                    raise
            if _state(source) == before:
                return
            time.sleep(_PAUSE_S)
        _refuse(f"{source} changes all the time", "try again when less is going on")

    def _copy(self, source: str, target: str) -> str:
        shutil.copyfile(source, target, follow_symlinks=False)
        self._owners[Path(target)] = os.lstat(source)
        return target

    def files(self) -> dict[str, dict[str, Any]]:
        """Return what is in the backup: the digest of each file, and whose it was."""
        return {
            str(path.relative_to(self._folder)): {
                "sha256": _digest(path),
                "mode": stat.S_IMODE(self._owners[path].st_mode),
                "uid": self._owners[path].st_uid,
                "gid": self._owners[path].st_gid,
            }
            for path in sorted(self._folder.rglob("*"))
            if path.is_file() and not path.is_symlink()
        }


def _log_line(line: str, listing: Path) -> re.Match[str] | None:
    """Read a line of the list; None for one that is not needed."""
    found = _LOG_LINE.fullmatch(line.strip())
    if found is None:
        _refuse(f"{listing} has a line that is not understood", "is it of Redis or Valkey 7 or newer?")
    return found if found["type"] != "h" else None


def _special(folder: str, names: list[str]) -> list[str]:
    """Name pipes, sockets and devices: no archive has any, and one that a tool put there must not stop the backup."""
    kinds = {name: os.lstat(os.path.join(folder, name)).st_mode for name in names}
    return [
        name for name, mode in kinds.items() if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode))
    ]


def _state(path: Path) -> list[tuple[str, int, int, int]]:
    """Return what tells one state of a file or folder from another."""
    found = []
    try:
        for one in [path, *sorted(path.rglob("*"))] if path.is_dir() else [path]:
            status = one.lstat()
            found.append((str(one), status.st_ino, status.st_size, status.st_mtime_ns))
    except FileNotFoundError:
        return []
    return found


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _checked(folder: Path) -> dict[str, dict[str, Any]]:
    """Return what is in a backup, each file found to be what was written."""
    hint = "take another backup: maestro-backup list"
    try:
        document = json.loads((folder / LIST).read_text(encoding="utf-8"))
        version, files = document["version"], {name: _described(value) for name, value in document["files"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        _refuse(f"{folder / LIST} cannot be read", hint)
    if version != VERSION:
        _refuse(f"{folder} was written by another version", "restore it with the maestro-backup that wrote it")
    if not any(re.fullmatch(rf"data/{LOG_FOLDER}/[^/]+\.manifest", name) for name in files):
        _refuse(f"{folder / LIST} does not name the server's append-only file", hint)
    for relative, described in files.items():
        parts = Path(relative).parts
        if parts[0] not in ("data", "archive") or ".." in parts or not (folder / relative).is_file():
            _refuse(f"{folder} lacks {relative}", hint)
        if _digest(folder / relative) != described["sha256"]:
            _refuse(f"{folder / relative} is not what was written", hint)
    return files


def _described(value: dict[str, Any]) -> dict[str, Any]:
    """Return what the list says of a file; KeyError or TypeError when it does not say all of it."""
    return {"sha256": str(value["sha256"])} | {name: int(value[name]) for name in ("mode", "uid", "gid")}


def _make_folders(folder: Path, top: Path, described: dict[str, Any] | None) -> None:
    """Make the folders that are missing, for the owner of what goes into them."""
    missing = [one for one in (folder, *folder.parents) if one.is_relative_to(top) and not one.exists()]
    for one in reversed(missing):
        one.mkdir(mode=0o700)
        _give(one, described)


def _give(path: Path, described: dict[str, Any] | None) -> None:
    if described is not None and os.geteuid() == 0:
        os.chown(path, described["uid"], described["gid"])


def _settle(*folders: Path) -> None:
    """Have all that was written to the disks of folders be on them; OSError when one of them could not."""
    for folder in folders:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            if ctypes.CDLL(None, use_errno=True).syncfs(opened) != 0:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(folder))
        finally:
            os.close(opened)


def _backups(folder: Path) -> list[Path]:
    """List backups that are whole, oldest first."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if _NAME.fullmatch(path.name) and (path / LIST).is_file())


def _free_name(folder: Path, now: datetime) -> str:
    name = now.strftime("%Y%m%dT%H%M%SZ")
    taken = [path for path in folder.iterdir() if path.name.lstrip(".").startswith(name)]
    return f"{name}-{len(taken)}" if taken else name


def _refuse(what: str, hint: str) -> NoReturn:
    raise Failed(f"{what} ({hint})")


def main(words: list[str] | None = None) -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(
        prog="maestro-backup", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    saving = commands.add_parser("save", help="write the next backup")
    saving.add_argument("--to", type=Path, required=True, metavar="DIR", help="where they are kept")
    saving.add_argument("--keep", type=int, default=7, metavar="N", help="how many are kept (7)")
    restoring = commands.add_parser("restore", help="put one in place: the server and the workers are stopped")
    restoring.add_argument("name", nargs="?", help="which one; the newest unless named")
    listing = commands.add_parser("list", help="list what there is, oldest first")
    for one in (restoring, listing):
        one.add_argument(
            "--from", dest="source", type=Path, required=True, metavar="DIR", help="where backups are kept"
        )
    for one in (saving, restoring):
        one.add_argument("--data", type=Path, required=True, metavar="DIR", help="the server's folder (--dir)")
        one.add_argument("--archive", type=Path, required=True, metavar="DIR", help="MAESTRO_ARCHIVE_ROOT")
    given = parser.parse_args(words)
    if given.command == "save" and given.keep < 1:
        parser.error("--keep is at least 1")
    try:
        if given.command == "save":
            done = save(given.data, given.archive, given.to, given.keep, datetime.now(UTC))
            print(f"saved {done}")
        elif given.command == "restore":
            done = restore(given.source, given.name, given.data, given.archive)
            print(f"restored {done}")
        else:
            print("\n".join(path.name for path in _backups(given.source)))
    except Failed as error:
        print(f"maestro-backup: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        where = given.to if given.command == "save" else given.source if given.command == "list" else given.data
        print(f"maestro-backup: {_explained(error, where)}", file=sys.stderr)
        return 1
    return 0


def _explained(error: OSError, where: Path) -> str:
    """Return one line for what the system refused: what, and what to do."""
    what = f"{error.filename2 or error.filename or where}: {error.strerror or error}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{what} (nothing was kept of it; make room, then do it again)"
    return f"{what} (nothing was kept of it; see to it, then do it again)"


if __name__ == "__main__":
    sys.exit(main())
