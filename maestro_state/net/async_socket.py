"""One asyncio socket that speaks RESP2: many callers, one stream of replies.

Whoever asks gets a future; replies settle the futures in the order in which they were asked. A caller that
gives up leaves its place in the queue, so that its reply is swallowed and never handed to the next one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

from hiredis import ProtocolError, Reader

from maestro_state.net.faults import AnswerLateError, ConnectionLostError, ReplyError

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future, TimerHandle, Transport

#: Silent half periods after which a connection counts as stuck: at least one whole timeout has passed then.
_STRIKES = 3


class _Batch:
    """The place of several replies that settle one future together."""

    __slots__ = ("future", "left", "replies")

    def __init__(self, future: Future[list[Any]], count: int) -> None:
        self.future = future
        self.left = count
        self.replies: list[Any] = []


class Pipe(asyncio.Protocol):
    """One open connection shared by all callers of one event loop."""

    def __init__(self, loop: AbstractEventLoop, timeout_s: float) -> None:
        """Start unconnected; the loop connects it."""
        self.loop = loop
        #: Seconds of silence that the callers put up with; 0 is without limit.
        self.timeout_s = timeout_s
        #: False as soon as nothing more can be asked here.
        self.is_open = False
        self._reader = Reader(replyError=ReplyError)
        self._transport: Transport | None = None
        self._waiting: deque[Future[Any] | _Batch] = deque()
        self._unsent: list[bytes] = []
        self._watch: TimerHandle | None = None
        self._strikes = 0
        self._late = False

    def ask(self, packed: bytes) -> Future[Any]:
        """Send one packed command and return the future of its reply."""
        future: Future[Any] = self.loop.create_future()
        self._send(packed)
        self._waiting.append(future)
        return future

    def ask_all(self, packed: bytes, count: int) -> Future[list[Any]]:
        """Send packed commands and return the future of all their replies."""
        future: Future[list[Any]] = self.loop.create_future()
        self._send(packed)
        self._waiting.append(_Batch(future, count))
        return future

    def close(self) -> None:
        """Close at once; whoever still waits gets ConnectionLostError."""
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    def _send(self, packed: bytes) -> None:
        """Write at once when nothing is under way, else together with all that this turn of the loop asks."""
        if not self._waiting:
            # The usual case of one caller: going through the loop once more would cost a select().
            assert self._transport is not None  # noqa: S101 - only an open pipe is asked
            self._transport.write(packed)
            if self._watch is None and self.timeout_s:
                self._strikes = 0
                self._watch = self.loop.call_later(self.timeout_s / 2, self._check)
            return
        if not self._unsent:
            self.loop.call_soon(self._flush)
        self._unsent.append(packed)

    def _flush(self) -> None:
        if self._unsent and self._transport is not None:
            self._transport.write(b"".join(self._unsent))
        self._unsent.clear()

    def _check(self) -> None:
        """Give up a connection on which answers are due and nothing is heard."""
        self._watch = None
        if not self._waiting or not self.is_open:
            return
        self._strikes += 1
        if self._strikes >= _STRIKES:
            self._late = True
            self.close()
            return
        self._watch = self.loop.call_later(self.timeout_s / 2, self._check)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        self._transport = transport  # type: ignore[assignment]
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        """Settle the futures whose replies are complete."""
        self._strikes = 0
        self._reader.feed(data)
        try:
            # RESP2 has no booleans: False can only mean that the reply is not complete.
            while (reply := self._reader.gets()) is not False:
                self._settle(reply)
        except ProtocolError:
            self.close()

    def _settle(self, reply: Any) -> None:
        if not self._waiting:
            # Such as the last word of a server that has no room for one more client.
            self.close()
            return
        place = self._waiting[0]
        if type(place) is _Batch:
            place.replies.append(reply)
            place.left -= 1
            if place.left:
                return
            future, reply = place.future, place.replies
        else:
            future = place  # type: ignore[assignment]
        self._waiting.popleft()
        if not future.done():
            future.set_result(reply)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail everybody who still waits."""
        self.is_open = False
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        self._unsent.clear()
        for place in self._waiting:
            future = place.future if type(place) is _Batch else place
            if not future.done():  # type: ignore[union-attr]
                future.set_exception(self._fault(exc))  # type: ignore[union-attr]
        self._waiting.clear()

    def _fault(self, exc: Exception | None) -> OSError:
        fault: OSError = AnswerLateError() if self._late else ConnectionLostError()
        fault.__cause__ = exc
        return fault
