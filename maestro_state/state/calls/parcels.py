"""An archived session on its way through the server, piece by piece: what a piece is, how it is passed on. Pure.

Few pieces wait at a time, so that no archive needs to fit into the server's memory; what nobody fetches expires.
"""

from __future__ import annotations

from typing import Any

import msgspec

from maestro_state.errors import FileCorrupt, WorkFailed
from maestro_state.models.undecodable import UNDECODABLE
from maestro_state.state.calls.replies import text
from maestro_state.state.calls.terms import Terms
from maestro_state.state.scripts import Call, Query, load

#: Largest content of a piece, in bytes, and how many wait at a time: two megabytes of the server's memory.
PIECE_BYTES = 256 * 1024
PIECES_MAX = 8
#: Life of a parcel that nobody fetches, in milliseconds.
LIFE_MS = 60_000

#: Life of the sign that somebody waits for a parcel, in milliseconds; it is renewed with every wait for a piece.
ASKER_MS = 5_000

#: Kinds of pieces: the id of what comes, a part of a file, that it was all; or who has no such session, or why not.
BEGIN, PART, END, NONE, FAILED = "begin", "part", "end", "none", "failed"


class Piece(msgspec.Struct, frozen=True, array_like=True):
    """One piece; numbered, so that one that was lost or came twice is noticed."""

    number: int
    kind: str
    name: str  #: of a part its path, else what the kind says
    data: bytes = b""


_decode = msgspec.msgpack.Decoder(Piece).decode


def add_piece(terms: Terms, token: str, piece: Piece) -> Call:
    """Pass a piece on; answers False when too many wait, and raises WorkFailed when nobody fetches them."""

    def read(reply: list[Any]) -> bool:
        word = text(reply[0])
        if word == "GONE":
            raise nobody_waits()
        return word == "OK"

    args = (LIFE_MS, PIECES_MAX, msgspec.msgpack.encode(piece))
    return Call(load("add_piece"), terms.keys.parcel(token), args, read)


def nobody_waits() -> WorkFailed:
    """Return what stops a sender."""
    return WorkFailed("nobody waits for the archive any more")


def wait_for(terms: Terms, token: str) -> Query:
    """Show that somebody waits for a parcel, for a few seconds more."""
    return Query(("SET", terms.keys.parcel(token)[1], "", "PX", ASKER_MS), lambda _: None)


def is_waited_for(terms: Terms, token: str) -> Query:
    """Ask whether somebody waits for a parcel."""
    return Query(("EXISTS", terms.keys.parcel(token)[1]), bool)


def remove(terms: Terms, token: str) -> Query:
    """Remove a parcel and the sign beside it."""
    return Query(("DEL", *terms.keys.parcel(token)), lambda _: None)


def next_piece(terms: Terms, token: str, wait_s: int) -> Query:
    """Fetch the next piece, waiting for it in the server; None when none came."""

    def read(reply: list[Any] | None) -> Piece | None:
        if reply is None:
            return None
        try:
            return _decode(reply[1])
        except UNDECODABLE as error:
            raise FileCorrupt(f"what came through the server is not a piece of an archive ({error})") from error

    return Query(("BLPOP", terms.keys.parcel(token)[0], wait_s), read)
