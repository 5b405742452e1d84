"""Reading what a session holds. Writers keep to this form, so that there is one reader:

items   ctx-0001              the item as JSON, as it was added
        ctx-0001:removed_at   milliseconds, once it is out
runs    0001                  the run as JSON, as it was started; never rewritten
        0001:sent             sent_context as JSON
        0001:status           pending, running, success, error, canceled or dry
        0001:started_at       milliseconds, once claimed
        0001:end              JSON of the fields of Run that its end brings
        0001:relevant         JSON of RelevantOutput, once promoted
        0001:fence  0001:owner   the present claim; 0001:ended_by   the command id that ended it
        0001:lease  0001:suspect  until when it holds; the lease that was seen ended, and when
        0001:cancel           milliseconds, once its owner was asked to end it
        0001:retries          how often it may still be tried again
        0001:asked            the id of the message that its prompt became
        0001:usage                         what its tool has consumed so far, while it runs
        0001:did              fence, count, first and last event of what its agent did
        0001:size  0001:first  0001:last   bytes printed, and between which ids of outputs they are
blobs   <sha-256>             snapshots and prompts
outputs run, data             one chunk of what a run printed

Nothing is decoded and encoded again inside Lua: cjson would turn an empty list into an object.
"""

from __future__ import annotations

import re

import msgspec

from maestro_state.clock import from_iso, iso
from maestro_state.errors import WorkFailed
from maestro_state.models.context import ContextItem
from maestro_state.models.run import RelevantOutput, Run, SentItem
from maestro_state.state.calls.terms import Terms
from maestro_state.state.scripts import Query

_item = msgspec.json.Decoder(ContextItem).decode
_run = msgspec.json.Decoder(Run).decode
_relevant = msgspec.json.Decoder(RelevantOutput).decode
_sent = msgspec.json.Decoder(list[SentItem]).decode
_RUN_ID = re.compile(r"[0-9]{4,}", re.ASCII)


def fields_of(reply: list[bytes]) -> dict[str, bytes]:
    """Return a hash that the server answered with."""
    return {name.decode(): value for name, value in zip(reply[::2], reply[1::2], strict=True)}


def read_items(terms: Terms, session_id: str) -> Query:
    """Read every context item, removed ones too, in the order they were added."""

    def read(reply: list[bytes]) -> list[ContextItem]:
        stored = fields_of(reply)
        items = []
        for name in sorted((name for name in stored if ":" not in name), key=lambda name: int(name[4:])):
            item = _item(stored[name])
            if removed := stored.get(f"{name}:removed_at"):
                item = msgspec.structs.replace(item, state="removed", removed_at=iso(int(removed)))
            items.append(item)
        return items

    return Query(("HGETALL", terms.keys.of_session(session_id, "items")), read)


#: Why a run ended whose owner gave no more heartbeats.
LOST = "its worker was lost while it ran"


def shown(stored: dict[str, bytes], run_id: str, lost_before_ms: int) -> Run:
    """Return a run as it is shown: one whose lease is over as what whoever looks after it will find it to be."""
    run = run_of(stored, run_id)
    if not is_silent(stored, run_id, lost_before_ms):
        return run
    if stored.get(f"{run_id}:cancel"):
        return msgspec.structs.replace(run, status="canceled", error=LOST)
    if int(stored.get(f"{run_id}:retries", b"0")):
        return msgspec.structs.replace(run, status="pending")
    return msgspec.structs.replace(run, status="error", error=LOST)


def is_silent(stored: dict[str, bytes], run_id: str, lost_before_ms: int) -> bool:
    """Tell whether a run's owner has let its lease run out."""
    is_running = stored.get(f"{run_id}:status") == b"running"
    return is_running and int(stored.get(f"{run_id}:lease", b"0")) < lost_before_ms


def server_uptime() -> Query:
    """Ask for how many seconds the server has been up."""

    def read(reply: bytes) -> int:
        line = reply.partition(b"uptime_in_seconds:")[2].split(b"\r\n", 1)[0]
        return int(line) if line.isdigit() else 0

    return Query(("INFO", "server"), read)


def run_of(stored: dict[str, bytes], run_id: str) -> Run:
    """Put together a run from its fields: as one text, in which a later field counts, decoded once."""
    parts = [stored[run_id][:-1]]
    if usage := stored.get(f"{run_id}:usage"):
        parts.append(b'"usage":' + usage)  # so far: the run is still going
    if end := stored.get(f"{run_id}:end", b"{}")[1:-1]:
        parts.append(end)
    if started := stored.get(f"{run_id}:started_at"):
        parts.append(b'"started_at":"%b"' % iso(int(started)).encode())
    parts.append(b'"status":"%b"}' % stored[f"{run_id}:status"])
    run = _run(b",".join(parts))
    for moment in (run.created_at, run.finished_at):
        if moment is not None:
            from_iso(moment)  # here it is a damaged record; later it would stop whoever goes over all of them
    return run


def runs_in(stored: dict[str, bytes]) -> list[Run]:
    """Return every run among the fields of all, oldest first."""
    return [run_of(stored, name) for name in sorted(filter(_RUN_ID.fullmatch, stored), key=int)]


def relevant_in(stored: dict[str, bytes]) -> list[RelevantOutput]:
    """Return the outputs that were promoted, in the order of their runs."""
    return [_relevant(stored[name]) for name in sorted(name for name in stored if name.endswith(":relevant"))]


def read_runs(terms: Terms, session_id: str) -> Query:
    """Read every run, oldest first."""
    return Query(("HGETALL", terms.keys.of_session(session_id, "runs")), lambda reply: runs_in(fields_of(reply)))


def read_shown_runs(terms: Terms, session_id: str, now_ms: int) -> Query:
    """Read every run, oldest first: as they are shown, and, if that differs, as they are recorded."""

    def read(reply: list[bytes]) -> tuple[list[Run], list[Run] | None]:
        stored, lost_before_ms = fields_of(reply), now_ms - terms.skew_ms
        names = sorted(filter(_RUN_ID.fullmatch, stored), key=int)
        if not any(is_silent(stored, name, lost_before_ms) for name in names):
            return [run_of(stored, name) for name in names], None
        return [shown(stored, name, lost_before_ms) for name in names], [run_of(stored, name) for name in names]

    return Query(("HGETALL", terms.keys.of_session(session_id, "runs")), read)


def read_relevant(terms: Terms, session_id: str) -> Query:
    """Read the outputs that were promoted, in the order of their runs."""
    return Query(("HGETALL", terms.keys.of_session(session_id, "runs")), lambda reply: relevant_in(fields_of(reply)))


def read_sent(terms: Terms, session_id: str, run_id: str) -> Query:
    """Read what a run was given."""
    key = terms.keys.of_session(session_id, "runs")
    return Query(("HGET", key, f"{run_id}:sent"), lambda reply: _sent(reply or b"[]"))


def read_blob(terms: Terms, session_id: str, digest: str) -> Query:
    """Read a snapshot or a prompt."""

    def read(reply: bytes | None) -> bytes:
        if reply is None:
            raise WorkFailed(f"session {session_id} has no content with digest {digest}")
        return reply

    return Query(("HGET", terms.keys.of_session(session_id, "blobs"), digest), read)
