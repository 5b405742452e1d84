"""Names of work sessions and breadcrumbs: ids, timestamps, file names. Pure text.

Ids of our own are UUID4. Folders that other programs wrote may also be named by a time. Nothing else ever becomes part
of a path or a key.
"""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime, timedelta

from maestro_state.clock import from_iso
from maestro_state.errors import AmbiguousReference, InvalidValue, WorkSessionNotFound

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE)
_TIME_ID = re.compile(r"[0-9]{8}[0-9TZ_-]{0,32}", re.ASCII)
_PRINTABLE = re.compile(r"[\x21-\x7e]{1,128}", re.ASCII)
_STAMP = re.compile(r"([0-9]{8}_[0-9]{6})(?:_([0-9]{1,6}))?", re.ASCII)
_FILE = re.compile(r"[^.].{0,200}\.json", re.DOTALL)
_DEPTH = re.compile(r"[0-9]{1,3}", re.ASCII)
_AGO = re.compile(r"([0-9]{1,6})(s|min|m|h|d)", re.ASCII)
_UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}

#: Where work sessions lie in a project.
BASE = ("docs", "sessions")

#: What is inside a work session's folder.
RECORD_FILE = "session.json"
BREADCRUMBS = "breadcrumbs"
REJECTED = "rejected"


WorkPath = tuple[str, ...]  #: ids from the top-level work session down to one


def breadcrumbs_dir(path: WorkPath) -> str:
    """Return where the breadcrumbs of a work session lie, as its record says it."""
    return "/".join((*BASE, *path, BREADCRUMBS))


def is_work_id(text: str) -> bool:
    """Tell whether the text may name a work session: a UUID, or a time as other programs write it."""
    return _UUID.fullmatch(text) is not None or _TIME_ID.fullmatch(text) is not None


def is_uuid(text: str) -> bool:
    """Tell whether the text is a UUID: then it is a whole id, never the beginning of one."""
    return _UUID.fullmatch(text) is not None


def is_printable_id(text: str) -> bool:
    """Tell whether the text may be a breadcrumb's id."""
    return _PRINTABLE.fullmatch(text) is not None


def derived_id(*parts: bytes) -> str:
    """Return the id of something that has none: the same content always gets the same, in the form of a UUID."""
    digest = hashlib.sha256(b"\0".join(parts)).hexdigest()
    return "-".join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:32]))


def is_depth(name: str) -> bool:
    """Tell whether a folder of breadcrumbs is one of a depth."""
    return _DEPTH.fullmatch(name) is not None


def is_breadcrumb_file(name: str) -> bool:
    """Tell whether a file may be a breadcrumb; hidden ones and other endings are files on their way."""
    return _FILE.fullmatch(name) is not None


def stamp_of(at_ms: int) -> str:
    """Write a time as breadcrumbs carry it, in UTC."""
    moment = datetime.fromtimestamp(at_ms // 1000, UTC) + timedelta(milliseconds=at_ms % 1000)
    return moment.strftime("%Y%m%d_%H%M%S_%f")


def stamp_ms(text: str) -> int:
    """Read a breadcrumb's time: its own form, or ISO 8601 as other programs write it."""
    try:
        found = _STAMP.fullmatch(text)
        if found is None:
            at_ms = from_iso(text)
            stamp_of(at_ms)  # in UTC it must have a date too
            return at_ms
        day, second = found[1].split("_")
        parts = (day[:4], day[4:6], day[6:], second[:2], second[2:4], second[4:])
        moment = datetime(*map(int, parts), tzinfo=UTC)  # type: ignore[misc,arg-type]
        return round(moment.timestamp()) * 1000 + int((found[2] or "").ljust(6, "0")) // 1000
    except (ValueError, OverflowError) as error:
        raise InvalidValue(f"'{text[:40]}' is not a time", hint="YYYYMMDD_HHMMSS_ffffff") from error


def file_stamp(timestamp: str) -> str:
    """Return the file name, without ending, of a breadcrumb with this timestamp; ISO times become their own form."""
    return timestamp if _STAMP.fullmatch(timestamp) else stamp_of(stamp_ms(timestamp))


def moment_ms(text: str, now_ms: int) -> int:
    """Read what --since and --until take: a time, a date, or how long ago (`90s`, `30min`, `2h`, `7d`)."""
    if found := _AGO.fullmatch(text):
        return now_ms - int(found[1]) * _UNITS[found[2]] * 1000
    try:
        return stamp_ms(text)
    except InvalidValue:
        hint = "2026-11-16, 2026-11-16T09:30, 20261116_093000 or 2h"
        raise InvalidValue(f"'{text[:40]}' is not a time", hint=hint) from None


def pick_work(ref: str, ids: list[str]) -> str:
    """Find the one id that a full id or its beginning means; `ids` last modified first, for `latest`."""
    if ref == "latest" and ids:
        return ids[0]
    if ref in ids:
        return ref
    found = [one for one in ids if len(ref) >= 4 and one.startswith(ref)]
    if len(found) > 1:
        raise AmbiguousReference(ref, sorted(found))
    if not found:
        raise WorkSessionNotFound(ref)
    return found[0]
