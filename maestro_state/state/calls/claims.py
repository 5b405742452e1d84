"""Calls on runs, from the side that carries them out: claim, append output, keep the claim, finish, recover.

A claim carries a fencing number that the next claim, or the end of the run, raises: what an attempt that lost its
claim still sends is refused where the data is.
"""

from __future__ import annotations

from typing import Any

import msgspec

from maestro_state.clock import from_iso, iso
from maestro_state.errors import LostClaim, OutputLost, RunNotFound
from maestro_state.models.claim import Claim, Ended
from maestro_state.models.run import Activity, OutputRef, Run, SentItem, Usage, turn_ms
from maestro_state.models.worker import Needs, Waiting
from maestro_state.state.calls.contents import LOST
from maestro_state.state.calls.replies import accept, text
from maestro_state.state.calls.runs import ending, resting, said_of
from maestro_state.state.calls.terms import Stamp, Terms
from maestro_state.state.scripts import Call, Query, load

#: How long a claim holds without a heartbeat, in milliseconds.
LEASE_MS = 3_000
#: How long a lease must have been seen ended before the owner counts as gone: the server may have been away itself, and
#: an owner that waits for it comes back within this time.
SUSPICION_MS = 2_000


def claim_run(terms: Terms, session_id: str, run_id: str, owner: str, now_ms: int) -> Call:
    """Take a pending run; LostClaim when somebody else has it or it is over. Repeatable by the same owner."""

    def read(reply: list[Any]) -> Any:
        word = text(reply[0])
        if word == "NO_RUN":
            raise RunNotFound(session_id, run_id)
        if word == "NOT_PENDING":
            raise LostClaim(f"run {run_id} of {session_id} is {text(reply[1])}, not pending")
        (fence, run, sent, place), summary = accept(reply, session_id, "claiming a run")
        values = msgspec.json.decode(run) | {"status": "running"}
        record = msgspec.convert(values, Run)
        claim = Claim(
            session_id=session_id,
            run=record,
            sent=msgspec.json.decode(sent, type=list[SentItem]),
            fence=int(fence),
            working_directory=record.working_directory or text(place),
        )
        return claim, summary

    args = (now_ms, terms.grace_ms, terms.user, run_id, owner, LEASE_MS)
    return Call(load("claim_run"), terms.keys.session(session_id), args, read)


def _accept(reply: list[Any], claim: Claim, action: str) -> list[Any]:
    """Return what follows OK; LostClaim when the claim is not the last one any more."""
    if text(reply[0]) == "LOST_CLAIM":
        raise LostClaim(f"run {claim.run.id} of {claim.session_id} is another attempt's, or over")
    return accept(reply, claim.session_id, action)


def _held(claim: Claim, action: str) -> Any:
    """Return the reader of an answer that is True when the run is to be canceled."""

    def read(reply: list[Any]) -> tuple[bool, Any]:
        is_canceled, summary = _accept(reply, claim, action)
        return int(is_canceled) == 1, summary

    return read


def add_output(terms: Terms, claim: Claim, offset: int, data: bytes, now_ms: int) -> Call:
    """Append what was printed from `offset` on; answers whether the run is to be canceled. Repeatable.

    OutputLost when the server has not got all that came before: a failover took it.
    """
    held = _held(claim, "adding output")

    def read(reply: list[Any]) -> Any:
        if text(reply[0]) == "GAP":
            raise OutputLost(claim.session_id, claim.run.id, int(reply[1]))
        return held(reply)

    args = (now_ms, terms.grace_ms, terms.user, claim.run.id, claim.fence, LEASE_MS, offset, data)
    return Call(load("add_output"), terms.keys.session(claim.session_id), args, read)


def add_activity(terms: Terms, claim: Claim, offset: int, done: list[Activity], now_ms: int) -> Call:
    """Append what the agent did after `offset` other things; answers whether the run is to be canceled. Repeatable."""
    entries = [part.encode("utf-8", "replace") for one in done for part in (one.kind, one.name, one.summary)]
    args = (now_ms, terms.grace_ms, terms.user, claim.run.id, claim.fence, LEASE_MS, offset, *entries)
    return Call(load("add_activity"), terms.keys.session(claim.session_id), args, _held(claim, "adding activity"))


