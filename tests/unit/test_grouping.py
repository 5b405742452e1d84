"""Several who sync at once share calls, and none is content with one that began before its own writing was done."""

from __future__ import annotations

import threading

import pytest

from maestro_state.fs.grouping import SyncGroup
from tests.support.waiting import wait_until


def test_who_comes_meanwhile_shares_the_next_call():
    """The first makes one call; all who come while it is under way are served by one more, not by it."""
    group, gate, calls = SyncGroup(), threading.Event(), []
    answers: list[bool] = []

    def call() -> bool:
        calls.append(None)
        gate.wait()
        return True

    first = threading.Thread(target=lambda: answers.append(group.sync(call)))
    first.start()
    wait_until(lambda: calls, "the first call has not begun")
    others = [threading.Thread(target=lambda: answers.append(group.sync(call))) for _ in range(6)]
    for one in others:
        one.start()
    wait_until(lambda: threading.active_count() >= 7, "the others are not there")
    assert len(calls) == 1
    assert answers == []
    gate.set()
    for one in (first, *others):
        one.join()
    assert answers == [True] * 7
    assert 2 <= len(calls) <= 7


def test_one_after_another_each_makes_its_call():
    """Nobody is served by a call that had ended before."""
    group, calls = SyncGroup(), []
    for _ in range(3):
        group.sync(lambda: calls.append(None) is None)
    assert len(calls) == 3


def test_a_failure_is_everybodys_who_waited_for_it():
    """What could not be made durable is not said to be; the next call is tried anew."""
    group = SyncGroup()

    def fail() -> bool:
        raise OSError(28, "no space")

    with pytest.raises(OSError, match="no space"):
        group.sync(fail)
    assert group.sync(lambda: True)
