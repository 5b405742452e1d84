"""What adapters remember of keys."""

from __future__ import annotations

import threading

from maestro_state.adapters.lru_cache import LRUCache


def test_what_was_asked_for_longest_ago_goes_first():
    """A key that is in use stays, however long ago it was first asked for."""
    made: list[str] = []
    known = LRUCache(lambda key: made.append(key) or [key], 2)  # type: ignore[func-returns-value]
    first = known.of("a")
    known.of("b")
    assert known.of("a") is first
    known.of("c")
    assert known.of("a") is first
    known.of("b")
    known.forget("a")
    known.forget("a")
    assert known.of("a") is not first
    assert made == ["a", "b", "c", "b", "a"]


def test_threads_get_the_same_for_a_key():
    """And none is in the way of another that lets go of something."""
    known: LRUCache[object] = LRUCache(lambda key: object(), 4)
    gate, seen, done = threading.Barrier(8), list[object](), list[bool]()

    def ask() -> None:
        gate.wait()
        seen.append(known.of("one"))
        gate.wait()
        for number in range(2000):
            known.of(str(number % 7))
            known.forget(str(number % 5))
        done.append(True)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(one) for one in seen}) == 1
    assert len(done) == 8
