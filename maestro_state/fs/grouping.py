"""Many who make things durable at the same time: one call of the system for all whose writing was done before it began.

A file system is synced as a whole, so one call serves everybody; who comes while one is under way needs the next.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Condition


class SyncGroup:
    """Calls that are shared."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._begun = self._ended = 0  #: calls so far
        self._failures: dict[int, OSError] = {}
        self._answer = True

    def sync(self, call: Callable[[], bool]) -> bool:
        """Return when a call has ended that began after this; make it, unless somebody else does."""
        with self._changed:
            wanted = self._begun + 1
            while self._ended < wanted:
                if self._begun == self._ended:  # nobody is at it
                    self._begun += 1
                    number = self._begun
                    break
                self._changed.wait()
            else:
                if failure := self._failures.get(wanted):
                    raise OSError(failure.errno, failure.strerror)
                return self._answer
        try:
            answer = call()
        except OSError as error:
            self._end(number, error)
            raise
        except BaseException:
            self._end(number, OSError(5, "interrupted"))
            raise
        self._answer = answer
        self._end(number, None)
        return answer

    def _end(self, number: int, error: OSError | None) -> None:
        with self._changed:
            self._ended = number
            if error is not None:
                self._failures[number] = error
            self._changed.notify_all()
