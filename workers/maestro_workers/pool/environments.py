"""The environments that asking terminals handed over, by run: in this process's memory, and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass

#: Bytes of environments kept at most: some ten thousand runs that wait.
MAX_BYTES = 64 << 20

#: A session and a run of it.
Name = tuple[str, str]


@dataclass(slots=True)
class _Held:
    variables: list[bytes]
    size: int
    is_fetched: bool = False


class Environments:
    """What runs are to see."""

    def __init__(self) -> None:
        self._held: dict[Name, _Held] = {}
        self._size = 0

    def put(self, name: Name, variables: list[bytes]) -> bool:
        """Keep a run's environment; False when there is no room for it."""
        size = sum(map(len, variables)) + 64 * len(variables)
        if self._size + size > MAX_BYTES:
            return False
        self.forget(name)
        self._held[name] = _Held(variables, size)
        self._size += size
        return True

    def get(self, name: Name) -> list[bytes] | None:
        """Return a run's environment, for as often as the run is tried; None when it is not here."""
        held = self._held.get(name)
        if held is None:
            return None
        held.is_fetched = True
        return held.variables

    def forget(self, name: Name) -> None:
        """Drop the environment of a run that is over."""
        held = self._held.pop(name, None)
        if held is not None:
            self._size -= held.size

    def clear(self) -> None:
        """Drop all of them."""
        self._held.clear()
        self._size = 0

    def names(self) -> list[Name]:
        """List the runs, oldest first."""
        return list(self._held)

    def count_unfetched(self) -> int:
        """Count the runs that no worker has come for yet."""
        return sum(not held.is_fetched for held in self._held.values())
