"""What a framework keeps under a key, for one call."""

from __future__ import annotations

from collections.abc import Iterable

from maestro_state.adapters.binding import Binding


class View:
    """What is kept under a key, for one call: from the server as it is asked for, from the archive at once."""

    def __init__(self, binding: Binding) -> None:
        """Read nothing yet."""
        self._binding = binding
        self._archived: dict[str, bytes] | None = None

    @property
    def is_archived(self) -> bool:
        """Whether what was read is not from the server."""
        return self._archived is not None

    async def read(self, names: list[str]) -> dict[str, bytes]:
        """Return what is kept under some names."""
        if not names:
            return {}
        if self._archived is None:
            found = await self._binding.peek(names)
            if found is not None:
                return found
            source = await self._binding.source()
            if source is not None and not source.archived:
                return await source.kept(names)
            self._archived = {} if source is None else await source.kept()
        return {named: self._archived[named] for named in names if named in self._archived}

    async def names(self) -> list[str]:
        """Return all names."""
        if self._archived is None:
            source = await self._binding.source()
            if source is not None and not source.archived:
                return await source.kept_names()
            self._archived = {} if source is None else await source.kept()
        return [*self._archived]


class Read:
    """What was read of a view, and asked for: nothing is asked for twice."""

    def __init__(self, view: View, names: Iterable[str], found: dict[str, bytes]) -> None:
        """Begin with what was read."""
        self._view, self._asked, self.found = view, set(names), found

    async def more(self, names: list[str]) -> dict[str, bytes]:
        """Read what was not asked for yet; return what is kept under any of the names."""
        missing = [named for named in names if named not in self._asked]
        if missing:
            self._asked.update(missing)
            self.found |= await self._view.read(missing)
        return {named: self.found[named] for named in names if named in self.found}
