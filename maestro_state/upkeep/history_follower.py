"""Following a tool's own history into a live session: what is said there is said here, within moments.

Each turn is a run that this process carries out as far as anybody can tell: it holds its claim, adds what the agent
does, and ends it with what it consumed. What was seen is known by the tool's ids, which messages and runs keep; so a
follower that was killed goes on where it stopped, and nothing is said twice.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Any

import msgspec

from maestro_state._sync.claims import Claims
from maestro_state._sync.ledger import Ledger
from maestro_state._sync.messages import Messages
from maestro_state._sync.records import Records
from maestro_state._sync.server import Server
from maestro_state.clock import from_iso, iso
from maestro_state.errors import FileCorrupt, LostClaim, PathNotFound, SessionNotFound, UsageError
from maestro_state.histories.readers import Reader
from maestro_state.histories.tail import Growing
from maestro_state.histories.turns import Turn, activity_of
from maestro_state.histories.values import Asked, Conversation, Ended, Said, Step, Tokens, Used
from maestro_state.models.claim import BEAT_MS, Claim
from maestro_state.models.claim import Ended as RunEnded
from maestro_state.models.message import Message
from maestro_state.models.run import OPEN, Run, Usage
from maestro_state.state.calls import runs as run_ops
from maestro_state.tools import resolve
from maestro_state.upkeep.own_runs import FOLLOWED, start_own_run

#: Seconds between two polls of a history; of quiet after a turn's end until its run ends: what it consumed may be told
#: last; and of quiet after an answer until its turn is taken for over, where the history tells no end.
POLL_S = 0.2
SETTLED_S = 0.6
QUIET_S = 3.0
#: What is kept of a text that is too large for a message.
_EXCERPT = 8000


def newest(reader: Reader, places: list[str], roots: list[str] | None) -> Conversation | None:
    """Return the conversation that was changed last, of some projects' if told; None where there is none."""
    found = [one for place in places if os.path.exists(place) for one in reader.files(place)]
    for stamped in sorted(found, key=lambda one: one.updated_ms, reverse=True):
        try:
            its = list(reader.conversations(stamped))
        except (FileCorrupt, PathNotFound):
            if roots is None:  # the one that somebody named
                raise
            continue
        held = [one for one in its if roots is None or any(one.is_of(root) for root in roots)]
        if held:
            return max(held, key=lambda one: one.updated_ms)
    return None


#: The number of a turn that has no run here.
NO_RUN = "0000"


def turn_mark(one: Conversation, key: str) -> str:
    """Return how a run names the turn it is, in the place of the file that its prompt came from."""
    return f"{one.tool}:{one.external_id}#{key}"


def turns_in(runs: Iterable[Run], tool: str, external_id: str) -> dict[str, str]:
    """Return which turns of a conversation are runs, and which ones."""
    mark = f"{tool}:{external_id}#"
    marked = ((run.prompt_file or "", run.id) for run in runs)
    return {file.removeprefix(mark): run_id for file, run_id in marked if file.startswith(mark)}


def keys_in(messages: Iterable[Message]) -> Iterator[str]:
    """Yield the tool's ids of what messages say."""
    for message in messages:
        keys = (message.metadata or {}).get("external_ids")
        yield from (key for key in (keys if isinstance(keys, list) else ()) if isinstance(key, str))


def _is_by_a_worker(run: Run) -> bool:
    return FOLLOWED not in run.env


def asked_by(runs: Iterable[Run], external_id: str, now_ms: int) -> list[tuple[int, int]]:
    """Return from when to when runs that asked a tool themselves held a conversation."""
    return [
        (from_iso(run.started_at), from_iso(run.finished_at) if run.finished_at else now_ms)
        for run in runs
        if _is_by_a_worker(run) and run.started_at and run_ops.conversation_of(run) == external_id
    ]


