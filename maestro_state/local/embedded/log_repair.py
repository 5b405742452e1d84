"""When the server cannot read its log: start from what is whole, keep the rest aside.

A power cut may leave the end of a file cut off, full of zeros or of something else. Looked at only after a start has
failed: the log is a manifest that names one base and the files appended to since, whole commands one after the other,
those between MULTI and EXEC all or none. Only the end of the last file is ever cut, and nothing is thrown away.
"""

from __future__ import annotations

import mmap
import os
import re
import time
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from maestro_state.errors import ServerStorageError
from maestro_state.fs.opening import open_folder, open_new, open_own_file, replace_file
from maestro_state.local.embedded.origin import data_name

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Folder beside the data that holds what was cut off.
ASIDE = "cut-off"
MANIFEST = "appendonly.aof.manifest"

_LINE = re.compile(rb"file (appendonly\.aof\.\d+\.(?:base\.rdb|base\.aof|incr\.aof)) seq (\d+) type ([bhi])")
_BASE = re.compile(r"appendonly\.aof\.(\d+)\.base\.(?:rdb|aof)")
_APPENDED = re.compile(r"appendonly\.aof\.(\d+)\.incr\.aof")
_COMMAND_NAME = re.compile(rb"[A-Za-z][A-Za-z._|-]{0,63}")
#: Longest number in the protocol, with its line end.
_NUMBER_BYTES = 24
_PIECE_BYTES = 1 << 20


class Damage(NamedTuple):
    """Where the log stops being whole."""

    file: str
    whole: int  #: bytes before it
    rest: int  #: bytes from there on
    #: Whether nothing whole comes after it: the end of the file is gone, not something in its middle.
    is_end: bool


class _Flaw(Enum):
    """Why there is no whole command at a place."""

    CUT = "the file ends in the middle of it"
    FOREIGN = "it is no command"


def find_damage(folder: int) -> Damage | None:
    """Look through the last file of the log; None when it is whole, or something else is wrong."""
    data = _open_data(folder)
    if data is None:
        return None
    try:
        names = _appended_files(data)
        if not names:
            return None
        handle, size = open_own_file(data, names[-1], os.O_RDONLY)
        try:
            return _scan(names[-1], handle, size) if size else None
        finally:
            os.close(handle)
    except OSError:
        return None
    finally:
        os.close(data)


def cut(folder: int, damage: Damage) -> str:
    """Move what is not whole to a file of its own and return its name below the server's folder.

    First kept, then cut: whenever this is interrupted, nothing is gone. Raises ServerStorageError without room for it.
    """
    name = f"{damage.file}.{damage.whole}.{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}.{os.urandom(3).hex()}"
    try:
        if ASIDE not in os.listdir(folder):
            os.mkdir(ASIDE, 0o700, dir_fd=folder)
        data = open_folder(folder, data_name(folder))
        aside = open_folder(folder, ASIDE)
        try:
            log, _ = open_own_file(data, damage.file, os.O_RDWR)
            try:
                _keep(log, damage, aside, name)
                os.ftruncate(log, damage.whole)
                os.fsync(log)
            finally:
                os.close(log)
        finally:
            os.close(data)
            os.close(aside)
    except OSError as error:
        raise ServerStorageError(
            f"the damaged end of the server's log cannot be set aside: {error.strerror}",
            hint="free disk space, then try again",
        ) from error
    return f"{ASIDE}/{name}"


def rebuild_manifest(folder: int) -> bool:
    """Write the list of the log's files anew if it is damaged and there is only one way to; tell whether it was."""
    data = _open_data(folder)
    if data is None:
        return False
    try:
        names = os.listdir(data)
        bases = [name for name in names if _BASE.fullmatch(name)]
        appended = sorted((name for name in names if _APPENDED.fullmatch(name)), key=_number_of)
        if _manifest(data) is not None or len(bases) > 1 or not appended:
            return False
        lines = [*(f"file {name} seq {_number_of(name)} type b" for name in bases)]
        lines += [f"file {name} seq {_number_of(name)} type i" for name in appended]
        if MANIFEST in names:
            os.rename(MANIFEST, f"{MANIFEST}.damaged", src_dir_fd=data, dst_dir_fd=data)
        replace_file(data, MANIFEST, "".join(f"{line}\n" for line in lines).encode())
    except OSError:
        return False
    finally:
        os.close(data)
    return True


