"""Reading what is too large for one reply: streams page by page, contents a few at a time."""

from __future__ import annotations

from typing import Any

from maestro_state.state.calls.events import event_of
from maestro_state.state.calls.messages import message_of
from maestro_state.state.calls.replies import text
from maestro_state.state.calls.terms import Terms
from maestro_state.state.scripts import Query

#: Entries read from a stream at a time. Of outputs few at first, since each may be large; as many then as make up about
#: so many bytes. Large ones may follow any number of small ones: only where all that is left would do are more read.
PAGE = 1000
OUTPUT_PAGE = 2
OUTPUT_PAGE_MAX = 64
OUTPUT_PAGE_BYTES = 1 << 20
OUTPUT_LEFT_BYTES, OUTPUT_LEFT_PAGE = 32 << 20, 512

#: Bytes of contents that are read at a time.
BLOB_BYTES = 1 << 20


def _pages(terms: Terms, session_id: str, name: str, span: tuple[str, str], count: int, read: Any) -> Query:
    start, end = span
    key = terms.keys.of_session(session_id, name)
    return Query(("XRANGE", key, start, end, "COUNT", count), read)


def read_messages(terms: Terms, session_id: str, start: str, end: str) -> Query:
    """Read one page of messages in a span of ids."""
    return _pages(terms, session_id, "messages", (start, end), PAGE,
                  lambda reply: [message_of(entry) for entry in reply])  # fmt: skip


def read_events(terms: Terms, session_id: str, start: str, end: str) -> Query:
    """Read one page of events in a span of ids."""
    return _pages(terms, session_id, "events", (start, end), PAGE,
                  lambda reply: [event_of("events", entry) for entry in reply])  # fmt: skip


def next_output_page(count: int, size: int, left: int | None = None) -> int:
    """Return how many pieces to read after a page of so many, which had so many bytes; `left` is known to follow."""
    most = OUTPUT_LEFT_PAGE if left is not None and left <= OUTPUT_LEFT_BYTES else OUTPUT_PAGE_MAX
    if size * 2 <= OUTPUT_PAGE_BYTES:
        return min(count * 2, most)
    return max(count // 2, OUTPUT_PAGE) if size > OUTPUT_PAGE_BYTES * 2 else count


class OutputPages:
    """What runs printed in a span of ids, asked for page by page."""

    def __init__(self, terms: Terms, session_id: str, span: tuple[str, str], left: int | None) -> None:
        """Take the span; `left` is how many bytes there are at most, if that is known."""
        self._key = terms.keys.of_session(session_id, "outputs")
        self._start, self._end = span
        self._left = left
        is_little = left is not None and left <= OUTPUT_LEFT_BYTES
        self._count = OUTPUT_PAGE_MAX if is_little else OUTPUT_PAGE

    def command(self) -> tuple[Any, ...]:
        """Ask for the next page."""
        return ("XRANGE", self._key, self._start, self._end, "COUNT", self._count)

    def following(self, reply: list[Any]) -> tuple[Any, ...] | None:
        """Ask for the page after one that has come; None when that was the last."""
        if len(reply) < self._count:
            return None
        self._start = f"({text(reply[-1][0])}"
        size = sum(len(fields[3]) for _, fields in reply)
        self._left = None if self._left is None else self._left - size
        self._count = next_output_page(self._count, size, self._left)
        return self.command()


def read_printed(reply: list[Any]) -> list[tuple[str, str, bytes]]:
    """Read one page of what runs printed: id, run, bytes."""
    # Run and data come first in every entry; who printed it may follow.
    return [(entry_id.decode(), fields[1].decode(), fields[3]) for entry_id, fields in reply]


def in_batches(digests: list[str], sizes: list[int]) -> list[list[str]]:
    """Divide contents into those that are read together: few enough bytes, but one in any case."""
    batches: list[list[str]] = []
    room = 0
    for digest, size in zip(digests, sizes, strict=True):
        room -= size
        if room < 0 or not batches:
            batches.append([])
            room = BLOB_BYTES - size
        batches[-1].append(digest)
    return batches
