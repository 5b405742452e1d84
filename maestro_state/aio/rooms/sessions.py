# Generated from maestro_state.api.sessions by `make generate`. Do not edit.
"""Sessions: start, list, status, switch, end, abort, fork, delete; reading them is in `live.records`."""

from __future__ import annotations

from maestro_state.aio.companion import Room
from maestro_state.api.sessions import Ids, Sessions
from maestro_state.live.records import AsyncRecords
from maestro_state.models.session import Session, SessionList, SessionStatus
from maestro_state.upkeep.finalize import Told


class AsyncSessions(Room[Sessions], AsyncRecords):
    """What can be done with sessions as wholes."""

    async def start(
        self,
        name: str,
        *,
        note: str | None = None,
        ttl_seconds: int | None = None,
        tool: str | None = None,
        task_id: str | None = None,
        working_directory: str | None = None,
        activate: bool = True,
    ) -> Session:
        """Start a session and put this checkout on it, unless that is not to `activate` it."""
        return await self._call(
            lambda room: room.start(
                name,
                note=note,
                ttl_seconds=ttl_seconds,
                tool=tool,
                task_id=task_id,
                working_directory=working_directory,
                activate=activate,
            )
        )

    async def namesakes(self, session: Session) -> Ids:
        """Return other sessions of the same name that are still at work, last active first."""
        return await self._call(lambda room: room.namesakes(session))

    async def status(self, ref: str | None = None) -> SessionStatus:
        """Return everything there is to say about a session's present."""
        return await self._call(lambda room: room.status(ref))

    async def list(
        self, *, state: str | None = None, user: str | None = None, everything: bool = False, notice: bool = True
    ) -> SessionList:
        """List live sessions and this checkout's archived ones, last active first.

        Archived ones are those of the last 30 days, or `everything`; `older` counts those left out. Whose time turns
        out to be over is frozen, unless that is not to be taken `notice` of.
        """
        return await self._call(lambda room: room.list(state=state, user=user, everything=everything, notice=notice))

    async def page(
        self,
        limit: int,
        cursor: str | None = None,
        *,
        state: str | None = None,
        user: str | None = None,
        everything: bool = False,
        notice: bool = True,
    ) -> SessionList:
        """List so many sessions as `list` does, from the `cursor` on that the page before has; None at the end.

        All pages are of the moment of the first one: a session that stays is on one of them, however often it, or any
        other, changes meanwhile. Costs what it shows, however many the server has.
        """
        return await self._call(
            lambda room: room.page(limit, cursor, state=state, user=user, everything=everything, notice=notice)
        )

    async def switch(self, ref: str) -> Session:
        """Put this checkout on a session."""
        return await self._call(lambda room: room.switch(ref))

    async def end(self, ref: str | None = None, *, archive: bool = True, told: Told | None = None) -> Session:
        """Freeze a session as finished, and return when its archive is verified; `told` hears what is being done.

        Without `archive` it is left to a worker, or the sweep. Raises ArchiveFailed when it cannot be written: the
        session is frozen and the server keeps it.
        """
        return await self._call(lambda room: room.end(ref, archive=archive, told=told))

    async def abort(
        self, ref: str | None = None, *, reason: str, archive: bool = True, told: Told | None = None
    ) -> Session:
        """Freeze a session as given up; what it holds stays, and is archived as by `end`."""
        return await self._call(lambda room: room.abort(ref, reason=reason, archive=archive, told=told))

    async def fork(self, ref: str, name: str, *, activate: bool = True) -> Session:
        """Start a new session from a live or an archived one, with its active items, notes, tool and messages.

        Runs stay with the old one, which the new one names. Not to be seen before it is complete.
        """
        return await self._call(lambda room: room.fork(ref, name, activate=activate))

    async def delete(self, ref: str, *, trash: bool = False) -> str:
        """Remove a session from the server, the disk and the index, for good; or with its archive in the trash.

        For the trash it is written to disk first, so that nothing is lost that the server had.
        """
        return await self._call(lambda room: room.delete(ref, trash=trash))
