"""Following a tool's own history into a live session: what is said there is said here, within moments.

Each turn is a run that this process carries out as far as anybody can tell: it holds its claim, adds what the agent
does, and ends it with what it consumed. What was seen is known by the tool's ids, which messages and runs keep; so a
follower that was killed goes on where it stopped, and nothing is said twice.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import msgspec

from maestro_state._sync.claims import Claims
from maestro_state._sync.messages import Messages
from maestro_state._sync.records import Records
from maestro_state._sync.server import Server
from maestro_state.clock import iso
from maestro_state.errors import ContextChanged, LostClaim, UsageError
from maestro_state.histories.readers import Reader
from maestro_state.histories.tail import Growing
from maestro_state.histories.turns import Turn, activity_of
from maestro_state.histories.values import Asked, Conversation, Ended, Said, Step, Used
from maestro_state.models.claim import BEAT_MS, Claim
from maestro_state.models.claim import Ended as RunEnded
from maestro_state.models.run import Usage
from maestro_state.state.calls import runs as run_ops

#: Seconds between two polls of a history, and of quiet after an answer until its turn is taken for over.
POLL_S = 0.2
QUIET_S = 1.0
#: A variable that no worker has. A follower that is killed between starting a run and claiming it must not have a
#: worker ask the tool again: a run that needs a variable which is not set is ended with that reason, not carried out.
_NOBODY = "MAESTRO_FOLLOWED"
#: What is kept of a text that is too large for a message.
_EXCERPT = 8000


def newest(reader: Reader, places: list[str], roots: list[str] | None) -> Conversation | None:
    """Return the conversation that was changed last, of some projects' if told; None where there is none."""
    found = [one for place in places if os.path.exists(place) for one in reader.files(place)]
    for stamped in sorted(found, key=lambda one: one.updated_ms, reverse=True):
        held = [one for one in reader.conversations(stamped) if roots is None or any(one.is_of(root) for root in roots)]
        if held:
            return max(held, key=lambda one: one.updated_ms)
    return None


