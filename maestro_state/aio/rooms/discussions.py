# Generated from maestro_state.api.discussions by `make generate`. Do not edit.
"""Discussions: start, say, done, list, show, replay, migrate.

While a discussion is open the server has it, for all terminals; every change is also written to this checkout's files
at once. The last line on disk says where to go on, so a checkout that was away, or killed half-way, catches up with the
next call. A closed discussion needs no server any more; an open one that the server has forgotten is taken up again
from disk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from maestro_state.aio.companion import Room
from maestro_state.api.discussions import Discussions
from maestro_state.discuss import migration
from maestro_state.discuss.replay import ReplayOutcome
from maestro_state.models.discussion import Discussion, Meta, TranscriptEvent
from maestro_state.state.calls import discussions as ops


class AsyncDiscussions(Room[Discussions]):
    """What can be done with discussions. A reference is an id, its beginning, `latest` or a path."""

    async def start(
        self,
        *,
        kind: str = "global",
        ref: str | None = None,
        contract: str | None = None,
        reason: str | None = None,
        engine: str = "none",
        model: str = "default",
    ) -> Meta:
        """Start a discussion about something, to end in what a contract allows."""
        return await self._call(
            lambda room: room.start(kind=kind, ref=ref, contract=contract, reason=reason, engine=engine, model=model)
        )

    async def say(
        self,
        content: str,
        ref: str | None = None,
        *,
        role: str = "user",
        model: str | None = None,
        engine: str | None = None,
        idempotency_key: str | None = None,
    ) -> TranscriptEvent:
        """Say something in an open discussion (default: this checkout's latest), once for each `idempotency_key`.

        `engine` is the tool that says it; the first one is the discussion's.
        """
        return await self._call(
            lambda room: room.say(content, ref, role=role, model=model, engine=engine, idempotency_key=idempotency_key)
        )

    async def report(self, message: str, ref: str | None = None, *, details: str | None = None) -> None:
        """Put on record that something went wrong in an open discussion, such as a tool that gave no answer."""
        await self._call(lambda room: room.report(message, ref, details=details))

    async def done(self, payload: Any = None, ref: str | None = None) -> Meta:
        """End a discussion with its final JSON; without one, with the JSON its assistant said last."""
        return await self._call(lambda room: room.done(payload, ref))

    async def list(self) -> ops.Listing:
        """List the discussions of this checkout and the open ones of the server, last changed first."""
        return await self._call(lambda room: room.list())

    async def show(self, ref: str = "latest") -> Discussion:
        """Return a discussion with its events, from the server, the disk or a legacy file."""
        return await self._call(lambda room: room.show(ref))

    async def prompt(self, ref: str | None = None) -> str:
        """Return what a tool is handed: what it may answer by the contract, and the conversation so far."""
        return await self._call(lambda room: room.prompt(ref))

    async def replay(self, ref: str, *, dry_run: bool = False) -> ReplayOutcome:
        """Apply what a discussion decided to the plan files, or only plan it. Asks no AI; repeatable.

        Raise DiscussionOpen for one without final_json; every other problem is an outcome with REPLAY_FAIL.
        """
        return await self._call(lambda room: room.replay(ref, dry_run=dry_run))

    async def plan(self, ref: str) -> ReplayOutcome:
        """Tell what replaying a discussion would change, for who only looks: unlike a dry run it is not recorded.

        Raise DiscussionOpen for one without final_json; every other problem is an outcome with REPLAY_FAIL.
        """
        return await self._call(lambda room: room.plan(ref))

    async def migrate(
        self, paths: Sequence[str] = (), *, dry_run: bool = False, progress: Callable[[int, int], None] | None = None
    ) -> migration.Report:
        """Convert legacy discussions (default: all of this project's); originals are only read. Repeatable."""
        return await self._call(lambda room: room.migrate(paths, dry_run=dry_run, progress=progress))

    async def resolve(self, ref: str | None = None) -> str:
        """Return the id of the discussion to change: given, else the latest open one of this checkout."""
        return await self._call(lambda room: room.resolve(ref))
