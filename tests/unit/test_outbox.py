"""How output waits for the server: exact, in order, bounded, and never in silence when sending fails."""

from __future__ import annotations

from contextlib import closing
from threading import Event, Thread

import pytest
from maestro_workers.output import BATCH_BYTES, WAITING_BYTES, Outbox

from maestro_state.errors import LostClaim
from tests.support.waiting import wait_until

PIECE = 64 * 1024


class _Server:
    """Takes output as a server does; closed, it makes the sender wait."""

    def __init__(self) -> None:
        self.data = b""
        self.batches: list[int] = []
        self.open = Event()
        self.open.set()
        self.fails = False
        self.cancels = False

    def send(self, offset: int, pieces: list[bytes]) -> bool:
        assert offset == len(self.data)
        self.open.wait()
        if self.fails:
            raise LostClaim("taken")
        self.data += b"".join(pieces)
        self.batches.append(sum(map(len, pieces)))
        return self.cancels


def test_small_pieces_are_sent_at_once():
    """A piece of a slow tool is with the server when `put` returns."""
    server = _Server()
    with closing(Outbox(server.send, PIECE)) as outbox:
        for number in range(5):
            outbox.put(b"%d" % number)
            assert len(server.data) == outbox.stored == number + 1
    assert server.batches == [1] * 5


def test_what_waits_goes_together_and_in_order():
    """Pieces that come while the server is busy are sent in few batches, none lost, none out of order."""
    server = _Server()
    server.open.clear()
    pieces = [bytes([number]) * PIECE for number in range(WAITING_BYTES // PIECE)] + [b"the end"]
    with closing(Outbox(server.send, PIECE)) as outbox:
        for piece in pieces:
            outbox.put(piece)
        assert outbox.stored == 0
        server.open.set()
        outbox.flush()
        assert outbox.stored == len(server.data)
        outbox.put(b", and more")
    assert server.data == b"".join(pieces) + b", and more"
    assert len(server.batches) < 10
    assert max(server.batches) < BATCH_BYTES + PIECE


def test_a_tool_is_held_up_when_too_much_waits():
    """Nothing more is taken while the bound is reached; when the server goes on, so does the tool."""
    server = _Server()
    server.open.clear()
    with closing(Outbox(server.send, PIECE)) as outbox:
        taken: list[int] = []

        def print_much() -> None:
            for number in range(3 * WAITING_BYTES // PIECE):
                outbox.put(b"x" * PIECE)
                taken.append(number)

        tool = Thread(target=print_much)
        tool.start()
        most = WAITING_BYTES + BATCH_BYTES
        wait_until(lambda: len(taken) * PIECE >= WAITING_BYTES, "the outbox is full")
        assert len(taken) * PIECE <= most
        server.open.set()
        tool.join()
        outbox.flush()
    assert len(server.data) == 3 * WAITING_BYTES


def test_a_failure_is_raised_in_every_later_call():
    """Whoever puts or flushes after a failed batch is told, however often; what the server has is known exactly."""
    server = _Server()
    with closing(Outbox(server.send, PIECE)) as outbox:
        outbox.put(b"kept")
        server.fails = True
        outbox.put(b"x" * PIECE)
        for _ in range(2):
            with pytest.raises(LostClaim):
                outbox.flush()
        for piece in (b"y", b"y" * PIECE):
            with pytest.raises(LostClaim):
                outbox.put(piece)
        assert outbox.stored == len(server.data) == 4


def test_a_cancellation_heard_once_stays():
    """The server says once that the run is canceled; the outbox remembers."""
    server = _Server()
    with closing(Outbox(server.send, PIECE)) as outbox:
        server.cancels = True
        outbox.put(b"x" * PIECE)
        outbox.flush()
        server.cancels = False
        outbox.put(b"y")
        assert outbox.is_canceled
