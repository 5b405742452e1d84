"""How much is read at a time: many small pieces and contents, and never more than memory should hold."""

from __future__ import annotations

from maestro_workers.invoke import PIECE_BYTES

from maestro_state.state.calls.paging import BLOB_BYTES, OUTPUT_LEFT_BYTES, OUTPUT_PAGE, in_batches, next_output_page


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


def test_contents_are_read_together_up_to_a_megabyte_and_each_one_once():
    """Small ones share a batch, a large one has its own, and none is left out."""
    sizes = [10, 20, BLOB_BYTES, BLOB_BYTES + 1, 5, BLOB_BYTES - 5, 1]
    digests = [str(number) for number in range(len(sizes))]
    assert in_batches(digests, sizes) == [["0", "1"], ["2"], ["3"], ["4", "5"], ["6"]]
    assert in_batches([], []) == []
