"""Runs: start, follow to the end, cancel, list, look at."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from maestro_state.api.choices import AsyncChoices
from maestro_state.api.claims import AsyncClaims
from maestro_state.api.parts import AsyncParts, PartList
from maestro_state.api.queue import AsyncQueue
from maestro_state.api.run_events import AsyncRunEvents
from maestro_state.api.server import AsyncServer
from maestro_state.api.sessions import AsyncSessions
from maestro_state.errors import (
    ContextChanged,
    InvalidTransition,
    MaestroError,
    NotFound,
    NotReplicated,
    Refused,
    RunIsOver,
    RunNotFound,
    SessionExpired,
    SessionNotFound,
    WorkFailed,
)
from maestro_state.local.handover import Handover, Holder, call_blocking_async, hand_over, leave
from maestro_state.local.project import Project
from maestro_state.local.settings_cache import Settings
from maestro_state.models.message import Event
from maestro_state.models.run import Run, SentItem, ToolOptions
from maestro_state.state.calls import claims as claim_ops
from maestro_state.state.calls import contents as contents_ops
from maestro_state.state.calls import runs as ops
from maestro_state.state.calls.parts import arranged
from maestro_state.tools import Tool, resolve
from maestro_state.tools.attaching import check_attachable, shown_files
from maestro_state.tools.rendering import render
from maestro_state.vocabulary import FROZEN

#: What `list` returns; inside the class, `list` is the verb.
RunList = list[Run]
Events = list[Event]
Sent = list[SentItem]
SentContents = list[tuple[SentItem, bytes]]


class Preview(msgspec.Struct, frozen=True):
    """What a run would execute, and what it would be given on its standard input."""

    argv: list[str]
    stdin: bytes


class AsyncRuns:
    """The runs of a session, from the side that asks for them."""

    def __init__(
        self,
        server: AsyncServer,
        sessions: AsyncSessions,
        queue: AsyncQueue,
        settings: Settings,
        project: Project,
        handover: Handover,
    ) -> None:
        """Take the sessions for their references, the queue that wakes workers, the project for its checkout, and how
        the workers of this machine are handed an environment.
        """
        self.handover = handover
        self._server = server
        self._sessions = sessions
        self._queue = queue
        self._settings = settings
        self._events = AsyncRunEvents(server, AsyncClaims(server, queue), sessions)
        self._choices = AsyncChoices(server, settings, project)
        self._parts = AsyncParts(server, settings)

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
        idempotency_key: str | None = None,
    ) -> Run:
        """Record a run with the context as it is now, and wake a worker for it. A dry one is only recorded.

        Carried out on this machine the tool sees `environment`, by default this process's own; elsewhere it sees its
        worker's, cut down to what it needs and the names in `env`.

        `terminal` is where it is asked for; `continues` the run whose conversation it goes on with, `last` the newest
        one of its tool. `piped` is sent along as a part of this run alone, as is the conversation so far: `history`
        says how many messages of it (0: none; by default as many as the settings allow). `say` is told what the tool
        may change, before the first run of the session that may.
        """
        session, place = await self._choices.placed(await self._sessions.read(ref))
        said = ToolOptions(model=model, mode=mode, arguments=list(arguments))
        environment = os.environ if environment is None else environment
        choice = await self._choices.choose(session, tool, said, continues, environment.get("PATH"))
        parts = await self._parts.gather(session, piped, history, choice.seen, continues=choice.before is not None)
        content = prompt.encode() if isinstance(prompt, str) else prompt
        holders = [] if dry else await call_blocking_async(self.handover.reach)
        try:
            if holders:
                ops.check_variables(env, environment)
            request = ops.RunRequest(
                tool=choice.tool.name,
                prompt_source=prompt_source,
                prompt_file=prompt_file,
                dry=dry,
                confirmed_at=confirmed_at,
                timeout_s=timeout_s or self._settings.run_timeout_seconds,
                retries=retries,
                cookie=cookie or self._settings.cookie,
                env=env,
                holders=tuple(holder.name for holder in holders),
                options=choice.options,
                continues=choice.before.id if choice.before else None,
                seen=choice.seen,
                terminal=terminal,
                working_directory=place,
                edits_told=choice.tell(session, say),
            )
            run_id, summary = await self._start(session.id, choice.tool, request, content, parts, idempotency_key)
            if not dry:
                await self._wake(session.id, run_id, holders, environment)
        finally:
            leave(holders)
        # Last: the worker is on its way meanwhile.
        await self._server.note(session.id, summary)
        return await self.read(run_id, session.id)

    async def _start(
        self,
        session_id: str,
        tool: Tool,
        request: ops.RunRequest,
        prompt: bytes,
        parts: PartList,
        idempotency_key: str | None,
    ) -> tuple[str, Any]:
        terms, stamp = self._server.terms, self._server.stamp(idempotency_key)
        while True:
            seen = await self._parts.seen(session_id, request.seen)
            check_attachable(tool, seen[1])
            call = ops.start_run(terms, stamp, session_id, request, prompt, seen, parts)
            try:
                run_id, summary = await self._server.run(call)
            except ContextChanged:
                continue  # somebody added or removed an item since we looked
            except (SessionNotFound, SessionExpired) as error:
                raise await self._server.refused(session_id, error) from error
            return str(run_id.decode()), summary

    async def _wake(
        self, session_id: str, run_id: str, holders: Sequence[Holder], environment: Mapping[str, str]
    ) -> None:
        """Hand the environment over, then put the job where workers wait: whoever takes it finds what it needs."""
        try:
            if holders:
                await call_blocking_async(partial(hand_over, holders, session_id, run_id, environment))
            await self._queue.enqueue(session_id, run_id, 0)
        except MaestroError:
            # Nobody would come for it: better no run than one that starts when nobody expects it any more.
            await self._server.change(
                session_id, ops.cancel_run(self._server.terms, self._server.stamp(), session_id, run_id)
            )
            raise

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
        session, _ = await self._choices.placed(await self._sessions.read(ref))
        if session.state in FROZEN:
            raise InvalidTransition(session.id, session.state, "running a tool")
        content = prompt.encode() if isinstance(prompt, str) else prompt
        ops.check_prompt(self._server.terms, content)
        said = ToolOptions(model=model, mode=mode, arguments=list(arguments))
        choice = await self._choices.choose(session, tool, said, continues)
        parts = await self._parts.gather(session, piped, history, choice.seen, continues=choice.before is not None)
        _, sent = await self._parts.seen(session.id, choice.seen)
        check_attachable(choice.tool, sent)
        sent = arranged(sent, parts)
        return await self._preview(session.id, choice.tool, choice.options, choice.before, content, sent, parts)

    async def preview_of(self, run: Run, ref: str | None = None) -> Preview:
        """Return what a run was, or would have been, sent."""
        session = await self._sessions.read(ref)
        prompt, sent = await self.prompt(run, session.id), await self.sent(run.id, session.id)
        before = await self.read(run.continues, session.id) if run.continues else None
        tool = resolve(run.tool, folder=run.working_directory or session.working_directory)
        return await self._preview(session.id, tool, run.options, before, prompt, sent)

    async def _preview(
        self,
        session_id: str,
        tool: Tool,
        options: ToolOptions,
        before: Run | None,
        prompt: bytes,
        sent: Sent,
        parts: PartList | None = None,
    ) -> Preview:
        items = await self._contents(session_id, sent, parts or []) if sent else []
        words, named = shown_files(tool, items)
        return Preview(tool.argv(options, ops.conversation_of(before), words), render(prompt, items, named))

    async def _contents(self, session_id: str, sent: Sent, parts: PartList) -> SentContents:
        """Return what is sent with its content; `parts` are not stored yet."""
        known = {part.item.digest: part.content for part in parts}
        digests = list(dict.fromkeys(item.digest for item in sent if item.digest not in known))
        if digests:
            found = await self._server.fetch(claim_ops.read_blobs(self._server.terms, session_id, digests))
            if None in found:
                source = await self._sessions.source(session_id)
                found = [await source.blob(digest) for digest in digests] if source.archived else found
            known |= dict(zip(digests, found, strict=True))
        return [(item, known[item.digest] or b"") for item in sent]

    async def list(self, ref: str | None = None) -> RunList:
        """List every run, oldest first."""
        session_id = await self._sessions.resolve(ref)
        query = contents_ops.look_at_runs(self._server.terms, session_id, self._server.now_ms())
        found: RunList = await self._server.look(query)
        # Without runs it has none, is only on disk, or is not there.
        return found or await (await self._sessions.source(session_id)).runs()

    async def read(self, run_id: str = "last", ref: str | None = None) -> Run:
        """Return one run; `last` is the newest successful one with output, else the newest one.

        One whose owner gives no more signs of life is shown as what it will be found to be, not as running.
        """
        session_id = await self._sessions.resolve(ref)
        number = await self._last(session_id) if run_id == "last" else ops.check_run_id(run_id)
        query = ops.look_at_run(self._server.terms, session_id, number, self._server.now_ms())
        try:
            found: Run = await self._server.look(query)
        except NotFound:
            found = await self._archived_run(session_id, number)
        return found

    async def _archived_run(self, session_id: str, number: str) -> Run:
        source = await self._sessions.source(session_id)
        for run in await source.runs() if source.archived else []:
            if run.id == number:
                return run
        raise RunNotFound(session_id, number)

    async def _last(self, session_id: str) -> str:
        last = await self._server.fetch(ops.read_last_output(self._server.terms, session_id))
        if last is None:
            last = await (await self._sessions.source(session_id)).last_output()
        if last is not None:
            return str(last["run_id"])
        found = [run for run in await self.list(session_id) if run.status != "dry"]
        if not found:
            raise RunNotFound(session_id, "last")
        return found[-1].id

    async def prompt(self, run: Run, ref: str | None = None) -> bytes:
        """Return the prompt of a run, byte for byte."""
        session_id = await self._sessions.resolve(ref)
        return await (await self._sessions.source(session_id)).prompt(run)

    async def sent(self, run_id: str, ref: str | None = None) -> Sent:
        """Return what a run was sent of the context: ids and digests."""
        session_id = await self._sessions.resolve(ref)
        return await (await self._sessions.source(session_id)).sent_context(ops.check_run_id(run_id))

    async def activity(self, run_id: str, ref: str | None = None) -> Events:
        """Return what a run's agent did so far: calls of its tools, files it changed, tries, refusals."""
        return await (await self._sessions.source(ref)).activity(ops.check_run_id(run_id))

    async def chunks(self, run_id: str, ref: str | None = None) -> AsyncIterator[bytes]:
        """Yield what a run printed so far, in pieces that fit into memory whatever its size."""
        number = ops.check_run_id(run_id)
        source = await self._sessions.source(ref)
        async for piece in source.output(number):
            yield piece

    async def output(self, run_id: str, ref: str | None = None) -> bytes:
        """Return what a run printed so far, byte for byte; refuse more than a run may print."""
        parts, left = list[bytes](), self._settings.max_output_bytes
        async for chunk in self.chunks(run_id, ref):
            parts.append(chunk)
            left -= len(chunk)
            if left < 0:
                raise WorkFailed(
                    f"the output of run {run_id} has more than {self._settings.max_output_bytes} bytes",
                    hint=f"maestro show {run_id} prints it piece by piece",
                )
        return b"".join(parts)

    async def follow(self, run: Run, ref: str | None = None, *, cursor: str | None = None) -> AsyncIterator[Event]:
        """Yield the events of a run until it has ended, from its start or after `cursor`.

        Whoever follows also sees to it that a run whose worker is gone is ended, and one that waits has a job.
        """
        session_id = await self._sessions.resolve(ref)
        async for event in self._events.follow(session_id, run, cursor):
            yield event

    async def wait(self, run: Run, ref: str | None = None) -> Run:
        """Return a run when it has ended."""
        session_id = await self._sessions.resolve(ref)
        async for _ in self.follow(run, session_id):
            pass
        return await self.read(run.id, session_id)

    async def wait_each(self, run_ids: Sequence[str] = (), ref: str | None = None) -> AsyncIterator[Run]:
        """Yield each of these runs when it is over; without names, of those open now. RunNotFound before any wait."""
        session_id = await self._sessions.resolve(ref)
        named = run_ids or await self._events.open_runs(session_id)
        numbers = [(await self.read(number, session_id)).id for number in named]
        async for number in self._events.ends(session_id, numbers):
            yield await self.read(number, session_id)

    async def wait_all(self, run_ids: Sequence[str] = (), ref: str | None = None) -> RunList:
        """Return these runs when all of them are over; without names, those open now."""
        return [run async for run in self.wait_each(run_ids, ref)]

    async def cancel(self, run_id: str | None = None, ref: str | None = None) -> Run:
        """Cancel a run (default: the newest open one); a running one ends as soon as its worker hears of it."""
        session_id = await self._sessions.resolve(ref)
        if run_id is None or run_id == "last":
            open_runs = await self._events.open_runs(session_id)
            if not open_runs:
                raise Refused(f"session {session_id} has no open run to cancel", hint="maestro runs")
            number = max(open_runs, key=int)
        else:
            number = ops.check_run_id(run_id)
        call = ops.cancel_run(self._server.terms, self._server.stamp(), session_id, number)
        await self._server.change(session_id, call)
        return await self.read(number, session_id)

    async def settle(self, ref: str | None = None, *, cancel: bool = False) -> RunList:
        """Wait until no run of a session is open, canceling them if told; returns those that were."""
        session_id = await self._sessions.resolve(ref)
        ended: RunList = []
        while open_runs := await self._events.open_runs(session_id):
            if cancel:
                for number in open_runs:
                    await self._cancel_quietly(session_id, number)
            ended.append(await self.wait(await self.read(open_runs[0], session_id), session_id))
        return ended

    async def _cancel_quietly(self, session_id: str, number: str) -> None:
        try:
            await self.cancel(number, session_id)
        except (RunIsOver, NotReplicated):
            return  # it ended by itself meanwhile; or the freeze that follows says that replicas are missing

    async def ahead(self, run_id: str, ref: str | None = None) -> int | None:
        """Count what is taken before a run that waits for a free worker; None for one that does not wait."""
        session_id = await self._sessions.resolve(ref)
        number = ops.check_run_id(run_id)
        fence = await self._server.fetch(claim_ops.read_fence(self._server.terms, session_id, number))
        return await self._queue.ahead(session_id, number, fence)

    async def workers(self) -> int:
        """Count the workers that listen for runs now."""
        return await self._queue.workers()
