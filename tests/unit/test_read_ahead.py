"""Reading ahead: in order, bounded, and over when nobody wants more."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from maestro_state.context.read_ahead import ahead
from tests.support.waiting import wait_until


def readers() -> list[threading.Thread]:
    """Return the reading threads there are."""
    return [thread for thread in threading.enumerate() if thread.name.startswith("read-ahead")]


def test_everything_comes_in_order():
    """What is produced is what is yielded."""
    assert list(ahead(range(100))) == list(range(100))
    assert not readers()


def test_no_more_is_read_than_a_little_ahead():
    """The producer waits for whoever uses the batches: memory stays bounded."""
    produced = []

    def produce() -> Iterator[int]:
        for number in range(1000):
            produced.append(number)
            yield number

    with closing(ahead(produce())) as coming:
        next(coming)
        wait_until(lambda: len(produced) >= 3, "it reads ahead")
        assert len(produced) <= 5
    assert len(produced) <= 5
    assert not readers()


def test_trouble_is_raised_where_the_batches_are_used():
    """What the producer raises reaches the user after what came before it."""

    def produce() -> Iterator[int]:
        yield 1
        raise ValueError("broken")

    coming = ahead(produce())
    assert next(coming) == 1
    with pytest.raises(ValueError, match="broken"):
        next(coming)
    assert not readers()


def test_the_thread_is_gone_when_the_user_fails():
    """An exception in the middle ends the reading before anything it reads from is closed."""

    def use() -> None:
        with closing(ahead(iter(range(1000)))) as coming:
            for _ in coming:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        use()
    assert not readers()
