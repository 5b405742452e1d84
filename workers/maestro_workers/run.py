"""Carry out one run: claim it, call its tool, stream what it prints, say how it ended."""

from __future__ import annotations

import hashlib
import os
import secrets
import socket
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field, replace
from functools import partial

from msgspec import structs

from maestro_state import Maestro
from maestro_state.errors import (
    LostClaim,
    MaestroError,
    NotFound,
    NotReplicated,
    OutputLost,
    ServerUnavailable,
    WorkFailed,
)
from maestro_state.local.logs import bound, get_logger, redact_text
from maestro_state.local.secrets_file import with_secrets
from maestro_state.models.claim import BEAT_MS, Claim, Ended
from maestro_state.models.excerpts import Excerpt
from maestro_state.models.run import Activity, Usage
from maestro_state.tools import Outcome, Parser, Tool, delta, resolve, safe_environment
from maestro_state.tools.rendering import render
from maestro_state.tools.tools_file import trusted_paths
from maestro_workers.accounting import Charges, count
from maestro_workers.admission import Admission
from maestro_workers.attachments import Attachments
from maestro_workers.finalize import Requeue
from maestro_workers.guard import Guard
from maestro_workers.invoke import PIECE_BYTES, Finished, Invocation, invoke
from maestro_workers.output import Outbox
from maestro_workers.pool.channel import Channel
from maestro_workers.post_run import finish, follow_up
from maestro_workers.profile import Profile
from maestro_workers.reporting import (
    completed,
    encoded,
    judged,
    open_stderr_log,
    own_log,
    refusals,
    split_at_character,
)
from maestro_workers.telemetry.export import Exporters
from maestro_workers.telemetry.journal import Journal

#: How long an owner waits for a server that is away before it gives its run up, in seconds.
OUTAGE_S = 600.0
#: Why a run was not begun whose environment nobody has any more.
GONE = "the environment of the terminal that asked for it is gone with the process that held it (run it again)"
#: Longest reason kept of an error.
_ERROR_CHARS = 2000

_log = get_logger("maestro.worker")


@dataclass(slots=True)
class Workshop:
    """Where runs are carried out: a project, its settings, and the process that does it."""

    project: str
    redis_url: str | None = None
    client_name: str | None = None
    guard: Guard | None = None
    #: Where the environments of runs are, if this worker is one of several of a process.
    channel: Channel | None = None
    #: What runs it takes; without one, any.
    profile: Profile | None = None
    #: Called with every beat; returns why to stop, or None.
    on_beat: Callable[[], str | None] = field(default=lambda: None)

    #: Whether a run is under way: not what follows it, which can be done again.
    is_at_work: bool = field(default=False, init=False)
    requeue: Requeue = field(default_factory=Requeue, init=False)
    _exporters: Exporters = field(default_factory=Exporters, init=False)
    _maestro: Maestro | None = field(default=None, init=False)

    @property
    def maestro(self) -> Maestro:
        """Maestro as a worker needs it: open from the first run on, and waiting long for a server that is away."""
        if self._maestro is None:
            self._maestro = Maestro(self.project, client_name=self.client_name, redis_url=self.redis_url)
            self._maestro.server.connection.retry_s = OUTAGE_S
        return self._maestro

    def close(self) -> None:
        if self._maestro is not None:
            self._maestro.close()

    def carry_out(self, session_id: str, run_id: str) -> str | None:
        """Carry out a run; return its status, None when there was nothing to do or the claim was lost."""
        maestro = self.maestro
        with bound(session=session_id, run=run_id):
            # Before the claim: a run whose environment others have is theirs, as is one that needs what only they have.
            handed = self.channel.environment(session_id, run_id) if self.channel is not None else None
            admission = Admission(maestro, self.channel, self.profile)
            if handed is None and admission.leaves_to_others(session_id, run_id):
                return None
            owner = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
            try:
                claim = maestro.claims.claim(session_id, run_id, owner)
            except (LostClaim, NotFound) as error:
                _log.info("run_not_claimed", reason=str(error))
                count(maestro, session_id, run_id)  # canceled before it began: nobody else has it in hand
                return None
            journal = Journal.of(claim, os.environ if handed is None else handed)
            with bound(**journal.ids):
                return self._make(_Attempt(self, claim, handed, admission, journal), claim, journal, admission)

    def _make(self, attempt: _Attempt, claim: Claim, journal: Journal, admission: Admission) -> str | None:
        """Make the attempt, and do what follows it."""
        self.is_at_work = True
        try:
            admission.tell_others()
            ended = attempt.make()
            attempt.settle(ended)
            journal.finish(ended)
            finish(self.maestro, claim, ended)
        except LostClaim as error:
            _log.warning("claim_lost", reason=str(error))
            return None
        except NotReplicated as error:  # the run has ended: what follows it is still to be done
            _log.warning("run_not_replicated", reason=str(error))
        except ServerUnavailable as error:
            _log.error("run_given_up", reason=str(error))
            attempt.give_up(error)
            return None
        finally:
            self.is_at_work = False
        if self.channel is not None:
            self.channel.say_over(claim.session_id, claim.run.id)
        _log.info("run_finished", status=ended.status)
        count(self.maestro, claim.session_id, claim.run.id)
        follow_up(self.maestro, claim.session_id, claim.run.id)
        journal.note_archived()
        self._exporters.tell(journal)
        return ended.status