def set_aside(folder: int) -> list[tuple[str, int]]:
    """List what was cut off earlier, oldest first: names below the server's folder and their sizes."""
    try:
        aside = open_folder(folder, ASIDE)
    except OSError:
        return []
    try:
        with os.scandir(aside) as entries:
            found = [(entry.stat(follow_symlinks=False), entry.name) for entry in entries]
        return [(f"{ASIDE}/{name}", status.st_size) for status, name in sorted(found, key=lambda one: one[0].st_mtime)]
    finally:
        os.close(aside)


def _open_data(folder: int) -> int | None:
    try:
        return open_folder(folder, data_name(folder))
    except OSError:
        return None


def _manifest(data: int) -> list[tuple[str, bytes]] | None:
    """Return the files of the log and what each is, or None when the list is not whole."""
    try:
        handle, size = open_own_file(data, MANIFEST, os.O_RDONLY)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as file:
        content = file.read(min(size, _PIECE_BYTES))
    if not content.endswith(b"\n"):
        return None
    lines = [_LINE.match(line) for line in content.splitlines() if not line.startswith(b"#")]
    if not lines or not all(lines):
        return None
    return [(line[1].decode(), line[3]) for line in lines if line]


def _appended_files(data: int) -> list[str]:
    return [name for name, kind in _manifest(data) or [] if kind == b"i"]


def _number_of(name: str) -> int:
    return int(name.split(".")[2])


def _scan(name: str, handle: int, size: int) -> Damage | None:
    with mmap.mmap(handle, size, access=mmap.ACCESS_READ) as log:
        whole = at = 0
        in_transaction = False
        flaw: _Flaw | None = None
        while at < size:
            found = _command(log, at, size)
            if isinstance(found, _Flaw):
                flaw = found
                break
            command, at = found
            in_transaction = (in_transaction or command == b"MULTI") and command != b"EXEC"
            if not in_transaction:
                whole = at
        if whole == size:
            return None
        is_end = flaw is not _Flaw.FOREIGN or not any(_whole_commands_after(log, at, size))
        return Damage(name, whole, size - whole, is_end)


def _whole_commands_after(log: mmap.mmap, at: int, size: int) -> Iterator[bool]:
    """Say of each place that may be the beginning of a command whether it is one."""
    while (at := log.find(b"\n*", at)) >= 0:
        at += 1
        yield not isinstance(_command(log, at, size), _Flaw)


def _command(log: mmap.mmap, at: int, size: int) -> tuple[bytes, int] | _Flaw:
    """Read one command: its name, and where the next one begins."""
    if log[at : at + 1] == b"#":  # a remark of the server's, such as the time
        end = log.find(b"\r\n", at, at + 1024)
        return (b"#", end + 2) if end >= 0 else _Flaw.CUT if size - at < 1024 else _Flaw.FOREIGN
    count = _number(log, at, b"*", size)
    if isinstance(count, _Flaw):
        return count
    words, at = count
    name = b""
    for word in range(words):
        length = _number(log, at, b"$", size)
        if isinstance(length, _Flaw):
            return length
        end = length[1] + length[0]
        if end + 2 > size:
            return _Flaw.CUT
        if log[end : end + 2] != b"\r\n":
            return _Flaw.FOREIGN
        if word == 0:
            name = log[length[1] : min(end, length[1] + 65)].upper()
        at = end + 2
    return (name, at) if _COMMAND_NAME.fullmatch(name) else _Flaw.FOREIGN


def _number(log: mmap.mmap, at: int, kind: bytes, size: int) -> tuple[int, int] | _Flaw:
    """Read a line such as *3 or $12: the number, and where the next line begins."""
    line = log[at : at + _NUMBER_BYTES]
    digits, ended, _ = line[1:].partition(b"\r\n")
    is_begun = not line or (line[:1] == kind and (not digits or digits.rstrip(b"\r").isdigit()))
    if not ended:
        return _Flaw.CUT if is_begun and at + _NUMBER_BYTES > size else _Flaw.FOREIGN
    return (int(digits), at + 1 + len(digits) + 2) if is_begun and digits.isdigit() else _Flaw.FOREIGN


def _keep(log: int, damage: Damage, aside: int, name: str) -> None:
    """Copy the rest of a file; runs of zeros take no room."""
    copy = open_new(aside, name)
    try:
        os.ftruncate(copy, damage.rest)
        for start in range(0, damage.rest, _PIECE_BYTES):
            piece = os.pread(log, min(_PIECE_BYTES, damage.rest - start), damage.whole + start)
            if piece.strip(b"\0") and os.pwrite(copy, piece, start) != len(piece):
                raise OSError(0, "it was written in part only")
        os.fsync(copy)
    finally:
        os.close(copy)
    os.fsync(aside)
