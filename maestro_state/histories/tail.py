"""A history that goes on: what was added since, read from the byte where the last whole line ended."""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterator
from typing import Generic, TypeVar

from maestro_state.errors import FileCorrupt
from maestro_state.histories.lines import decoded, open_history
from maestro_state.histories.readers import Reader
from maestro_state.histories.sqlite import database
from maestro_state.histories.values import Broken, Conversation, Step

_L = TypeVar("_L")


class Tail(Generic[_L]):
    """How lines of a tool become steps, one after another."""

    def __init__(
        self,
        decode: Callable[[bytes], _L],
        take: Callable[[_L], Iterator[Step]],
        rest: Callable[[], Iterator[Step]] = lambda: iter(()),
    ) -> None:
        """Take what decodes a line, what it tells, and what was held to see what follows."""
        self.decode, self.take, self.rest = decode, take, rest


class Growing:
    """One conversation that goes on."""

    def __init__(self, reader: Reader, conversation: Conversation, seen: Container[str]) -> None:
        """Begin at the beginning: what is known already is passed over by its keys."""
        self._reader, self._conversation, self._seen = reader, conversation, seen
        self._tail: Tail[object] | None = None
        self._offset = 0
        self._stamp: list[int] | None = None

    def more(self) -> Iterator[Step]:
        """Yield what is new; a history that was cut or replaced is read again from its beginning."""
        path = self._conversation.path
        try:
            found = os.stat(path)
            # What a database's log has is not in it yet.
            stamp = [found.st_ino, *database(path).stamp]
        except FileNotFoundError:
            return  # being replaced, or gone: what was seen stays
        if stamp == self._stamp:
            return
        before, self._stamp = self._stamp, stamp
        begin = getattr(self._reader, "tail", None)
        if begin is None:
            try:
                yield from self._again(path)
            except FileCorrupt:
                self._stamp = None  # it was being written
            return
        if self._tail is None or found.st_size < self._offset or (before and before[0] != found.st_ino):
            self._tail, self._offset = begin(self._seen), 0
        tail = self._tail
        with open_history(path) as file:
            for place, line in decoded(file, tail.decode, self._offset):
                self._offset = place
                yield from (line,) if isinstance(line, Broken) else tail.take(line)
        yield from tail.rest()

    def _again(self, path: str) -> Iterator[Step]:
        """Read the whole conversation: its tool may change any part of it, or keeps it in a database."""
        for stamped in self._reader.files(path):
            for one in self._reader.conversations(stamped):
                if one.external_id == self._conversation.external_id:
                    yield from one.read(self._seen)
