"""Calls that read the index page by page, last active first, so that each session that stays is read once.

Sessions move up in that order all the time. So a list is that of one moment, the first page's: each shard remembers
where the sessions were that have moved since, and a page puts them where they were.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any, NamedTuple

import msgspec

from maestro_state.clock import from_iso, iso
from maestro_state.errors import InvalidValue, Refused
from maestro_state.models.names import is_session_id
from maestro_state.models.undecodable import UNDECODABLE
from maestro_state.state.calls.replies import moment, text
from maestro_state.state.scripts import Call, load

#: The form of a cursor: another number is another form.
_FORM = 1
_DATE = len("2026-11-16T04:05:06.007+00:00")
#: What is put after all dates: an archive whose record cannot be read.
_LATEST = "9999"


class Place(NamedTuple):
    """Where a session is in a list: by its last activity, of the same moment by its id. The greater, the earlier."""

    at: str
    id: str


class Cursor(msgspec.Struct, frozen=True, array_like=True):
    """Where a page ended, and of which moment the list is."""

    form: int
    since: int  #: server time in milliseconds
    at: str
    id: str

    @property
    def place(self) -> Place:
        """The last session of the page."""
        return Place(self.at, self.id)

    def encode(self) -> str:
        """Write it as a text that needs no quotes anywhere."""
        return urlsafe_b64encode(msgspec.json.encode(self)).decode().rstrip("=")


def cursor_after(place: Place, since: int) -> str:
    """Return the cursor of what follows a place."""
    return Cursor(_FORM, since, place.at, place.id).encode()


def read_cursor(said: str) -> Cursor:
    """Read a cursor; InvalidValue when it is none."""
    try:
        cursor = msgspec.json.decode(urlsafe_b64decode(said.encode() + b"=" * (-len(said) % 4)), type=Cursor)
        if cursor.form == _FORM and is_session_id(cursor.id) and 0 <= cursor.since < 1 << 53 and len(cursor.at) <= 64:
            read_places((), cursor.since, cursor.place, 1)  # its date must be one
            return cursor
    except (ValueError, *UNDECODABLE):
        pass
    raise InvalidValue("that is not the cursor of a list", hint="use the one that the last page gave, or begin without")


def place_of(updated_at: str, session_id: str) -> Place:
    """Return where something on disk is: other programs may have written its date otherwise than Maestro does."""
    if len(updated_at) != _DATE or not updated_at.endswith("+00:00"):
        try:
            updated_at = iso(from_iso(updated_at))
        except (ValueError, OverflowError, OSError):
            updated_at = _LATEST if updated_at >= _LATEST else ""
    return Place(updated_at, session_id)


class Part(NamedTuple):
    """What one shard says of a page."""

    places: list[tuple[str, int]]  #: id and last activity, as it is now
    is_cut: bool  #: there may be more below them
    moved: dict[str, int | None]  #: id → last activity at the moment of the list; None: it was not there


def read_places(index: tuple[str, ...], since: int, before: Place | None, count: int) -> Call:
    """Read so many sessions of a shard that follow a place, and which have moved since the moment of the list."""
    before_ms: int | str = "+inf"
    if before is not None and before.at < _LATEST:
        before_ms = from_iso(before.at) if before.at else "-inf"

    def read(reply: list[Any]) -> Part:
        if text(reply[0]) != "OK":
            raise Refused("the list has changed too much since that cursor was given", hint="begin again without it")
        scores = zip(reply[1][::2], reply[1][1::2], strict=True)
        places = [(one.decode(errors="replace"), moment(score)) for one, score in scores]
        moved: dict[str, int | None] = {}
        for _, (one, place) in reply[2]:
            moved.setdefault(one.decode(errors="replace"), _ms(place))
        return Part(places, sum(ms != before_ms for _, ms in places) >= count, moved)

    return Call(load("page_sessions"), index, (since, before_ms, count), read)


def _ms(score: bytes) -> int | None:
    try:
        return moment(score)
    except ValueError:
        return None


class Live(NamedTuple):
    """The live sessions of a page."""

    places: list[Place]  #: in order
    floor: Place | None  #: how far they are known; None: to the end
    was_live: dict[str, bool]  #: of those that have moved, whether they were there at the moment of the list


def places_in(parts: list[Part], before: Place | None) -> Live:
    """Return which live sessions follow a place, as they were at the moment of the list."""
    found, floors = [], []
    was_live: dict[str, bool] = {}
    for places, is_cut, moved in parts:
        # One that is new is shown on the first page; after that it has come too late.
        here = [(one, ms) for one, ms in places if one not in moved or (before is None and moved[one] is None)]
        here += [(one, ms) for one, ms in moved.items() if ms is not None]
        found += [Place(iso(ms), one) for one, ms in here if is_session_id(one) and ms >= 0]
        if is_cut:
            floors.append(min(Place(iso(max(0, ms)), one) for one, ms in places))
        was_live |= {one: ms is not None for one, ms in moved.items()}
    floor = max(floors, default=None)
    shown = [one for one in found if (before is None or one < before) and (floor is None or one >= floor)]
    return Live(sorted(set(shown), reverse=True), floor, was_live)
