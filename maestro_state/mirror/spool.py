"""What a run printed, kept aside while it is found out what it is: text or not, and which fence would hold it.

Neither a large output nor one that claims to be takes memory: above a mebibyte it is on disk, above what a run may
print it is not taken at all.
"""

from __future__ import annotations

import codecs
import re
import tempfile
from collections.abc import Iterator
from typing import Protocol, Self

_PIECE_BYTES = 1 << 20
_TICKS = re.compile(rb"`+")

#: Bytes that are held back so that nothing that reaches over the end of a piece is cut.
_HELD = 1 << 16
#: Longest line that is waited for.
_LINE_MAX = 4 << 20


class TooLarge(Exception):
    """More was printed than is taken."""


class Redaction(Protocol):
    """What finds secrets in bytes, and takes them out."""

    def redact(self, content: bytes) -> bytes:
        """Return the content with each secret replaced."""
        ...

    def spans(self, content: bytes) -> list[tuple[int, int]]:
        """Return where secrets are."""
        ...


class Spool:
    """One output on its way into a document."""

    def __init__(self, limit: int) -> None:
        """Take how many bytes are taken at most."""
        self._file = tempfile.SpooledTemporaryFile(max_size=_PIECE_BYTES)  # noqa: SIM115 - closed by close
        self._limit = limit
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._ticks = 0
        self.is_text = True
        self.size = 0
        self.longest_ticks = 0  #: the longest row of backticks

    def add(self, piece: bytes) -> None:
        """Take the next piece; raise TooLarge when that is too much."""
        self.size += len(piece)
        if self.size > self._limit:
            raise TooLarge
        self._file.write(piece)
        if self.is_text:
            try:
                self._decoder.decode(piece)
            except UnicodeDecodeError:
                self.is_text = False
        self._count_ticks(piece)

    def _count_ticks(self, piece: bytes) -> None:
        """Follow rows of backticks over the ends of pieces."""
        for found in _TICKS.finditer(piece):
            length = found.end() - found.start() + (self._ticks if found.start() == 0 else 0)
            self.longest_ticks = max(self.longest_ticks, length)
        trailing = len(piece) - len(piece.rstrip(b"`"))
        self._ticks = self._ticks + trailing if trailing == len(piece) else trailing

    def finish(self) -> None:
        """Say that this was all: text that ends in the middle of a character is none."""
        try:
            self._decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            self.is_text = False

    def pieces(self, redaction: Redaction | None = None) -> Iterator[bytes]:
        """Yield what was taken, without its secrets if told; no secret is cut in two on the way."""
        self._file.seek(0)
        if redaction is None:
            while piece := self._file.read(_PIECE_BYTES):
                yield piece
            return
        waiting = b""
        while piece := self._file.read(_PIECE_BYTES):
            waiting += piece
            if cut := _safe_cut(waiting, redaction):
                yield redaction.redact(waiting[:cut])
                waiting = waiting[cut:]
        yield redaction.redact(waiting)

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _safe_cut(waiting: bytes, redaction: Redaction) -> int:
    """Return up to where bytes can be redacted by themselves: at the end of a line, and in the middle of no secret."""
    end = max(0, len(waiting) - _HELD)
    cut = waiting.rfind(b"\n", 0, end) + 1 or (end if len(waiting) > _LINE_MAX else 0)
    for start, stop in reversed(redaction.spans(waiting)):
        if start < cut < stop:
            cut = start
    return cut
