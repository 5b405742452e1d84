# Generated from maestro_state.api.runs by `make generate`. Do not edit.
"""Runs: start one, and preview what it would be; reading and following them is in `live.runs`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from maestro_state.aio.companion import Room
from maestro_state.api.runs import Preview, Runs
from maestro_state.live.runs import AsyncLiveRuns
from maestro_state.models.run import Run


class AsyncRuns(Room[Runs], AsyncLiveRuns):
    """The runs of a session, from the side that asks for them."""

    async def start(
        self,
        prompt: str | bytes,
        ref: str | None = None,
        *,
        tool: str | None = None,
        prompt_source: str = "cli",
        prompt_file: str | None = None,
        dry: bool = False,
        confirmed_at: str | None = None,
        timeout_s: int | None = None,
        retries: int = 0,
        cookie: str | None = None,
        env: tuple[str, ...] = (),
        model: str | None = None,
        mode: str | None = None,
        arguments: Sequence[str] = (),
        continues: str | None = None,
        terminal: str | None = None,
        piped: bytes | None = None,
        history: int | None = None,
        say: Callable[[str], None] | None = None,
        environment: Mapping[str, str] | None = None,
        traceparent: str | None = None,
        idempotency_key: str | None = None,
        priority: str = "normal",
        labels: Sequence[str] = (),
    ) -> Run:
        """Record a run with the context as it is now, wake a worker for it and return it as recorded. A dry one is only
        recorded.

        Carried out on this machine the tool sees `environment`, by default this process's own; elsewhere it sees its
        worker's, cut down to what it needs and the names in `env`.

        `terminal` is where it is asked for; `continues` the run whose conversation it goes on with, `last` the newest
        one of its tool. `piped` is sent along as a part of this run alone, as is the conversation so far: `history`
        says how many messages of it (0: none; by default as many as the settings allow). `say` is told what the tool
        may change, before the first run of the session that may. `traceparent` is the span it is asked for in; by
        default the one under way in this program, or in `environment`.

        TooManyRuns when as many as may be at once are open; OverBudget when a budget of the user, the session or
        everybody is used up.

        It goes to a worker that has its tool, its folder and all `labels`; NoFittingWorker when none of those that are
        there has. Of runs that wait for the same workers, those of a higher `priority` (low, normal, high) go first.
        """
        return await self._call(
            lambda room: room.start(
                prompt,
                ref,
                tool=tool,
                prompt_source=prompt_source,
                prompt_file=prompt_file,
                dry=dry,
                confirmed_at=confirmed_at,
                timeout_s=timeout_s,
                retries=retries,
                cookie=cookie,
                env=env,
                model=model,
                mode=mode,
                arguments=arguments,
                continues=continues,
                terminal=terminal,
                piped=piped,
                history=history,
                say=say,
                environment=environment,
                traceparent=traceparent,
                idempotency_key=idempotency_key,
                priority=priority,
                labels=labels,
            )
        )

    async def conversation(self, continues: str, ref: str | None = None, *, tool: str | None = None) -> Run:
        """Return the run whose conversation an interactive tool can go on with: one by its number, or with `last` the
        newest of the tool. Refuses as `start` does.
        """
        return await self._call(lambda room: room.conversation(continues, ref, tool=tool))

    async def preview(
        self,
        prompt: str | bytes,
        ref: str | None = None,
        *,
        tool: str | None = None,
        model: str | None = None,
        mode: str | None = None,
        arguments: Sequence[str] = (),
        continues: str | None = None,
        piped: bytes | None = None,
        history: int | None = None,
    ) -> Preview:
        """Return what a run started now would execute and be sent."""
        return await self._call(
            lambda room: room.preview(
                prompt,
                ref,
                tool=tool,
                model=model,
                mode=mode,
                arguments=arguments,
                continues=continues,
                piped=piped,
                history=history,
            )
        )

    async def preview_of(self, run: Run, ref: str | None = None) -> Preview:
        """Return what a run was, or would have been, sent."""
        return await self._call(lambda room: room.preview_of(run, ref))
