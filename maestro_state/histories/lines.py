"""Files of JSON lines that another program may be writing: line by line, a torn end passed over."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO, TypeVar

import msgspec

from maestro_state.clock import from_iso
from maestro_state.errors import FileCorrupt, MaestroError, PathNotFound
from maestro_state.fs.opening import open_unnoted
from maestro_state.histories.values import Broken, Conversation, Stamped
from maestro_state.models.undecodable import UNDECODABLE

#: Longest line that is read: a tool's result with pictures in it may be large, a file that is no history larger.
LINE_MAX = 64 << 20
#: Bytes read at a time.
_BUFFER = 1 << 20
#: Broken lines that are named one by one; more are only counted.
BROKEN_MAX = 20
#: Lines at the beginning of a file that are read to find out whose conversation it is.
HEAD_LINES = 200

#: Times of entries have fourteen digits at most.
_LATEST_MS = 10**14

#: Halves of a character that takes two, alone, as programs write that cut a text where their own counting ends: JSON in
#: form, but no text. Whole ones, and other escapes, are in the groups.
_HALVES = re.compile(rb"(\\u[dD][89abAB]..\\u[dD][c-fC-F]..)|(\\(?!u[dD][89a-fA-F]).)|\\u[dD][89a-fA-F]..", re.DOTALL)

_T = TypeVar("_T")


def open_history(path: str) -> BinaryIO:
    """Open a tool's file for reading; only a regular one."""
    try:
        descriptor = open_unnoted(path)
    except FileNotFoundError as error:
        raise PathNotFound(f"{path} is not there") from error
    except OSError as error:
        raise FileCorrupt(f"{path} cannot be read: {os.strerror(error.errno or 0)}") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise FileCorrupt(f"{path} is not a file")
    return os.fdopen(descriptor, "rb", buffering=_BUFFER)


def stamped(path: str, *others: str) -> Stamped:
    """Return a file with what tells whether it, or one that belongs to it, has changed.

    One that is gone, or a link to nowhere, is told of when it is opened: those after it are found all the same.
    """
    stamp, size, newest = [], 0, 0
    for one in (path, *others):
        try:
            found = os.stat(one)
        except OSError:
            stamp += [0, 0]
            newest = max(newest, time.time_ns())  # whenever it was changed: somebody should hear of it
            continue
        stamp += [found.st_size, found.st_mtime_ns]
        size += found.st_size
        newest = max(newest, found.st_mtime_ns)
    return Stamped(path, stamp, size, newest // 1_000_000)


def readable(
    paths: Iterable[str], read: Callable[[str], Conversation | None]
) -> tuple[list[Conversation], list[tuple[str, MaestroError]]]:
    """Return the conversations of sub-agents, and which files cannot be read, and why: those hide no other."""
    found, unreadable = [], []
    for path in paths:
        try:
            one = read(path)
        except MaestroError as error:
            unreadable.append((path, error))
            continue
        found += [one] if one else []
    return found, unreadable


def json_in(decode: Callable[[bytes], _T], content: bytes) -> _T:
    """Decode JSON; half a character in it, which is no text, becomes one that is unknown, and hides nothing else."""
    try:
        return decode(content)
    except msgspec.DecodeError:
        if b"\\u" not in content:
            raise
        whole = _HALVES.sub(lambda found: found[1] or found[2] or b"\\ufffd", content)
        if whole == content:
            raise
        return decode(whole)


def whole_json(text: str | bytes | None) -> Any:
    """Decode a file or a column that is one JSON value; None when it is none."""
    try:
        return json_in(msgspec.json.decode, text.encode() if isinstance(text, str) else text or b"")
    except (TypeError, *UNDECODABLE):
        return None


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
            yield place, json_in(decode, line)
        except UNDECODABLE as error:
            if not is_whole:
                return
            yield place, Broken(number, _reason(error))


def decoded_at(file: BinaryIO, decode: Callable[[bytes], _T], places: Iterable[int]) -> Iterator[_T]:
    """Yield the lines that begin at some places; what is no line there any more is passed over."""
    for place in places:
        file.seek(place)
        while (line := file.readline(LINE_MAX)).isspace():
            pass
        try:
            yield json_in(decode, line)
        except UNDECODABLE:
            continue


def _skip_line(file: BinaryIO) -> int:
    skipped = 0
    while piece := file.readline(_BUFFER):
        skipped += len(piece)
        if piece.endswith(b"\n"):
            break
    return skipped


def _reason(error: Exception) -> str:
    return "not JSON" if isinstance(error, msgspec.DecodeError) and "JSON" in str(error) else str(error)[:200]


def damage_in(path: str) -> tuple[list[Broken], int]:
    """Return the first lines that cannot be read of a file in which nobody says anything, and how many there are."""
    found, count = [], 0
    with open_history(path) as file:
        for _, line in decoded(file, msgspec.json.Decoder(dict[str, Any]).decode):
            if isinstance(line, Broken):
                count += 1
                found += [line] if count <= BROKEN_MAX else []
    return found, count


def time_ms(value: Any, otherwise: int) -> int:
    """Read a time as tools write it, text or milliseconds; what is none is as late as what came before, and so is one
    that no id of a message can carry.
    """
    if isinstance(value, str) and value:
        try:
            value = from_iso(value)
        except (ValueError, OverflowError, OSError):
            return otherwise
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < _LATEST_MS:
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
    """Yield the paths of the files below a folder, or the file itself, by name; links to folders are not followed.

    A folder that cannot be read is yielded itself: who opens it is told why.
    """
    if not os.path.isdir(root):
        yield root
        return
    try:
        with os.scandir(root) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError:
        yield root
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            if depth:
                yield from files_below(entry.path, is_wanted, depth - 1)
        elif is_wanted(entry.path):
            yield entry.path
