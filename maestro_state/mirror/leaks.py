"""Secrets that tools printed: looked for in what a session's runs left, and marked beside it when it is archived.

A mark says where and what kind, never the value. Who asks gets what is there now: marks are for those who only pass by,
such as an export, and nobody relies on their absence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from maestro_state.errors import MaestroError
from maestro_state.fs.tree import Tree
from maestro_state.mirror import foreign
from maestro_state.mirror.home import Home
from maestro_state.mirror.layouts import session as layout
from maestro_state.mirror.view import open_view

#: The file beside an archive; only there when something was found.
MARKS = "secrets.json"
_FORMAT = 1

#: Most that is told of one session, and most bytes that are searched when it is archived: half a second's worth.
LEAKS_MAX = 1000
MARKED_BYTES = 16 << 20

#: Bytes searched at a time, and held back so that nothing that reaches over the end is cut.
_PIECE_BYTES, _HELD = 4 << 20, 1 << 16


class Leak(msgspec.Struct, frozen=True):
    """One place that looks like a secret."""

    path: str
    line: int
    rule: str


class _Marks(msgspec.Struct, frozen=True):
    format: int
    secrets: list[Leak]


def find_leaks(home: Home, session_id: str, *, limit_bytes: int | None = None) -> list[Leak]:
    """Search what a session's runs printed, and its messages; with a limit, only as many bytes."""
    found: list[Leak] = []
    with open_view(home, session_id) as tree:
        for path in _printed(tree):
            size = tree.size(path) or 0
            if size > layout.OUTPUT_LIMIT or (limit_bytes is not None and size > limit_bytes):
                continue
            limit_bytes = None if limit_bytes is None else limit_bytes - size
            for line, rule in _search(tree.pieces(path, _PIECE_BYTES) or ()):
                found.append(Leak(path, line, rule))
                if len(found) >= LEAKS_MAX:
                    return found
    return found


def _printed(tree: Tree) -> Iterator[str]:
    for run_id in sorted(filter(layout.RUN_ID.fullmatch, tree.names("runs")), key=int):
        yield layout.run_path(run_id, "output.txt")
    yield layout.MESSAGES


def _search(pieces: Iterable[bytes]) -> Iterator[tuple[int, str]]:
    """Yield the line and the kind of each secret; a secret over the end of a piece is found whole."""
    waiting, line = b"", 1
    for piece in pieces:
        waiting += piece
        cut = max(0, len(waiting) - _HELD)
        found, cut = _before(waiting, cut)
        yield from ((line + at, rule) for at, rule in found)
        line += waiting.count(b"\n", 0, cut)
        waiting = waiting[cut:]
    found, _ = _before(waiting, len(waiting))
    yield from ((line + at, rule) for at, rule in found)


def _before(content: bytes, cut: int) -> tuple[list[tuple[int, str]], int]:
    """Return the secrets that end before a place, by lines from the first, and that place moved before one it cuts."""
    from maestro_state.secrets import find_spans

    spans = find_spans(content, limit=None)
    for span in reversed(spans):
        if span.start < cut < span.end:
            cut = span.start
    return [(content.count(b"\n", 0, span.start), span.rule) for span in spans if span.end <= cut], cut


def mark(home: Home, session_id: str) -> list[Leak]:
    """Search an archive that was just written, and leave a mark beside it if there is something to mark."""
    found = find_leaks(home, session_id, limit_bytes=MARKED_BYTES)
    if found:
        with home.locked(session_id) as folder, folder.child(session_id) as place:
            place.replace(MARKS, layout.pretty(_Marks(_FORMAT, found)))
    return found


def marked(home: Home, session_id: str) -> int:
    """Return how many places are marked; whatever is wrong with the marks, they are only missing."""
    try:
        with open_view(home, session_id) as tree:
            content = tree.read(MARKS, limit=layout.JSON_LIMIT)
        row = foreign.table(content, MARKS) if content else {}
    except MaestroError:
        return 0
    rows = row.get("secrets")
    return len(rows) if isinstance(rows, list) else 0
