"""Writes entries into sessions: messages as they come, each block as a run that this process carries out.

Blocking; called by the writer's thread alone. A run begins with the first thing that the user says in a block, is kept
alive while the block lasts, and ends with what the block cost: so `runs`, `watch` and `usage` know of it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import sha256
from math import fsum
from typing import TypeVar

from maestro_state.api.maestro import Maestro
from maestro_state.errors import InvalidTransition, LostClaim, NotFound, SessionExpired, SessionNotFound, UsageError
from maestro_state.models.binding import Bound
from maestro_state.models.claim import Claim, Ended
from maestro_state.models.names import is_session_id
from maestro_state.models.run import Usage
from maestro_state.recording.entries import Block, Entry, Left, Said, Target
from maestro_state.recording.serialization import Spent
from maestro_state.state.calls.bindings import Entries
from maestro_state.state.calls.runs import RunRequest
from maestro_state.upkeep.own_runs import RECORDED, start_own_run

T = TypeVar("T")

KIND = "record"
#: How often a write is tried again on what a name means by then.
_TRIES = 5
#: What a write is told when its session has ended or is gone.
_OVER = (InvalidTransition, SessionExpired, SessionNotFound)


class SessionWriter:
    """Entries → one project's sessions."""

    def __init__(self, maestro: Maestro) -> None:
        """Take what to write through."""
        self._maestro = maestro
        self._server = maestro.server
        self._open: list[Block] = []

    @property
    def has_open_runs(self) -> bool:
        """Whether a run has to be kept alive."""
        return bool(self._open)

    def close(self) -> None:
        self._maestro.close()

    def write(self, entries: Sequence[Entry]) -> None:
        """Write entries of one target: several messages in one step, anything else one by one. Repeatable."""
        first = entries[0]
        if isinstance(first, Left):
            self._end(first)
        elif self.begins_run(first):
            self._begin(first)
        else:
            said = [entry for entry in entries if isinstance(entry, Said)]
            self._say(said)

    def begins_run(self, entry: Entry) -> bool:
        """Tell whether an entry is the question that a run of its block answers."""
        if not isinstance(entry, Said) or entry.block is None or entry.block.run_id is not None:
            return False
        return entry.role == "user" and bool(entry.content.strip())

    def _say(self, said: list[Said]) -> None:
        step = Entries()
        for one in said:
            noted = dict(one.metadata)
            if one.block is not None and one.block.run_id is not None:
                noted["run"] = one.block.run_id
            step.message(one.role, one.content, metadata=noted or None, **one.parts)
        key = said[0].key
        self._change(
            said[0].target, lambda session_id: self._maestro.bindings.write(session_id, step, idempotency_key=key)
        )
        for one in said:
            if one.block is not None and one.spent is not None:
                one.block.spent.append(one.spent)
            if one.block is not None and one.role == "assistant" and one.content:
                one.block.answer = one.content

    def _begin(self, asked: Said) -> None:
        """Begin the run of a block: what is asked becomes a message in the same step."""
        block = asked.block
        if block is None:
            return
        block.claim = self._change(asked.target, lambda session_id: self._started(session_id, asked, block.agent))
        block.run_id = block.claim.run.id
        self._open.append(block)

    def _started(self, session_id: str, asked: Said, agent: str) -> Claim:
        request = RunRequest(
            tool=agent,
            timeout_s=self._maestro.settings.run_timeout_seconds,
            env=(RECORDED,),
            terminal="record",
            noted=asked.metadata,
        )
        run_id, summary = start_own_run(self._server, session_id, request, asked.content.encode(), asked.key)
        claim = self._maestro.claims.claim(session_id, run_id, f"record:{os.getpid()}:{asked.key}")
        self._server.note(session_id, summary)
        return claim

    def _end(self, left: Left) -> None:
        """End the run of a block with what it cost; a block that cost something and asked nothing has one too."""
        block = left.block
        if block.run_id is None:
            if not block.spent:
                return
            self._begin(Said(left.target, block, "user", f"({block.agent})", key=f"{left.key}a"))
        answer = block.answer.encode()
        ended = Ended(
            status="success" if left.error is None else "error",
            error=left.error,
            size=len(answer),
            digest=sha256(answer).hexdigest() if answer else None,
            usage=_sum(block.spent),
        )
        try:
            if block.claim is not None:
                if answer:
                    self._maestro.claims.add_outputs(block.claim, 0, [answer])
                self._maestro.claims.finish(block.claim, ended, left.key)
        except (LostClaim, NotFound):
            pass  # ended by somebody else, with its session or for want of a heartbeat
        if block.claim is not None:
            self._maestro.ledger.count_own(block.claim.session_id, block.claim.run.id)
        if block in self._open:
            self._open.remove(block)

    def beat(self) -> None:
        """Keep the open runs alive; one that was lost is let go: its messages go on without."""
        for block in list(self._open):
            try:
                if block.claim is not None:
                    self._maestro.claims.renew(block.claim, _sum(block.spent))
            except (LostClaim, NotFound):
                block.claim = None
                self._open.remove(block)

    def _change(self, target: Target, change: Callable[[str], T]) -> T:
        """Change the session, whichever the name means by then: it may end between two steps of ours."""
        for _ in range(_TRIES):
            with suppress(*_OVER):
                return change(target.session_id or self._found(target))
            target.session_id = None
        return change(self._found(target))

    def _found(self, target: Target) -> str:
        """Find the session, make it, or fork it where it has ended."""
        kind, key = self._meant(target.name)
        target.session_id = self._maestro.bindings.ensure(kind, key, ttl_seconds=target.ttl_seconds)
        return target.session_id

    def _meant(self, name: str | None) -> tuple[str, str]:
        if name is None:
            return KIND, self._maestro.sessions.resolve()
        if is_session_id(name):
            return KIND, name
        if bound := Bound.in_reference(name):
            return bound.kind, bound.key
        with suppress(NotFound, UsageError):  # one that somebody began by this name; several are none
            if self._maestro.bindings.find(KIND, name) is None:
                return KIND, self._maestro.sessions.resolve(name)
        return KIND, name


def _sum(spent: list[Spent]) -> Usage | None:
    """Add up what answers cost; of several models the last one is named."""
    if not spent:
        return None
    models = [one.model for one in spent if one.model]
    costs = [one.cost for one in spent if one.cost is not None]
    inputs = [one.tokens_input for one in spent if one.tokens_input is not None]
    outputs = [one.tokens_output for one in spent if one.tokens_output is not None]
    return Usage(
        model=models[-1] if models else None,
        tokens_input=sum(inputs) if inputs else None,
        tokens_output=sum(outputs) if outputs else None,
        cost=round(fsum(costs), 9) if costs else None,
    )
