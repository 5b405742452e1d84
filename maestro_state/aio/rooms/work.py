# Generated from maestro_state.api.work by `make generate`. Do not edit.
"""Work sessions: start, end, pause, resume, list, tree, breadcrumbs, timeline, stats. Live ones and those on disk."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

from maestro_state.aio.companion import Room
from maestro_state.api.work import EVERYTHING, Breadcrumbs, Happenings, Ids, Nodes, Work, WorkSessions
from maestro_state.mirror.mailbox import Outcome
from maestro_state.models.message import Event
from maestro_state.models.run import Run
from maestro_state.models.work import Accepted, Breadcrumb, WorkSession, WorkView
from maestro_state.vocabulary import WorkStatus
from maestro_state.work.stats import WorkStats
from maestro_state.work.timeline import Happening
from maestro_state.work.tree import Filters


class AsyncWork(Room[Work]):
    """Work sessions of a project and what was left in them."""

    async def start(
        self,
        session_type: str,
        *,
        parent: str | None = None,
        related_entity: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
        ttl_seconds: int | None = None,
    ) -> WorkSession:
        """Start a work session, under another one if told, and write its folder."""
        return await self._call(
            lambda room: room.start(
                session_type, parent=parent, related_entity=related_entity, metadata=metadata, ttl_seconds=ttl_seconds
            )
        )

    async def end(self, ref: str, status: str = WorkStatus.COMPLETED, *, children: str = "refuse") -> WorkSession:
        """End a work session for good.

        Children that are still open: `refuse` (OpenChildren), `end` them first with the same status, or `leave`
        them to go on by themselves.
        """
        return await self._call(lambda room: room.end(ref, status, children=children))

    async def pause(self, ref: str) -> WorkSession:
        """Mark a work session as one that nobody works on just now."""
        return await self._call(lambda room: room.pause(ref))

    async def resume(self, ref: str) -> WorkSession:
        """Mark a paused work session as running again."""
        return await self._call(lambda room: room.resume(ref))

    async def resolve(self, ref: str = "latest") -> str:
        """Return the id that a full id, its beginning or `latest` means."""
        return await self._call(lambda room: room.resolve(ref))

    async def read(self, ref: str = "latest") -> WorkView:
        """Return a work session, live or on disk."""
        return await self._call(lambda room: room.read(ref))

    async def children(self, ref: str) -> WorkSessions:
        """Return the work sessions right under one."""
        return await self._call(lambda room: room.children(ref))

    async def list(self, filters: Filters = EVERYTHING) -> WorkSessions:
        """List work sessions, live ones and those on disk, last modified first."""
        return await self._call(lambda room: room.list(filters))

    async def tree(self, ref: str | None = None, filters: Filters = EVERYTHING) -> Nodes:
        """Return the tree under a work session, or all trees."""
        return await self._call(lambda room: room.tree(ref, filters))

    async def add_breadcrumb(self, cookie: str, breadcrumb: Breadcrumb) -> Accepted:
        """Accept a breadcrumb, once: the same breadcrumb_id again changes nothing. Unknown cookies are refused."""
        return await self._call(lambda room: room.add_breadcrumb(cookie, breadcrumb))

    async def add_run_breadcrumb(
        self, cookie: str, run: Run, prompt: str, response: str, *, session_id: str = "", activity: Sequence[Event] = ()
    ) -> Accepted:
        """Add the breadcrumb of a finished run and what its agent did, at its work session's depth; repeatable."""
        return await self._call(
            lambda room: room.add_run_breadcrumb(
                cookie, run, prompt, response, session_id=session_id, activity=activity
            )
        )

    async def breadcrumbs(
        self, ref: str = "latest", filters: Filters = EVERYTHING, *, with_children: bool = False
    ) -> Breadcrumbs:
        """Return what was accepted, in that order, with whether it was applied yet."""
        return await self._call(lambda room: room.breadcrumbs(ref, filters, with_children=with_children))

    async def stats(self, ref: str = "latest", filters: Filters = EVERYTHING) -> WorkStats:
        """Add up what was applied in a work session and all under it; of one that only the disk has, all that is there.

        Costs what the tree costs, not its breadcrumbs, unless a filter picks single ones or only the disk has them.
        """
        return await self._call(lambda room: room.stats(ref, filters))

    async def timeline(self, ref: str = "latest", filters: Filters = EVERYTHING) -> Happenings:
        """Return what happened in a work session and all under it, by time."""
        return await self._call(lambda room: room.timeline(ref, filters))

    async def checkpoint(self, ref: str = "latest") -> WorkView:
        """Write the record and every breadcrumb that is not on disk yet."""
        return await self._call(lambda room: room.checkpoint(ref))

    async def sweep(self) -> Ids:
        """Write every work session of this project that has changes not on disk yet; returns their ids."""
        return await self._call(lambda room: room.sweep())

    async def consume(self, cookie: str) -> Outcome:
        """Take what is in the mailboxes, apply what was accepted, in the work session and all under it; then return."""
        return await self._call(lambda room: room.consume(cookie))

    async def follow(self, cookie: str, *, until_idle_ms: int | None = None) -> AsyncIterator[Happening]:
        """Consume as breadcrumbs come, and yield what is logged, by whichever consumer, until the session's end."""
        async for one in self._pull(lambda room: room.follow(cookie, until_idle_ms=until_idle_ms)):
            yield one
