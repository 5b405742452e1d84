# Generated from maestro_state.api.histories by `make generate`. Do not edit.
"""Histories: what was said in the AI tools themselves, as archived sessions."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from maestro_state.aio.companion import Room
from maestro_state.api.histories import Histories
from maestro_state.histories.ownership import Start
from maestro_state.models.imports import ImportReport
from maestro_state.models.session import Terminal
from maestro_state.upkeep.import_histories import Progress


class AsyncHistories(Room[Histories]):
    """Takes over the histories that tools keep of themselves."""

    async def import_(
        self,
        tool: str,
        paths: Sequence[str | os.PathLike[str]] = (),
        *,
        any_project: bool = False,
        since: str | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> ImportReport:
        """Make archived sessions of a tool's conversations: of this project, unless `any_project`; those of a file that
        is named are always taken. Without paths, from where the tool keeps them. What was imported before is only
        added to. Tool files are never written.
        """
        return await self._call(
            lambda room: room.import_(
                tool, paths, any_project=any_project, since=since, dry_run=dry_run, progress=progress
            )
        )

    async def follow(
        self,
        tool: str,
        path: str | os.PathLike[str] | None = None,
        ref: str | None = None,
        *,
        is_over: Callable[[], object] = lambda: False,
    ) -> int:
        """Bring a conversation into a live session as it goes on: a tool's newest of this project, or that of a file.

        What is said there is here within two seconds: messages, what the agent does, each turn as a run with tokens.
        What the session has already is told by the tool's ids. Returns, when `is_over` says so, how many messages were
        added; waits for a conversation where there is none yet.
        """
        return await self._call(lambda room: room.follow(tool, path, ref, is_over=is_over))

    async def follow_start(
        self,
        start: Start,
        ref: str | None = None,
        *,
        terminal: Terminal | None = None,
        is_over: Callable[[], object] = lambda: False,
        told: Callable[[str], object] = lambda _: None,
        doubted: Callable[[str], object] = lambda _: None,
    ) -> int:
        """Bring what is said in one start of a tool into a live session, whichever conversations are held in it, until
        `is_over` says that the tool has ended. What an earlier one left unsaid is said first.

        Where the session ends or expires meanwhile it goes on in a fork, of whose id `told` hears; `doubted` hears the
        ids of conversations that may be of this start or of another, and are left to an import. Returns how many
        messages were added.
        """
        return await self._call(
            lambda room: room.follow_start(start, ref, terminal=terminal, is_over=is_over, told=told, doubted=doubted)
        )

    async def catch_up(self, tool: str | None = None) -> int:
        """Say what was said in tools that were being followed by processes which were killed; return how many messages
        were added.
        """
        return await self._call(lambda room: room.catch_up(tool))

    async def import_files(self, paths: Sequence[str | os.PathLike[str]], *, dry_run: bool = False) -> ImportReport:
        """Make archived sessions of what `maestro export` wrote (`.json` whole, `.md` its conversation), and of zips of
        an archive's folder. A session that is here already stays as it is.
        """
        return await self._call(lambda room: room.import_files(paths, dry_run=dry_run))
