"""A cache of what an adapter knows of the keys that it used last."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class LRUCache(Generic[T]):
    """One thing for each key, made when it is first asked for; the least recently used are dropped.

    Several event loops may be at it at once, each in its thread: they get the same thing for a key.
    """

    def __init__(self, make: Callable[[str], T], most: int) -> None:
        """Take what makes one, and how many are kept."""
        self._make, self._most = make, most
        self._found: OrderedDict[str, T] = OrderedDict()
        self._changing = threading.Lock()

    def of(self, key: str) -> T:
        """Return what is known of a key."""
        with self._changing:
            found = self._found.get(key)
            if found is None:
                found = self._found[key] = self._make(key)
                if len(self._found) > self._most:
                    self._found.popitem(last=False)
            else:
                self._found.move_to_end(key)
            return found

    def forget(self, key: str) -> None:
        """Know nothing of a key any more."""
        with self._changing:
            self._found.pop(key, None)