class HistoryFollower:
    """Brings one conversation into one session."""

    def __init__(self, server: Server, sessions: Records, messages: Messages, claims: Claims, timeout_s: int) -> None:
        """Take the rooms it writes through."""
        self._server, self._sessions, self._messages, self._claims = server, sessions, messages, claims
        self._ledger = Ledger(server)
        self._timeout_s = timeout_s
        self._session_id = ""
        self._since_ms = 0
        self._conversation: Conversation | None = None
        self._growing: Growing | None = None
        self._seen: set[str] = set()
        self._runs: dict[str, str] = {}  #: turns → runs; of an earlier session, nothing
        self._asking: list[tuple[int, int]] = []  #: when runs asked in this conversation
        self._left: set[str] = set()  #: runs that an earlier follower left under way
        self._turn: Turn | None = None  #: what is read belongs to it; a history read again goes through those before
        self._open: Turn | None = None  #: its run is under way
        self._claim: Claim | None = None
        self._is_passed = False
        self._consumed: dict[str, Tokens] = {}  #: by every answer of the conversation
        self._pending: set[str] = set()  #: calls without a result
        self._done = 0
        self._moved_s = self._beaten_s = 0.0
        self.said = 0  #: messages that were added

    def follow(self, reader: Reader, one: Conversation, ref: str | None, is_over: Callable[[], object]) -> int:
        """Follow until told to stop; return how many messages were added. What is under way then ends as canceled."""
        self.begin(reader, one, [self._sessions.resolve(ref)])
        try:
            while True:
                is_last = bool(is_over())  # asked first: what is written until then is taken
                self.poll()
                if is_last:
                    return self.said
                time.sleep(POLL_S)
        finally:
            self.end()

    def begin(self, reader: Reader, one: Conversation, session_ids: Sequence[str], since_ms: int = 0) -> None:
        """Begin with a conversation, of which earlier sessions may have a part: what is new is said in the last one.
        Turns from before `since_ms` are passed over.
        """
        self._session_id, self._conversation, self._since_ms = session_ids[-1], one, since_ms
        for session_id in session_ids[:-1]:
            with suppress(SessionNotFound):  # an earlier one may have been deleted since
                self._read_known(one, session_id)
        self._read_known(one, self._session_id)
        self._growing = Growing(reader, one, self._seen)

    def poll(self) -> None:
        """Say what is new."""
        if self._growing is not None:
            for step in self._growing.more():
                self._take(step)
            self._rest()

    def end(self) -> None:
        """End the run of a turn that is under way: with success if its answer is there."""
        turn = self._open
        if turn is not None and turn.status is None and turn.has_answer and turn.text and not self._pending:
            turn.status = "success"
        self._finish("canceled", "no longer followed")

    def _read_known(self, one: Conversation, session_id: str) -> None:
        source = self._sessions.source(session_id)
        self._seen.update(keys_in(source.messages()))
        runs = source.runs()
        is_own = session_id == self._session_id
        for key, run_id in turns_in(runs, one.tool, one.external_id).items():
            self._runs[key] = run_id if is_own else ""
        self._left.update(run.id for run in runs if is_own and run.status in OPEN)
        self._asking += asked_by(runs, one.external_id, self._server.now_ms())

    def _take(self, step: Step) -> None:
        if isinstance(step, Used):
            self._consumed[step.key] = step.tokens
        if isinstance(step, Asked):
            self._asked(step)
        elif self._is_passed:
            return
        elif isinstance(step, Said):
            self._heard(step)
        elif self._turn is None or self._turn is not self._open:
            return
        elif isinstance(step, Used):
            self._turn.used[step.key] = step
            self._turn.model = self._turn.model or step.model
        elif isinstance(step, Ended):
            self._turn.status, self._turn.error = step.status, step.error
            self._moved_s = time.monotonic()

    def _asked(self, asked: Asked) -> None:
        key = asked.turn or asked.key
        self._is_passed = False
        if self._open is not None and self._open.key == key:
            self._turn = self._open
        elif key in self._runs:
            self._turn = Turn(int(self._runs[key] or 0), key, asked.at_ms)
            self._resume(self._turn)
        elif asked.at_ms < self._since_ms or self._is_asked_by_a_run(asked):
            self._turn, self._is_passed = None, True
        else:
            self._finish("error", "nobody answered")
            self._turn = self._open = Turn(0, key, asked.at_ms)
            self._pending, self._done, self._moved_s = set(), 0, time.monotonic()
            self._start(asked, key)

    def _is_asked_by_a_run(self, asked: Asked) -> bool:
        """Tell whether a run that goes on with this conversation asked: it says itself what was said."""
        if any(first <= asked.at_ms <= last for first, last in self._asking):
            return True
        terms = self._server.terms
        for run_id in self._server.fetch(run_ops.read_open(terms, self._session_id)):
            run = self._server.fetch(run_ops.read_run(terms, self._session_id, run_id))
            before = self._server.fetch(run_ops.read_run(terms, self._session_id, run.continues or run_id))
            if _is_by_a_worker(run) and run_ops.conversation_of(before) == self._external_id:
                return True
        return False

    @property
    def _external_id(self) -> str | None:
        return self._conversation.external_id if self._conversation else None

    def _start(self, asked: Asked, key: str) -> None:
        one, turn = self._conversation, self._open
        if one is None or turn is None:
            return
        mark = turn_mark(one, key)
        request = run_ops.RunRequest(
            tool=one.tool,
            prompt_source="file",
            prompt_file=mark,
            timeout_s=self._timeout_s,
            env=(FOLLOWED,),
            terminal=f"{one.tool} itself",
        )
        # Of two who follow the same conversation, the second gets the first one's run.
        once = sha256(mark.encode("utf-8", "replace")).hexdigest()[:32]
        prompt = asked.text.encode("utf-8", "replace")[: self._server.terms.max_value_bytes]
        turn.id, summary = start_own_run(self._server, self._session_id, request, prompt, once)
        self._runs[key] = turn.id
        self._claim_run(turn)
        self._server.note(self._session_id, summary)
        self._seen.add(asked.key)
        self.said += 1

    def _claim_run(self, turn: Turn) -> None:
        """Take the run of a turn. Its owner's name is the turn's: whoever goes on with one that stopped has it too."""
        one = self._conversation
        mark = sha256(turn_mark(one, turn.key).encode("utf-8", "replace")).hexdigest()[:16] if one else ""
        try:
            self._claim = self._claims.claim(self._session_id, turn.id, f"follow:{mark}:{turn.id}")
        except LostClaim:
            self._claim = None
        self._beaten_s = time.monotonic()

    def _resume(self, turn: Turn) -> None:
        """Go on with the run of a turn that an earlier follower left under way."""
        if self._open is not None or turn.id not in self._left:
            return
        self._left.discard(turn.id)
        self._claim_run(turn)
        if self._claim is not None:
            self._open = turn
            self._pending, self._moved_s = set(), time.monotonic()
            self._done = len(self._sessions.source(self._session_id).activity(turn.id))

    def _heard(self, said: Said) -> None:
        turn = self._turn
        is_new = not all(key in self._seen for key in said.keys)
        if turn is not None and turn is self._open:
            for result in said.results or ():
                self._pending.discard(str(result.get("call_id")))
            self._pending.update(str(call.get("id")) for call in said.calls or ())
            if is_new:
                self._moved_s = time.monotonic()
            if said.role == "assistant":
                turn.has_answer, turn.text = True, said.text or turn.text
                turn.model = said.model or turn.model
                turn.status = turn.error = None
        elif said.at_ms < self._since_ms:
            return
        if not is_new:
            return
        self._seen.update(said.keys)
        metadata: dict[str, Any] = {"external_ids": said.keys, "at": iso(said.at_ms)}
        if self._conversation:
            metadata["tool"] = self._conversation.tool
        if turn is not None and turn.id != NO_RUN:
            metadata["run"] = turn.id
        self._add(said, metadata | ({"model": said.model} if said.model else {}))
        if self._claim is not None and turn is self._open and said.calls:
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
        """Between two polls: keep the claim, and end the run of a turn that has ended, or seems to have."""
        now_s, turn = time.monotonic(), self._open
        if turn is None:
            return
        quiet_s = now_s - self._moved_s
        has_ended = turn.status is not None and quiet_s >= SETTLED_S
        if has_ended or (turn.has_answer and turn.text and not self._pending and quiet_s >= QUIET_S):
            turn.status = turn.status or "success"
            self._finish("success", None)
        elif self._claim is not None and now_s - self._beaten_s >= BEAT_MS / 1000:
            self._beaten_s = now_s
            self._held(lambda claim: self._claims.renew(claim, self._usage(turn)))

    def _held(self, act: Callable[[Claim], object]) -> None:
        """Do something with the claim; one that was lost is let go: messages go on without."""
        try:
            if self._claim is not None:
                act(self._claim)
        except LostClaim:
            self._claim = None

    def _usage(self, turn: Turn) -> Usage:
        turn.settle()
        return msgspec.structs.replace(turn.usage(self._external_id), counters=self._counters())

    def _counters(self) -> dict[str, int | float] | None:
        """Return where the tool's counters stand, if it counts on: a run that goes on from here tells them whole."""
        if self._conversation is None or "tokens_input" not in resolve(self._conversation.tool).cumulative:
            return None
        all_ = sum(self._consumed.values(), Tokens())
        return {
            "tokens_input": all_.total - all_.output,
            "tokens_output": all_.output,
            "tokens_cache_read": all_.cache_read,
            "tokens_cache_write": all_.cache_write,
            "tokens_reasoning": all_.reasoning,
        }

    def _finish(self, status: str, error: str | None) -> None:
        """End the run under way: as its history told, else as it is said here."""
        turn, self._open = self._open, None
        if turn is None:
            return
        if turn.status is None and status == "error" and turn.has_answer:
            status, error = "success", None
        output = (turn.text or "").encode("utf-8", "replace")
        ended = RunEnded(
            status=turn.status or status,
            error=turn.error if turn.status else error,
            size=len(output),
            digest=sha256(output).hexdigest() if output else None,
            usage=self._usage(turn),
        )
        if output:
            self._held(lambda claim: self._claims.add_outputs(claim, 0, [output]))
        self._held(lambda claim: self._claims.finish(claim, ended))
        if self._claim is not None:
            self._ledger.count_own(self._session_id, turn.id)
        self._claim = None