class HistoryFollower:
    """Brings one conversation into one session."""

    def __init__(self, server: Server, sessions: Records, messages: Messages, claims: Claims, timeout_s: int) -> None:
        """Take the rooms it writes through."""
        self._server, self._sessions, self._messages, self._claims = server, sessions, messages, claims
        self._timeout_s = timeout_s
        self._session_id = ""
        self._conversation: Conversation | None = None
        self._seen: set[str] = set()
        self._runs: dict[str, str] = {}  #: turns → runs
        self._turn: Turn | None = None
        self._claim: Claim | None = None
        self._pending: set[str] = set()  #: calls without a result
        self._done = 0
        self._moved_s = self._beaten_s = 0.0
        self.said = 0  #: messages that were added

    def follow(self, reader: Reader, one: Conversation, ref: str | None, is_over: Callable[[], object]) -> int:
        """Follow until told to stop; return how many messages were added. What is under way then ends as canceled."""
        self._session_id = self._sessions.resolve(ref)
        self._conversation = one
        self._read_known(one)
        growing = Growing(reader, one, self._seen)
        try:
            while True:
                is_last = bool(is_over())  # asked first: what is written until then is taken
                for step in growing.more():
                    self._take(step)
                self._rest()
                if is_last:
                    return self.said
                time.sleep(POLL_S)
        finally:
            if self._turn is not None and self._turn.has_answer and not self._pending:
                self._finish("success", None)
            self._finish("canceled", "no longer followed")

    def _read_known(self, one: Conversation) -> None:
        for message in self._messages.since(None, self._session_id):
            keys = (message.metadata or {}).get("external_ids")
            self._seen.update(key for key in (keys if isinstance(keys, list) else ()) if isinstance(key, str))
        mark = f"{one.tool}:{one.external_id}#"
        for run in self._sessions.source(self._session_id).runs():
            if run.prompt_file and run.prompt_file.startswith(mark):
                self._runs[run.prompt_file.removeprefix(mark)] = run.id

    def _take(self, step: Step) -> None:
        if isinstance(step, Asked):
            self._asked(step)
        elif isinstance(step, Said):
            self._heard(step)
        elif isinstance(step, Used) and self._turn is not None:
            self._turn.used[step.key] = step
            self._turn.model = self._turn.model or step.model
        elif isinstance(step, Ended) and self._turn is not None:
            self._finish(step.status, step.error)

    def _asked(self, asked: Asked) -> None:
        has_answer = self._turn is not None and self._turn.has_answer
        self._finish("success" if has_answer else "error", None if has_answer else "nobody answered")
        key = asked.turn or asked.key
        known = self._runs.get(key)
        self._turn = Turn(int(known or 0), key, asked.at_ms)
        self._pending, self._done, self._moved_s = set(), 0, time.monotonic()
        if known is None:
            self._start(asked, key)

    def _start(self, asked: Asked, key: str) -> None:
        one = self._conversation
        if one is None or self._turn is None:
            return
        request = run_ops.RunRequest(
            tool=one.tool,
            prompt_source="file",
            prompt_file=f"{one.tool}:{one.external_id}#{key}",
            timeout_s=self._timeout_s,
            env=(_NOBODY,),
            terminal=f"{one.tool} itself",
        )
        terms, stamp = self._server.terms, self._server.stamp()
        prompt = asked.text.encode("utf-8", "replace")
        while True:
            revision = self._server.fetch(run_ops.revision(terms, self._session_id))
            try:
                call = run_ops.start_run(terms, stamp, self._session_id, request, prompt, (revision, []))
                number, summary = self._server.run(call)
                break
            except ContextChanged:
                continue  # somebody added an item since it was counted
        run_id = number.decode()
        self._runs[key] = self._turn.id = run_id
        self._claim = self._claims.claim(self._session_id, run_id, f"follow:{os.getpid()}:{run_id}")
        self._beaten_s = time.monotonic()
        self._server.note(self._session_id, summary)
        self._seen.add(asked.key)
        self.said += 1

    def _heard(self, said: Said) -> None:
        turn = self._turn
        is_new = not all(key in self._seen for key in said.keys)
        for result in said.results or ():
            self._pending.discard(str(result.get("call_id")))
        self._pending.update(str(call.get("id")) for call in said.calls or ())
        if turn is not None:
            self._moved_s = time.monotonic()
            if said.role == "assistant":
                turn.has_answer, turn.text = True, said.text or turn.text
                turn.model = said.model or turn.model
        if not is_new:
            return
        self._seen.update(said.keys)
        metadata: dict[str, Any] = {"external_ids": said.keys, "at": iso(said.at_ms)}
        if self._conversation:
            metadata["tool"] = self._conversation.tool
        if turn is not None and turn.id != "0000":
            metadata["run"] = turn.id
        self._add(said, metadata | ({"model": said.model} if said.model else {}))
        if self._claim is not None and said.calls:
            done = [activity_of(call) for call in said.calls]
            self._held(lambda claim: self._claims.add_activity(claim, self._done, done))
            self._done += len(done)

    def _add(self, said: Said, metadata: dict[str, Any]) -> None:
        text = said.text
        for _ in range(2):
            try:
                self._messages.add(
                    said.role,
                    text,
                    self._session_id,
                    metadata=metadata,
                    tool_calls=said.calls,
                    tool_results=said.results,
                    idempotency_key=sha256("\0".join(said.keys).encode()).hexdigest()[:32],
                )
                self.said += 1
                return
            except UsageError:
                if text != said.text:
                    raise
                said = msgspec.structs.replace(said, calls=None, results=None)
                text = f"{said.text[:_EXCERPT]}\n[too large: the rest is in the tool's own history]"

    def _rest(self) -> None:
        """Between two polls: keep the claim, and take a turn that has its answer and is quiet for over."""
        now_s = time.monotonic()
        turn = self._turn
        if turn is None or self._claim is None:
            return
        if turn.has_answer and turn.text and not self._pending and now_s - self._moved_s >= QUIET_S:
            self._finish("success", None)
        elif now_s - self._beaten_s >= BEAT_MS / 1000:
            self._beaten_s = now_s
            self._held(lambda claim: self._claims.renew(claim))

    def _held(self, act: Callable[[Claim], object]) -> None:
        """Do something with the claim; one that was lost is let go: messages go on without."""
        try:
            if self._claim is not None:
                act(self._claim)
        except LostClaim:
            self._claim = None

    def _finish(self, status: str, error: str | None) -> None:
        turn, self._turn = self._turn, None
        if turn is None:
            return
        turn.settle()
        output = (turn.text or "").encode("utf-8", "replace")
        tokens = turn.turned.tokens
        usage = Usage(
            model=turn.model,
            tokens_input=tokens.input if tokens.total else None,
            tokens_output=tokens.output if tokens.total else None,
            cost=turn.turned.cost,
            tool_session=self._conversation.external_id if self._conversation else None,
        )
        ended = RunEnded(
            status=status,
            error=error,
            size=len(output),
            digest=sha256(output).hexdigest() if output else None,
            usage=usage,
        )
        if output:
            self._held(lambda claim: self._claims.add_outputs(claim, 0, [output]))
        self._held(lambda claim: self._claims.finish(claim, ended))
        self._claim = None
