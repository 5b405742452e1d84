"""Runs: start one, and preview what it would be; reading and following them is in `live.runs`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from maestro_state._sync.ledger import Ledger
from maestro_state._sync.queue import Queue
from maestro_state._sync.records import Records
from maestro_state._sync.runs import LiveRuns, Sent
from maestro_state._sync.server import Server
from maestro_state.api.run_choices import Choices
from maestro_state.api.run_parts import PartList, Parts
from maestro_state.api.run_routing import Routes
from maestro_state.clock import from_iso
from maestro_state.errors import (
    ContextChanged,
    DamagedRecord,
    InvalidTransition,
    MaestroError,
    NoConversation,
    NoFittingWorker,
    OverBudget,
    SessionExpired,
    SessionNotFound,
    TooManyRuns,
)
from maestro_state.local.handover import Handover, Holder, close_all, hand_over
from maestro_state.local.project import Project
from maestro_state.local.settings import Settings
from maestro_state.local.trace_context import calling_span
from maestro_state.models.run import Run, SentItem, ToolOptions, turn_ms
from maestro_state.models.trace import parse_traceparent
from maestro_state.models.worker import Needs, Waiting, check_labels
from maestro_state.state.calls import claims as claim_ops
from maestro_state.state.calls import runs as ops
from maestro_state.state.calls.parts import arranged
from maestro_state.state.calls.terms import Stamp
from maestro_state.tools import Tool, resolve
from maestro_state.tools.attachments import check_attachable, shown_files
from maestro_state.tools.rendering import render
from maestro_state.vocabulary import FROZEN

SentContents = list[tuple[SentItem, bytes]]


class Preview(msgspec.Struct, frozen=True):
    """What a run would execute, and what it would be given on its standard input."""

    argv: list[str]
    stdin: bytes


class Runs(LiveRuns):
    """The runs of a session, from the side that asks for them."""

    def __init__(
        self,
        server: Server,
        sessions: Records,
        queue: Queue,
        settings: Settings,
        project: Project,
        handover: Handover,
    ) -> None:
        super().__init__(server, sessions, queue, settings.max_output_bytes)
        self.handover = handover
        self._settings = settings
        self._choices = Choices(server, settings, project)
        self._parts = Parts(server, settings)
        self._ledger = Ledger(server)
        self._routes = Routes(queue, project)

    def start(
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
        session, place = self._choices.placed(self._sessions.read(ref))
        said = ToolOptions(model=model, mode=mode, arguments=list(arguments))
        environment = os.environ if environment is None else environment
        choice = self._choices.choose(session, tool, said, continues, environment.get("PATH"))
        seen = choice.seen
        parts = self._parts.gather(session, piped, history, seen, continues=choice.before is not None)
        content = prompt.encode() if isinstance(prompt, str) else prompt
        needs = Needs(tool=choice.tool.name, folder=session.working_directory, labels=check_labels(labels))
        reached = [] if dry else self.handover.reach()
        try:
            try:
                holders = reached if dry else self._routes.chosen(needs, choice.tool, reached, environment)
            except NoFittingWorker:
                if not self._is_repeat(session.id, idempotency_key):
                    raise
                holders = []
            if holders:
                ops.check_variables(env, environment)
            user_most, session_most = (0, 0) if dry else self._routes.most_at_once(self._settings)
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
                seen=seen,
                terminal=terminal,
                working_directory=place,
                traceparent=self._span(traceparent, environment),
                edits_told=choice.tell(session, say),
                runs_most=session_most,
                priority=priority,
                labels=needs.labels,
            )
            seat, stamp = self._take_seat(session.id, user_most, idempotency_key), self._server.stamp(idempotency_key)
            try:
                run, summary = self._start(session.id, choice.tool, request, content, parts, stamp, idempotency_key)
                if idempotency_key:  # who repeats a call asked for the run before: its job must be known for the same
                    run = self.read(run.id, session.id)
                if not dry:
                    needs = msgspec.structs.replace(needs, holders=request.holders)
                    turn = turn_ms(from_iso(run.created_at), priority)
                    waiting = Waiting(session_id=session.id, run_id=run.id, fence=0, turn_ms=turn, needs=needs)
                    self._wake(waiting, holders, environment)
            except MaestroError:
                with suppress(MaestroError):  # why there is no run is what matters
                    self._name_seat(seat, session.id, None)
                raise
        finally:
            close_all(reached)
        # Last: the worker is on its way meanwhile.
        self._name_seat(seat, session.id, run.id)
        self._server.note(session.id, summary)
        return run

    def _is_repeat(self, session_id: str, idempotency_key: str | None) -> bool:
        """Tell whether this was asked before: a repeat gets the first one's answer, whatever has changed since."""
        return idempotency_key is not None and bool(
            self._server.fetch(ops.was_called(self._server.terms, session_id, idempotency_key))
        )

    def _take_seat(self, session_id: str, most: int, idempotency_key: str | None) -> str | None:
        """Take a seat where only so many runs of a user may be open at once."""
        if not most:
            return None
        try:
            return self._ledger.take_seat(most, idempotency_key)
        except TooManyRuns:
            if not self._is_repeat(session_id, idempotency_key):
                raise
        return None

    def _name_seat(self, seat: str | None, session_id: str, run_id: str | None) -> None:
        if seat is not None:
            self._ledger.name_seat(seat, session_id, run_id)

    def _start(
        self,
        session_id: str,
        tool: Tool,
        request: ops.RunRequest,
        prompt: bytes,
        parts: PartList,
        stamp: Stamp,
        idempotency_key: str | None,
    ) -> tuple[Run, Any]:
        terms = self._server.terms
        while True:
            seen = self._seen(session_id, request, idempotency_key)
            check_attachable(tool, seen[1])
            call = ops.start_run(terms, stamp, session_id, request, prompt, seen, parts)
            try:
                started: tuple[Run, Any] = self._server.run(call)
            except ContextChanged:
                continue  # somebody added or removed an item since it was read
            except (SessionNotFound, SessionExpired) as error:
                raise self._server.refused(session_id, error) from error
            return started

    @staticmethod
    def _span(said: str | None, environment: Mapping[str, str]) -> str | None:
        span = calling_span(environment) if said is None else parse_traceparent(said)
        return str(span) if span else None

    def _seen(self, session_id: str, request: ops.RunRequest, idempotency_key: str | None) -> tuple[int, Sent]:
        """Read the context, and in the same round trip whether a budget is used up; OverBudget when one is."""
        if request.dry:
            return self._parts.seen(session_id, request.seen)
        try:
            seen, found = self._parts.seen_with(session_id, request.seen, self._ledger.budgets_for(session_id))
        except DamagedRecord:
            # A ledger that somebody damaged, which the sweep mends: the run's worker asks it again.
            return self._parts.seen(session_id, request.seen)
        try:
            self._ledger.check(found)
        except OverBudget:
            if not self._is_repeat(session_id, idempotency_key):
                raise
        return seen

    def _wake(self, run: Waiting, holders: Sequence[Holder], environment: Mapping[str, str]) -> None:
        """Hand the environment over, then put the job where workers wait: whoever takes it finds what it needs."""
        try:
            if holders:
                hand_over(holders, run.session_id, run.run_id, environment)
            self._queue.enqueue(run)
        except MaestroError:
            # Nobody would come for it: better no run than one that starts when nobody expects it any more.
            canceled = ops.cancel_run(self._server.terms, self._server.stamp(), run.session_id, run.run_id)
            self._server.change(run.session_id, canceled)
            raise

    def conversation(self, continues: str, ref: str | None = None, *, tool: str | None = None) -> Run:
        """Return the run whose conversation an interactive tool can go on with: one by its number, or with `last` the
        newest of the tool. Refuses as `start` does.
        """
        session = self._sessions.read(ref)
        before = self._choices.choose(session, tool, ToolOptions(), continues).before
        if before is None:
            raise NoConversation(f"session {session.id} has no run to go on from", hint="maestro runs")
        return before

    def preview(
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
        session, _ = self._choices.placed(self._sessions.read(ref))
        if session.state in FROZEN:
            raise InvalidTransition(session.id, session.state, "running a tool")
        content = prompt.encode() if isinstance(prompt, str) else prompt
        ops.check_prompt(self._server.terms, content)
        said = ToolOptions(model=model, mode=mode, arguments=list(arguments))
        choice = self._choices.choose(session, tool, said, continues)
        parts = self._parts.gather(session, piped, history, choice.seen, continues=choice.before is not None)
        _, sent = self._parts.seen(session.id, choice.seen)
        check_attachable(choice.tool, sent)
        sent = arranged(sent, parts)
        return self._preview(session.id, choice.tool, choice.options, choice.before, content, sent, parts)

    def preview_of(self, run: Run, ref: str | None = None) -> Preview:
        """Return what a run was, or would have been, sent."""
        session = self._sessions.read(ref)
        prompt, sent = self.prompt(run, session.id), self.sent(run.id, session.id)
        before = self.read(run.continues, session.id) if run.continues else None
        folder = run.working_directory or session.working_directory
        tool = resolve(run.tool, folder=folder, elsewhere=lambda _: True)  # wherever it was: it is only shown
        return self._preview(session.id, tool, run.options, before, prompt, sent)

    def _preview(
        self,
        session_id: str,
        tool: Tool,
        options: ToolOptions,
        before: Run | None,
        prompt: bytes,
        sent: Sent,
        parts: PartList | None = None,
    ) -> Preview:
        items = self._contents(session_id, sent, parts or []) if sent else []
        words, named = shown_files(tool, items)
        return Preview(tool.argv(options, ops.conversation_of(before), words), render(prompt, items, named))

    def _contents(self, session_id: str, sent: Sent, parts: PartList) -> SentContents:
        """Return what is sent with its content; `parts` are not stored yet."""
        known = {part.item.digest: part.content for part in parts}
        digests = list(dict.fromkeys(item.digest for item in sent if item.digest not in known))
        if digests:
            found = self._server.fetch(claim_ops.read_blobs(self._server.terms, session_id, digests))
            if None in found:
                source = self._sessions.source(session_id)
                found = [source.blob(digest) for digest in digests] if source.archived else found
            known |= dict(zip(digests, found, strict=True))
        return [(item, known[item.digest] or b"") for item in sent]