def renew_claim(terms: Terms, claim: Claim, now_ms: int, usage: Usage | None = None) -> Call:
    """Keep a claim, and what the tool has consumed so far if that is new; answers whether the run is to be canceled."""
    told = msgspec.json.encode(usage) if usage else b""
    args = (now_ms, terms.grace_ms, terms.user, claim.run.id, claim.fence, LEASE_MS, told)
    return Call(load("renew_claim"), terms.keys.session(claim.session_id), args, _held(claim, "keeping a claim"))


_COUNTERS = {"success": "runs_success", "error": "runs_error"}


def finish_run(terms: Terms, stamp: Stamp, claim: Claim, ended: Ended) -> Call:
    """End a run. What it leaves is shaped like a breadcrumb: tool, model, tokens, cost, where prompt and answer are."""
    run, finished_at = claim.run, iso(stamp.now_ms)
    end: dict[str, Any] = {"finished_at": finished_at}
    if ended.size:
        end["output_ref"] = OutputRef(path="output.txt", size=ended.size, digest=ended.digest)
    if ended.error is not None:
        end["error"] = ended.error
    if ended.warning is not None:
        end["warning"] = ended.warning
    if ended.exit_code is not None:
        end["exit_code"] = ended.exit_code
    if ended.usage is not None and ended.usage != Usage():
        end["usage"] = ended.usage
    last: bytes = b""
    if ended.status == "success" and ended.size:
        path = f"../runs/{run.id}/output.txt"
        last = msgspec.json.encode({"run_id": run.id, "path": path, "timestamp": finished_at})
    args = (stamp.idempotency_key, stamp.now_ms, terms.grace_ms, terms.user, *resting(), run.id, claim.fence,
            ended.status, _COUNTERS.get(ended.status, ""), msgspec.json.encode(end), last, run.tool,
            *_said(run, ended))  # fmt: skip
    return Call(load("finish_run"), terms.keys.session(claim.session_id), args,
                lambda reply: _accept(reply, claim, "finishing a run"))  # fmt: skip


def _said(run: Run, ended: Ended) -> tuple[bytes, str, bytes]:
    """Return the answer as a message; what failed said nothing that others should take for an answer."""
    answer = ended.answer if ended.status == "success" else ""
    model = ended.usage.model if ended.usage else None
    return answer.encode(errors="replace"), "1" if ended.answer_is_cut else "", said_of(run.tool, model or run.model)


def recover_run(terms: Terms, session_id: str, run_id: str, now_ms: int) -> Call:
    """Look after an open run; answers error, canceled or pending (to be tried again) when its owner was gone, else
    how it is: alive, suspect, or its status.
    """

    def read(reply: list[Any]) -> Any:
        if text(reply[0]) == "NO_RUN":
            raise RunNotFound(session_id, run_id)
        verdict, summary = accept(reply, session_id, "recovering a run")
        return text(verdict), summary

    args = (now_ms, terms.user, *resting(), run_id, SUSPICION_MS, ending(now_ms, LOST))
    return Call(load("recover_run"), terms.keys.session(session_id), args, read)


def read_blobs(terms: Terms, session_id: str, digests: list[str]) -> Query:
    """Read several contents at once, in order; None for one that is not there."""
    return Query(("HMGET", terms.keys.of_session(session_id, "blobs"), *digests), list)


def read_status(terms: Terms, session_id: str, run_id: str) -> Query:
    """Read how far a run is; None for one that is not there."""
    key = terms.keys.of_session(session_id, "runs")
    return Query(("HGET", key, f"{run_id}:status"), lambda reply: None if reply is None else text(reply))


def read_waiting(terms: Terms, session_id: str, run_id: str) -> tuple[Query, Query]:
    """Read what a run that waits needs, and the session's folder, where it works unless it says another one."""
    runs, session = (terms.keys.of_session(session_id, name) for name in ("runs", "session"))
    run = Query(("HMGET", runs, run_id, f"{run_id}:fence"), lambda reply: _waiting(session_id, run_id, *reply))
    return run, Query(("HGET", session, "working_directory"), lambda reply: text(reply) if reply else "")


def _waiting(session_id: str, run_id: str, stored: bytes | None, fence: bytes | None) -> Waiting:
    if stored is None:
        raise RunNotFound(session_id, run_id)
    run = msgspec.convert(msgspec.json.decode(stored), Run)
    needs = Needs(
        tool=run.tool, folder=run.working_directory or "", labels=tuple(run.labels), holders=tuple(run.holders)
    )
    turn = turn_ms(from_iso(run.created_at), run.priority)
    return Waiting(session_id=session_id, run_id=run_id, fence=int(fence or 0), turn_ms=turn, needs=needs)
