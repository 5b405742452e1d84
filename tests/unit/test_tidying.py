"""When a log is written anew: large, and in a quiet moment."""

from __future__ import annotations

from maestro_workers.stack.log_rewrite import LARGE_BYTES, QUIET_S, Tidying


def test_a_large_log_is_written_anew_when_it_has_been_quiet_for_a_while():
    """While it grows nothing is done, however large it is; a few bytes are no growth."""
    tidying, size, now_s = Tidying(), LARGE_BYTES, 100.0
    for _ in range(10):
        assert not tidying.is_due(now_s, size, 0)
        size += 10_000_000
        now_s += QUIET_S
    assert not tidying.is_due(now_s, size, 0)
    assert not tidying.is_due(now_s + QUIET_S / 2, size + 1000, 0)
    assert tidying.is_due(now_s + QUIET_S, size + 2000, 0)


def test_a_small_log_or_one_just_written_is_left_alone():
    """Below the size, or below twice what it was after the last time, it is never due."""
    tidying = Tidying()
    for now_s in (0.0, QUIET_S, 10 * QUIET_S):
        assert not tidying.is_due(now_s, LARGE_BYTES - 1, 0)
        assert not tidying.is_due(now_s, LARGE_BYTES, LARGE_BYTES - 1)


def test_a_log_that_shrank_is_followed_anew():
    """After it was written anew the clock starts again."""
    tidying = Tidying()
    tidying.is_due(0.0, 3 * LARGE_BYTES, 0)
    assert tidying.is_due(QUIET_S, 3 * LARGE_BYTES, 0)
    assert not tidying.is_due(QUIET_S + 1, LARGE_BYTES, LARGE_BYTES // 4)
    assert tidying.is_due(2 * QUIET_S + 1, LARGE_BYTES, LARGE_BYTES // 4)
