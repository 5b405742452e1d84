"""Carrying runs out: what a worker does with them, and what anybody does with those whose worker is gone."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from maestro_state.clock import new_idempotency_key
from maestro_state.errors import (
    DamagedRecord,
    InvalidTransition,
    LostClaim,
    NotFound,
    Refused,
    ServerUnavailable,
    WorkFailed,
)
from maestro_state.live.quarantine import AsyncQuarantine
from maestro_state.live.queue import AsyncQueue
from maestro_state.live.server import AsyncServer
from maestro_state.models.claim import Claim, Ended
from maestro_state.models.run import OPEN, Activity, Run, Usage
from maestro_state.models.worker import Waiting
from maestro_state.state.calls import claims as ops
from maestro_state.state.calls import contents as contents_ops
from maestro_state.state.calls import index as index_ops
from maestro_state.state.calls import runs as runs_ops
from maestro_state.state.scripts import Call, Query

#: Contents that are read at once. Some hundred megabytes take longer than a lease lasts.
_CONTENTS = 8
#: What `recover` ended or requeued.
Recovered = list[tuple[str, str]]


class AsyncClaims:
    """The owner's side of a run. Every write carries the fence of its claim; LostClaim when that is not the last."""

    def __init__(self, server: AsyncServer, queue: AsyncQueue) -> None:
        self._server = server
        self._queue = queue
        #: Why no worker could be woken when open runs were last recovered; None when none had to be, or all went well.
        self.queue_fault: ServerUnavailable | None = None
        self._quarantine = AsyncQuarantine(server)

    async def claim(self, session_id: str, run_id: str, owner: str) -> Claim:
        """Take a pending run; `owner` is unique to this attempt, which may repeat the call."""
        call = ops.claim_run(self._server.terms, session_id, run_id, owner, self._server.now_ms())
        try:
            claim: Claim = await self._server.change(session_id, call)
        except InvalidTransition as error:
            raise LostClaim(str(error)) from error
        return claim

    async def waiting(self, session_id: str, run_id: str) -> Waiting:
        """Read what a run that waits needs; raises RunNotFound."""
        run, place = await self._server.fetch_all(ops.read_waiting(self._server.terms, session_id, run_id))
        needs = run.needs if run.needs.folder else replace(run.needs, folder=place)
        waiting: Waiting = replace(run, needs=needs)
        return waiting

    async def open_sessions(self) -> list[str]:
        """List the sessions of this namespace with runs that are not over."""
        found = await self._server.fetch_all(index_ops.running_sessions(self._server.terms))
        return [*dict.fromkeys(one for ids in found for one in ids)]

    async def over(self, names: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return those of some runs, by session and run, that are over or gone; of a damaged record nobody knows."""
        queries = [ops.read_status(self._server.terms, *name) for name in names]
        try:
            found = await self._server.fetch_all(queries)
        except DamagedRecord:  # of one session: the others are told of all the same
            found = [await self._status(query) for query in queries]
        return [name for name, status in zip(names, found, strict=True) if status not in OPEN]

    async def _status(self, query: Query) -> object:
        try:
            return await self._server.fetch(query)
        except DamagedRecord:
            return OPEN[0]

    async def contents(self, claim: Claim) -> list[bytes]:
        """Read the prompt, then each item that is sent, in order; the claim is kept however long that takes."""
        digests = [claim.run.prompt_digest or "", *(item.digest for item in claim.sent)]
        found: list[bytes | None] = []
        for at in range(0, len(digests), _CONTENTS):
            if at:
                await self.renew(claim)
            few = digests[at : at + _CONTENTS]
            found += await self._server.fetch(ops.read_blobs(self._server.terms, claim.session_id, few))
        missing = [digest for digest, content in zip(digests, found, strict=True) if content is None]
        if missing:
            raise WorkFailed(f"session {claim.session_id} has no content with digest {missing[0]}")
        return [content for content in found if content is not None]

    async def earlier(self, claim: Claim) -> list[Run]:
        """Read the session's runs, for what their tools had counted before."""
        found: list[Run] = await self._server.fetch(contents_ops.read_runs(self._server.terms, claim.session_id))
        return [run for run in found if run.id != claim.run.id]

    async def add_outputs(self, claim: Claim, offset: int, pieces: list[bytes]) -> bool:
        """Append several pieces of output in one write; tell whether the run is to be canceled."""
        now_ms, calls = self._server.now_ms(), []
        for data in pieces:
            calls.append(ops.add_output(self._server.terms, claim, offset, data, now_ms))
            offset += len(data)
        try:
            return any(await self._server.change_all(claim.session_id, calls))
        except (InvalidTransition, NotFound) as error:
            raise LostClaim(str(error)) from error

    async def add_activity(self, claim: Claim, offset: int, done: list[Activity]) -> bool:
        """Append what the agent did, in one write; tell whether the run is to be canceled."""
        call = ops.add_activity(self._server.terms, claim, offset, done, self._server.now_ms())
        is_canceled: bool = await self._change(claim.session_id, call)
        return is_canceled

    async def renew(self, claim: Claim, usage: Usage | None = None) -> bool:
        """Keep the claim, and show what the tool has consumed so far; tell whether the run is to be canceled."""
        call = ops.renew_claim(self._server.terms, claim, self._server.now_ms(), usage)
        is_canceled: bool = await self._change(claim.session_id, call)
        return is_canceled

    async def finish(self, claim: Claim, ended: Ended, idempotency_key: str | None = None) -> None:
        """End the run; repeated with the same command id it is ended once."""
        stamp = self._server.stamp(idempotency_key or new_idempotency_key())
        await self._change(claim.session_id, ops.finish_run(self._server.terms, stamp, claim, ended))

    async def _change(self, session_id: str, call: Call) -> Any:
        """Run a write of an owner's; a session that was frozen or deleted has taken the claim away too."""
        try:
            return await self._server.change(session_id, call)
        except (InvalidTransition, NotFound) as error:
            raise LostClaim(str(error)) from error

    async def recover(self) -> Recovered:
        """Recover every open run of this namespace: end those whose owner is gone, wake workers for those that wait
        without a job. Returns (session, run) of those it ended or requeued. Repeatable, by anybody, at any time.
        """
        recovered: Recovered = []
        self.queue_fault = None
        for session_id in await self.open_sessions():
            recovered += await self._recover_session(session_id)
        return recovered

    async def _recover_session(self, session_id: str) -> Recovered:
        """Recover the open runs of one session."""
        recovered: Recovered = []
        try:
            open_runs = await self._server.fetch(runs_ops.read_open(self._server.terms, session_id))
            if not open_runs:
                await self._index_ended(session_id)
            for run_id in open_runs:
                if await self._recover_run(session_id, run_id) in ("error", "canceled", "requeued"):
                    recovered.append((session_id, run_id))
        except (NotFound, Refused):
            return recovered  # frozen or gone meanwhile: its runs ended with it
        except ServerUnavailable:
            raise
        except Exception as error:  # noqa: BLE001 - anybody may have written anything; others' runs go on
            await self._quarantine.note(session_id, error)
        return recovered

    async def _index_ended(self, session_id: str) -> None:
        """Index a session whose runs are over although the index has it running: who ended the last one was killed
        before that. Nothing else would tell: it may be on disk already, and nobody walks through a cluster's keys.
        """
        summary = await self._server.fetch(index_ops.read_summary(self._server.terms, session_id))
        await self._server.note(session_id, summary)

    async def recover_run(self, session_id: str, run_id: str) -> str:
        """Recover one open run; tell how it is: alive, suspect, pending, requeued, or the status it ended with."""
        self.queue_fault = None
        return await self._recover_run(session_id, run_id)

    async def _recover_run(self, session_id: str, run_id: str) -> str:
        terms = self._server.terms
        call = ops.recover_run(terms, session_id, run_id, self._server.now_ms())
        verdict, summary = await self._server.run(call)
        if summary:
            await self._server.index(index_ops.entry_of(session_id, summary))
        if verdict == "pending":
            await self._wake(await self.waiting(session_id, run_id))
            return "requeued" if summary else "pending"
        return str(verdict)

    async def _wake(self, run: Waiting) -> None:
        """Wake a worker for a run; when the queue's server is away, the next recovery does."""
        if self.queue_fault is not None:
            return  # found out in this pass: asked for every run again, it would take as long for each
        try:
            await self._queue.enqueue(run)
        except ServerUnavailable as error:
            self.queue_fault = error