class _Attempt:
    """One attempt at a run."""

    def __init__(
        self, workshop: Workshop, claim: Claim, handed: dict[str, str] | None, admission: Admission, journal: Journal
    ) -> None:
        maestro = workshop.maestro
        self._workshop = workshop
        self._admission = admission
        self._journal = journal
        self._handed = handed
        self._maestro = maestro
        self._claim = claim
        self._limit = maestro.settings.max_output_bytes
        self._outbox = Outbox(partial(maestro.claims.add_outputs, claim), PIECE_BYTES)
        self._size = 0
        self._digest = hashlib.sha256()
        self._answer = Excerpt()
        self._held = b""
        self._parser: Parser | None = None
        self._lost: LostClaim | OutputLost | None = None
        self._stderr_log: int | None = None
        self._told = Usage()
        self._charges = Charges(maestro, claim)
        self._tool: Tool | None = None
        self._did = 0
        #: What goes when the call is over.
        self._files = ExitStack()

    def make(self) -> Ended:
        """Call the tool; LostClaim when the run was taken away meanwhile."""
        with self._files:
            return self._make()

    def settle(self, ended: Ended) -> None:
        """Put down what the run came to, before its record says so."""
        if ended.usage is not None:
            self._charges.settle(ended.usage)

    def _make(self) -> Ended:
        run = self._claim.run
        if refusal := self._charges.begin():
            return self._failed(refusal)
        try:
            folder = self._admission.place(self._claim)
            self._claim = structs.replace(self._claim, working_directory=folder)
            environment = self._environment()
            tool = resolve(run.tool, environment.get("PATH"), folder=folder)
            if not run.holders:
                environment = tool.environment(environment, run.env)
            environment |= self._journal.variables()
            prompt, *contents = self._maestro.claims.contents(self._claim)
            self._journal.begin(tool, run.model, prompt)
            items = list(zip(self._claim.sent, contents, strict=True))
            files = self._files.enter_context(Attachments(tool, str(self._maestro.project.root), folder))
            for item, content in items:
                files.take(item, content)
            argv = tool.argv(run.options, self._conversation(), files.words)
            sent = render(prompt, items, files.named)
            # A program that the project's own file names counts only when its user trusts that file.
            program = trusted_paths(self._maestro.project).get(tool.name) or tool.program(environment.get("PATH"))
        except ServerUnavailable:
            raise
        except MaestroError as error:
            return self._failed(str(error))
        self._tool, parser = tool, tool.parser()
        # The bytes of a plain tool are its output; of the others it is the text for people that their events carry.
        self._parser = None if tool.is_plain else parser
        if program is None:
            where = "on the PATH of the terminal that asked" if run.holders else "where the worker runs"
            return self._failed(f"'{argv[0]}' is not installed {where} (maestro tool check)")
        with closing(self._outbox):
            try:
                finished = self._call([program, *argv[1:]], sent, environment)
                ended = self._ended(tool, parser, finished)
                log = partial(own_log, self._invocation([program, *tool.log[1:]], b"", environment))
                return completed(ended, tool, self._claim.run, environment, log)
            except OSError as error:
                return self._failed(f"'{argv[0]}' could not be started: {error.strerror}")
            except OutputLost as error:
                return Ended(status="error", error=str(error), size=error.size)

    def _environment(self) -> dict[str, str]:
        """Return what there is for the tool to see: the asking terminal's variables, where they were handed over.

        WorkFailed when they cannot be had any more: never silently others.
        """
        run, found = self._claim.run, self._handed
        if not run.holders:
            own = with_secrets(os.environ, self._maestro.settings.secrets_file)
            missing = [name for name in run.env if name not in own]
            if missing:
                where = f"on {socket.gethostname()}, where the worker runs"
                raise WorkFailed(f"{', '.join(missing)} is not set {where} (put it into its MAESTRO_SECRETS_FILE)")
            return own
        if found is None:
            raise WorkFailed(GONE)
        # Where the tool works, as if it had been started there.
        return safe_environment(found) | ({"PWD": self._claim.working_directory} if "PWD" in found else {})

    def _conversation(self) -> str | None:
        """Return the tool's own id of the conversation to go on with."""
        if not (before := self._claim.run.continues):
            return None
        found = self._maestro.runs.read(before, self._claim.session_id).usage
        return found.tool_session if found else None

    def _call(self, argv: list[str], sent: bytes, environment: dict[str, str]) -> Finished:
        """Call the tool; OSError when it cannot be started."""
        if self._maestro.settings.debug:
            self._stderr_log = open_stderr_log(self._maestro.project.root, self._claim)
        try:
            return invoke(self._invocation(argv, sent, environment))
        finally:
            if self._stderr_log is not None:
                os.close(self._stderr_log)

    def give_up(self, error: ServerUnavailable) -> None:
        """Say why the run ended, if the server takes that at least; else whoever looks after lost runs will."""
        reason = f"the server could not take its output: {error}"[:_ERROR_CHARS]
        with suppress(LostClaim, ServerUnavailable):
            self._maestro.claims.finish(self._claim, self._partial(reason))

    def _partial(self, reason: str) -> Ended:
        size = self._outbox.stored
        digest = self._digest.hexdigest() if size and size == self._size else None
        return Ended(status="error", error=reason, size=size, digest=digest)

    def _invocation(self, argv: list[str], sent: bytes, environment: dict[str, str]) -> Invocation:
        timeout_s = self._claim.run.timeout_s or self._maestro.settings.run_timeout_seconds
        return Invocation(
            argv=argv,
            stdin=sent,
            folder=self._claim.working_directory,
            environment=environment,
            timeout_s=timeout_s,
            on_output=self._on_output,
            on_beat=self._on_beat,
            beat_s=BEAT_MS / 1000,
            guard=self._workshop.guard,
            on_stderr=self._on_stderr,
        )

    def _on_output(self, data: bytes) -> str | None:
        if self._parser is not None:
            data = encoded("".join(self._parser.feed(data)))
        data = self._held + data if self._held else data
        data, self._held = split_at_character(data)
        if data:
            self._journal.note_progress()
        return self._store(data) or self._tell_activity()

    def _tell_activity(self) -> str | None:
        """Append what the agent did since; why to stop, if there is a reason."""
        done = self._parser.take_activities() if self._parser is not None else []
        if not done or self._lost is not None:
            return None
        done = [Activity(one.kind, one.name, redact_text(one.summary)) for one in done]
        try:
            self._outbox.flush()  # what it said before comes before
            is_canceled = self._maestro.claims.add_activity(self._claim, self._did, done)
        except (LostClaim, OutputLost) as error:
            self._lost = error
            return "lost"
        self._did += len(done)
        self._journal.note_activity(done)
        return "canceled" if is_canceled else None

    def _store(self, data: bytes) -> str | None:
        """Have output appended; why to stop, if there is a reason."""
        room = self._limit - self._size
        is_over = len(data) > room
        data = data[:room] if is_over else data
        try:
            if data:
                self._outbox.put(data)
        except (LostClaim, OutputLost) as error:
            self._lost = error
            return "lost"
        self._size += len(data)
        self._digest.update(data)
        self._answer.add(data)
        if is_over:
            return "limit"
        return "canceled" if self._outbox.is_canceled else None

    def _on_beat(self) -> str | None:
        try:
            usage = self._parser.so_far if self._parser is not None else Usage()
            told, self._told = self._told, usage
            if self._maestro.claims.renew(self._claim, usage if usage != told else None):
                return "canceled"
            if usage != told and self._tool is not None and self._charges.charge(usage, self._tool):
                return "budget"
        except LostClaim as error:
            self._lost = error
            return "lost"
        return self._tell_activity() or self._workshop.on_beat()

    def _on_stderr(self, data: bytes) -> None:
        if self._parser is not None:
            self._parser.hear(data)
        if self._stderr_log is not None:
            with suppress(OSError):  # a full disk: the run goes on without
                os.write(self._stderr_log, data)

    def _ended(self, tool: Tool, parser: Parser, finished: Finished) -> Ended:
        outcome = parser.end(finished.exit_code, finished.stderr)
        self._journal.stopped = finished.stopped
        if finished.stopped != "limit":
            rest = self._held + (encoded(outcome.text) if self._parser is not None else b"")
            # A cancel is too late to matter, the tool has ended; but what does not fit must not pass for the whole.
            if self._store(rest) == "limit" and finished.stopped is None:
                finished = replace(finished, stopped="cut")
        self._tell_activity()
        if self._lost is not None:
            raise self._lost
        self._outbox.flush()
        refusal = self._charges.refusal or ""
        status, error = judged(outcome, finished.stopped, self._claim.run, self._limit, refusal)
        return Ended(
            status=status,
            error=None if error is None else redact_text(error)[:_ERROR_CHARS],
            warning=redact_text(refusals(outcome))[:_ERROR_CHARS] if outcome.denied else None,
            exit_code=finished.exit_code,
            size=self._size,
            digest=self._digest.hexdigest() if self._size else None,
            usage=self._usage(tool, outcome),
            answer=self._answer.text(),
            answer_is_cut=self._answer.is_cut,
        )

    def _usage(self, tool: Tool, outcome: Outcome) -> Usage:
        usage = outcome.usage
        if usage.tokens_output is None and self._parser is not None and "tokens_output" not in tool.cumulative:
            usage = self._parser.so_far  # ended before it told them for good
        if not tool.cumulative or not usage.tool_session:
            return usage
        run = self._claim.run
        if not run.continues and not run.arguments and not tool.arguments:
            return delta(usage, tool.cumulative, ())  # a conversation of its own: nothing was counted before
        earlier = {one.id: one.usage for one in self._maestro.claims.earlier(self._claim) if one.usage is not None}
        return delta(usage, tool.cumulative, earlier.values(), earlier.get(run.continues or ""))

    def _failed(self, error: str) -> Ended:
        return Ended(status="error", error=error[:_ERROR_CHARS])
