"""Files of JSON lines that another program may be writing: line by line, a torn end passed over."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, BinaryIO, TypeVar

import msgspec

from maestro_state.clock import from_iso
from maestro_state.errors import FileCorrupt, PathNotFound
from maestro_state.histories.values import Broken, Stamped

#: Longest line that is read: a tool's result with pictures in it may be large, a file that is no history larger.
LINE_MAX = 64 << 20
#: Bytes read at a time.
_BUFFER = 1 << 20
#: Broken lines that are named one by one; more are only counted.
BROKEN_MAX = 20
#: Lines at the beginning of a file that are read to find out whose conversation it is.
HEAD_LINES = 200

_T = TypeVar("_T")


def open_history(path: str) -> BinaryIO:
    """Open a tool's file for reading; only a regular one."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError as error:
        raise PathNotFound(f"{path} is not there") from error
    except OSError as error:
        raise FileCorrupt(f"{path} cannot be read: {os.strerror(error.errno or 0)}") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise FileCorrupt(f"{path} is not a file")
    return os.fdopen(descriptor, "rb", buffering=_BUFFER)


def stamped(path: str, *others: str) -> Stamped:
    """Return a file with what tells whether it, or one that belongs to it, has changed."""
    first = os.stat(path)
    stamp, size, newest = [first.st_size, first.st_mtime_ns], first.st_size, first.st_mtime_ns
    for other in others:
        found = os.stat(other)
        stamp += [found.st_size, found.st_mtime_ns]
        size += found.st_size
        newest = max(newest, found.st_mtime_ns)
    return Stamped(path, stamp, size, newest // 1_000_000)


def decoded(file: BinaryIO, decode: Callable[[bytes], _T], start: int = 0) -> Iterator[tuple[int, _T | Broken]]:
    """Yield the lines from a place on, each with the place behind it; what cannot be read as `Broken`.

    A last line without an end that cannot be read is still being written, or was torn: it is passed over.
    """
    if start:
        file.seek(start)
    number, place = 0, start
    while line := file.readline(LINE_MAX):
        number += 1
        place += len(line)
        is_whole = line.endswith(b"\n")
        if len(line) == LINE_MAX and not is_whole:
            place += _skip_line(file)
            yield place, Broken(number, "the line is too long")
            continue
        if line.isspace():
            continue
        try:
            yield place, decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            if not is_whole:
                return
            yield place, Broken(number, _reason(error))


def _skip_line(file: BinaryIO) -> int:
    skipped = 0
    while piece := file.readline(_BUFFER):
        skipped += len(piece)
        if piece.endswith(b"\n"):
            break
    return skipped


def _reason(error: Exception) -> str:
    return "not JSON" if isinstance(error, msgspec.DecodeError) and "JSON" in str(error) else str(error)[:200]


def damage_in(path: str) -> list[Broken]:
    """Return the first lines that cannot be read of a file in which nobody says anything."""
    with open_history(path) as file:
        lines = (line for _, line in decoded(file, msgspec.json.Decoder(dict[str, Any]).decode))
        return list(islice((line for line in lines if isinstance(line, Broken)), BROKEN_MAX))


def time_ms(value: Any, otherwise: int) -> int:
    """Read a time as tools write it, text or milliseconds; what is none is as late as what came before."""
    if isinstance(value, str) and value:
        try:
            return from_iso(value)
        except (ValueError, OverflowError, OSError):
            return otherwise
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e14:
        return int(value)
    return otherwise


def count(row: Any, *names: str) -> int:
    """Return a number of a nested object; what is none counts as zero."""
    for name in names:
        row = row.get(name) if isinstance(row, dict) else None
    return row if isinstance(row, int) and not isinstance(row, bool) and 0 <= row < 1 << 53 else 0


def text_of(content: Any) -> str:
    """Return the text of a message, whichever of the forms that tools use it has; pictures as a word in brackets."""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        content = [content]
    if not isinstance(content, list):
        return ""
    parts = []
    for part in content:
        if isinstance(part, str):
            parts.append(part)
        elif isinstance(part, dict) and isinstance(part.get("text"), str) and not part.get("thought"):
            parts.append(part["text"])
        elif isinstance(part, dict) and part.get("type") in ("image", "input_image", "document"):
            parts.append(f"[{part['type'].removeprefix('input_')}]")
    return "\n".join(parts)


def first_line(text: str, limit: int = 60) -> str | None:
    """Return the beginning of a text, by which people know it."""
    line = next((line.strip() for line in text[:2000].splitlines() if line.strip()), "")
    return line if len(line) <= limit else line[:limit].rsplit(" ", 1)[0]


def files_below(root: str, is_wanted: Callable[[str], bool], depth: int = 6) -> Iterator[str]:
    """Yield the paths of the files below a folder, or the file itself, by name; links to folders are not followed."""
    if not os.path.isdir(root):
        yield root
        return
    with os.scandir(root) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            if depth:
                yield from files_below(entry.path, is_wanted, depth - 1)
        elif is_wanted(entry.path):
            yield entry.path
