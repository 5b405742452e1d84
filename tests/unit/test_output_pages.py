"""How many pieces of output are read at a time: many small ones, and never more than memory should hold."""

from __future__ import annotations

from maestro_state.ops.archiving import OUTPUT_LEFT_BYTES, OUTPUT_PAGE, next_output_page
from workers.invoke import PIECE_BYTES


def _most(piece: int, left: int | None) -> int:
    """Return how many pieces are read at last, when all of them have this size."""
    count = OUTPUT_PAGE
    for _ in range(20):
        count = next_output_page(count, count * piece, left)
    return count


def test_large_pieces_that_follow_small_ones_stay_in_bounds():
    """After any number of tiny pieces, a page of the largest there are is 32 MB; with little left all may come."""
    assert _most(1, None) * PIECE_BYTES <= OUTPUT_LEFT_BYTES
    assert _most(1, OUTPUT_LEFT_BYTES + 1) * PIECE_BYTES <= OUTPUT_LEFT_BYTES
    assert _most(1, OUTPUT_LEFT_BYTES) > _most(1, None)


def test_small_pieces_are_read_many_at_a_time_and_large_ones_few():
    """About a megabyte at a time, whatever the size of a piece."""
    assert _most(PIECE_BYTES, 0) == OUTPUT_PAGE
    assert _most(8192, 0) * 8192 == 1 << 20
