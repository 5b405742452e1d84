# Generated from maestro_state.api.search by `make generate`. Do not edit.
"""Search: over everything that sessions say, live and archived, each hit once.

The cache has what archives say. What the server has beyond it is read from there when somebody asks, and kept: a
search costs what is new since the last one."""

from __future__ import annotations

from collections.abc import Callable, Collection

from maestro_state.aio.companion import Room
from maestro_state.api.search import Search
from maestro_state.models.search import Found, Rebuilt


class AsyncSearch(Room[Search]):
    """Finds what was said, asked, answered, added and noted."""

    async def find(
        self,
        query: str,
        *,
        limit: int = 20,
        kinds: Collection[str] = (),
        session: str | None = None,
        live: bool | None = None,
        since: str | None = None,
        rank: bool = False,
        everywhere: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> Found:
        """Find what has all these words, "phrases" and prefixes*, newest first; with `rank` the best ones first.

        `kinds` are some of message, prompt, output, context and note; `live` is True for sessions that the server has,
        False for those that only the disk has; `since` a time, a date, or how long ago (`7d`). `everywhere` searches
        all projects of this user that are there. `progress` hears how many archives of how many were read, when there
        are new ones.
        """
        return await self._call(
            lambda room: room.find(
                query,
                limit=limit,
                kinds=kinds,
                session=session,
                live=live,
                since=since,
                rank=rank,
                everywhere=everywhere,
                progress=progress,
            )
        )

    async def rebuild(self, *, progress: Callable[[int, int], None] | None = None) -> Rebuilt:
        """Throw the cache away and make it anew. Takes as long as reading every archive."""
        return await self._call(lambda room: room.rebuild(progress=progress))

    async def close(self) -> None:
        """Close the cache. Repeatable."""
        await self._call(lambda room: room.close())
