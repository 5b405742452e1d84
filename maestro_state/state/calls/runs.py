"""Calls on runs, from the side that asks for them: start, cancel, list, look at. Who carries them out is `claims`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from maestro_state.clock import iso
from maestro_state.errors import ContextChanged, InvalidValue, RunIsOver, RunNotFound, SessionNotFound, TooManyRuns
from maestro_state.models.context import ContextItem
from maestro_state.models.excerpts import excerpt_of
from maestro_state.models.message import Event
from maestro_state.models.run import PRIORITIES, Flags, Run, SentItem, ToolOptions, preview
from maestro_state.state.calls.contents import is_silent, run_of, shown
from maestro_state.state.calls.events import event_of
from maestro_state.state.calls.parts import Part, arranged
from maestro_state.state.calls.replies import accept, text
from maestro_state.state.calls.terms import Stamp, Terms
from maestro_state.state.scripts import Call, Query, load
from maestro_state.vocabulary import RESTING, SessionState

#: Where a prompt may have come from.
SOURCES = ("cli", "stdin", "file")

#: Most times a run may be tried again.
RETRIES_MAX = 10

#: Longest name of a terminal that is kept, in characters.
_TERMINAL_MAX = 80

_RUN_ID = re.compile(r"[0-9]{1,9}", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)


class RunRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of a run, besides its prompt and the context."""

    tool: str
    prompt_source: str = "cli"
    prompt_file: str | None = None
    dry: bool = False
    confirmed_at: str | None = None
    timeout_s: int
    retries: int = 0
    cookie: str | None = None
    env: tuple[str, ...] = ()
    holders: tuple[str, ...] = ()  #: who is handed the environment it is to see
    options: ToolOptions = ToolOptions()
    continues: str | None = None
    seen: tuple[str, ...] = ()  #: digests of what the conversation it goes on with was sent before
    terminal: str | None = None  #: where it is asked for, for those who look on
    working_directory: str | None = None  #: where it works, if not where the session's runs do
    traceparent: str | None = None  #: the span it is asked for in
    edits_told: str | None = None  #: what tools may change, with what the asking person was told now
    runs_most: int = 0  #: runs of the session that may be open at once; 0: any number
    priority: str = "normal"
    labels: tuple[str, ...] = ()  #: what its worker must have been given as labels
    noted: dict[str, Any] = {}  #: what the prompt's message says of it beside the run


def check_run_id(run_id: str) -> str:
    """Return a run's number as it is stored: `1` is `0001`."""
    if not _RUN_ID.fullmatch(run_id):
        raise InvalidValue(f"'{run_id[:40]}' is not the number of a run", hint="maestro runs")
    return f"{int(run_id):04d}"


def check_prompt(terms: Terms, prompt: bytes) -> None:
    """Refuse a prompt that says nothing or is too large."""
    if not prompt.strip():
        raise InvalidValue("the prompt is empty", hint='maestro run "what shall it do?"')
    if len(prompt) > terms.max_value_bytes:
        raise InvalidValue(f"the prompt is {len(prompt)} bytes; at most {terms.max_value_bytes} are taken")


def sent_items(items: Sequence[ContextItem]) -> list[SentItem]:
    """Return what a run started now is sent of these items: the active ones, in order."""
    return [
        SentItem(
            id=item.id,
            kind=item.kind,
            # relative to runs/0001/, as every path of the archive is to its own file
            snapshot_blob=f"../../context/{item.snapshot.blob.removeprefix('../')}",
            digest=item.snapshot.digest,
            path_rel=item.source.get("path_rel"),
            **(_origin(item) if item.kind == "output" else {}),
        )
        for item in items
        if item.state == "active"
    ]


def _origin(item: ContextItem) -> dict[str, str | None]:
    """Return what an answer is worth little without: the question, who answered, and why it was kept."""
    tool, question = (item.source.get(name) for name in ("tool", "question"))
    return {
        "tool": tool if isinstance(tool, str) else None,
        "question": question if isinstance(question, str) else None,
        "note": item.notes,
    }


def start_run(
    terms: Terms,
    stamp: Stamp,
    session_id: str,
    request: RunRequest,
    prompt: bytes,
    seen: tuple[int, list[SentItem]],
    parts: Sequence[Part] = (),
) -> Call:
    """Record a run; `seen` is the revision of the context and what it means to be sent. Returns the run as this call
    records it (a repeat only gets the number of the one before), and the summary for the index.

    The prompt becomes a message of the session in the same step, and `parts` are kept for the worker. ContextChanged
    when the context is not the one seen any more: read it again and repeat.
    """
    from hashlib import sha256  # 5 ms that reading does without

    check_prompt(terms, prompt)
    _check(request)
    revision, sent = seen
    digest = sha256(prompt).hexdigest()
    status = "dry" if request.dry else "pending"
    run = Run(
        id="",
        tool=request.tool,
        prompt_source=request.prompt_source,
        prompt_file=request.prompt_file,
        flags=Flags(dry_run=request.dry, confirm=request.confirmed_at is not None, confirmed_at=request.confirmed_at),
        status=status,
        created_at=iso(stamp.now_ms),
        context_refs=[item.id for item in sent],
        context_version=[{"id": item.id, "digest": item.digest} for item in sent],
        cookie=request.cookie,
        prompt_digest=digest,
        timeout_s=request.timeout_s,
        retries=request.retries,
        env=list(request.env),
        holders=list(request.holders),
        model=request.options.model,
        mode=request.options.mode,
        arguments=request.options.arguments,
        continues=request.continues,
        seen=list(request.seen),
        working_directory=request.working_directory,
        parts=[{"id": one.item.id, "digest": one.item.digest} for one in parts],
        user=terms.user,
        terminal=request.terminal[:_TERMINAL_MAX] if request.terminal else None,
        traceparent=request.traceparent,
        prompt_preview=preview(prompt),
        priority=request.priority,
        labels=list(request.labels),
    )
    rest = msgspec.json.encode(run).removeprefix(b'{"id":"",')
    target = "" if request.dry else str(SessionState.RUNNING)
    args = (stamp.idempotency_key, stamp.now_ms, terms.grace_ms, terms.user, target, status, revision, request.tool,
            rest, msgspec.json.encode(arranged(sent, parts)), digest, prompt, request.retries, request.edits_told or "",
            request.runs_most,
            *said(prompt, request.tool, request.options.model, request.noted),
            *(value for one in parts for value in (one.item.digest, one.content)))  # fmt: skip

    def read(reply: list[Any]) -> tuple[Run, Any]:
        if text(reply[0]) == "CHANGED":
            raise ContextChanged
        if text(reply[0]) == "FULL":
            raise _full(session_id, text(reply[1]).split(), request.runs_most)
        run_id, summary = accept(reply, session_id, "starting a run")
        return msgspec.structs.replace(run, id=run_id.decode()), summary

    return Call(load("start_run"), terms.keys.session(session_id), args, read)


def _full(session_id: str, open_runs: list[str], most: int) -> TooManyRuns:
    shown = ", ".join(open_runs[:5]) + (f" and {len(open_runs) - 5} more" if len(open_runs) > 5 else "")
    return TooManyRuns(
        f"at most {most} {'run' if most == 1 else 'runs'} of one session may be open at once, "
        f"and {session_id} has {len(open_runs)}: {shown}",
        hint=f"maestro wait {open_runs[0]}, or cancel it (the limit is MAESTRO_RUNS_PER_SESSION, here or of a worker)",
    )


def said(
    content: bytes, tool: str, model: str | None, noted: Mapping[str, Any] | None = None
) -> tuple[bytes, str, bytes]:
    """Return what a run's message holds: its text or the ends of it, whether that is not all, and the rest of metadata
    after the run's number, which only the script knows.
    """
    kept, is_cut = excerpt_of(content)
    return kept.encode(), "1" if is_cut else "", said_of(tool, model, noted)


def said_of(tool: str, model: str | None, noted: Mapping[str, Any] | None = None) -> bytes:
    """Return the metadata of a run's message, after the run's number."""
    own = {"tool": tool, **({"model": model} if model else {})}
    return msgspec.json.encode({**{key: one for key, one in (noted or {}).items() if key != "run"}, **own})[1:]


def _check(request: RunRequest) -> None:
    if request.prompt_source not in SOURCES:
        raise InvalidValue(f"a prompt comes from {', '.join(SOURCES)}, not {request.prompt_source!r:.40}")
    if request.priority not in PRIORITIES:
        raise InvalidValue(f"a run's priority is {', '.join(PRIORITIES)}, not {request.priority!r:.40}")
    if request.timeout_s < 1:
        raise InvalidValue("the timeout must be at least 1 second")
    if not 0 <= request.retries <= RETRIES_MAX:
        raise InvalidValue(f"a run may be tried again 0 to {RETRIES_MAX} times, not {request.retries}")
    for name in request.env:
        if not _VARIABLE.fullmatch(name):
            raise InvalidValue(f"{name!r:.60} is not the name of a variable", hint="--env NAME, without a value")


def check_variables(names: Sequence[str], environment: Mapping[str, str]) -> None:
    """Refuse names of variables that are not set where a run's environment comes from."""
    missing = [name for name in names if name not in environment]
    if missing:
        what = "is" if len(missing) == 1 else "are"
        raise InvalidValue(
            f"{', '.join(missing)[:200]} {what} not set in this terminal", hint="export it, then run again"
        )


def revision(terms: Terms, session_id: str) -> Query:
    """Read the revision of the context: every change of it adds a field, so their number says it all."""
    return Query(("HLEN", terms.keys.of_session(session_id, "items")), int)


def was_called(terms: Terms, session_id: str, idempotency_key: str) -> Query:
    """Ask whether a call with this idempotency key was made before; one of a sequence may have been overtaken."""
    field = f"lane:{idempotency_key.partition(':')[0]}"
    return Query(("HEXISTS", terms.keys.of_session(session_id, "session"), field), lambda reply: bool(int(reply)))


def resting() -> tuple[str, ...]:
    """Return the states scripts choose from when the last open run has ended, in the order they take them."""
    return tuple(str(state) for state in RESTING)


def ending(now_ms: int, error: str, **fields: Any) -> bytes:
    """Write the end of a run that brought nothing more to say than why."""
    return msgspec.json.encode({"finished_at": iso(now_ms), "error": error, **fields})


def cancel_run(terms: Terms, stamp: Stamp, session_id: str, run_id: str) -> Call:
    """Cancel a run; the reply is `canceled`, or `running` when its owner has been asked to end it."""
    why = ending(stamp.now_ms, "canceled before it started")
    args = (stamp.idempotency_key, stamp.now_ms, terms.grace_ms, terms.user, *resting(), run_id, why)

    def read(reply: list[Any]) -> Any:
        word = text(reply[0])
        if word == "NO_RUN":
            raise RunNotFound(session_id, run_id)
        if word == "NOT_OPEN":
            raise RunIsOver(session_id, run_id, text(reply[1]))
        return accept(reply, session_id, "canceling a run")

    return Call(load("cancel_run"), terms.keys.session(session_id), args, read)


def read_run(terms: Terms, session_id: str, run_id: str) -> Query:
    names = _fields(run_id)

    def read(reply: list[bytes | None]) -> Run:
        stored = {name: value for name, value in zip(names, reply, strict=True) if value is not None}
        if run_id not in stored:
            raise RunNotFound(session_id, run_id)
        return run_of(stored, run_id)

    return Query(("HMGET", terms.keys.of_session(session_id, "runs"), *names), read)


def read_shown_run(terms: Terms, session_id: str, run_id: str, now_ms: int) -> Query:
    """Read one run: as it is shown, and, if that differs, as it is recorded."""
    names = [*_fields(run_id), *(f"{run_id}:{name}" for name in ("lease", "retries", "cancel"))]

    def read(reply: list[bytes | None]) -> tuple[Run, Run | None]:
        stored = {name: value for name, value in zip(names, reply, strict=True) if value is not None}
        if run_id not in stored:
            raise RunNotFound(session_id, run_id)
        found = run_of(stored, run_id)
        if not is_silent(stored, run_id, now_ms - terms.skew_ms):
            return found, None
        return shown(stored, run_id, now_ms - terms.skew_ms), found

    return Query(("HMGET", terms.keys.of_session(session_id, "runs"), *names), read)


def read_some(terms: Terms, session_id: str, first: int, last: int) -> Query:
    """Read the runs between two numbers, both included, oldest first."""
    ids = [f"{number:04d}" for number in range(first, last + 1)]
    names = [name for run_id in ids for name in _fields(run_id)]

    def read(reply: list[bytes | None]) -> list[Run]:
        stored = {name: value for name, value in zip(names, reply, strict=True) if value is not None}
        return [run_of(stored, run_id) for run_id in ids if run_id in stored]

    return Query(("HMGET", terms.keys.of_session(session_id, "runs"), *names), read)


def _fields(run_id: str) -> list[str]:
    return [run_id, *(f"{run_id}:{name}" for name in ("status", "started_at", "end", "usage"))]


def conversation_of(before: Run | None) -> str | None:
    """Return the tool's own id of the conversation a run had."""
    return before.usage.tool_session if before and before.usage else None


def seen_after(before: Run) -> tuple[str, ...]:
    """Return the digests of what a conversation was sent up to a run; one that failed may not have got it."""
    given = [*before.context_version, *before.parts]
    sent = [one["digest"] for one in given] if before.status == "success" else []
    return tuple(dict.fromkeys([*before.seen, *sent]))


def read_open(terms: Terms, session_id: str) -> Query:
    """Read the numbers of the runs that are not over."""

    def read(reply: list[bytes | None]) -> list[str]:
        state, found = reply
        if state is None:
            raise SessionNotFound(session_id)
        return text(found).split() if found else []

    return Query(("HMGET", terms.keys.of_session(session_id, "session"), "state", "open_runs"), read)


def read_last_output(terms: Terms, session_id: str) -> Query:
    """Read `outputs/last_output.json`: the newest successful run with output."""

    def read(reply: bytes | None) -> dict[str, Any] | None:
        return msgspec.json.decode(reply) if reply else None

    return Query(("HGET", terms.keys.of_session(session_id, "session"), "last_output"), read)


def output_range(terms: Terms, session_id: str, run_id: str) -> Query:
    """Read between which ids of the outputs stream a run's chunks lie; None when it printed nothing."""

    def read(reply: list[bytes | None]) -> tuple[str, str] | None:
        first, last = reply
        return (text(first), text(last)) if first and last else None

    key = terms.keys.of_session(session_id, "runs")
    return Query(("HMGET", key, f"{run_id}:first", f"{run_id}:last"), read)


def activity_range(terms: Terms, session_id: str, run_id: str) -> Query:
    """Read between which events what a run's agent did lies; None when it did nothing."""

    def read(reply: bytes | None) -> tuple[str, str] | None:
        if not reply:
            return None
        _, _, first, last = text(reply).split()
        return first, last

    return Query(("HGET", terms.keys.of_session(session_id, "runs"), f"{run_id}:did"), read)


#: Events read at a time when what an agent did is looked for.
ACTIVITY_PAGE = 500


def activity_page(terms: Terms, session_id: str, run_id: str, first: str, last: str) -> Query:
    """Read a page of what a run's agent did, and the id to go on after (None: that was all)."""

    def read(reply: list[Any]) -> tuple[list[Event], str | None]:
        events = [event_of("events", entry) for entry in reply]
        mine = [one for one in events if one.type == "run.activity" and one.data.get("run") == run_id]
        return mine, events[-1].id if len(events) == ACTIVITY_PAGE else None

    key = terms.keys.of_session(session_id, "events")
    return Query(("XRANGE", key, first, last, "COUNT", ACTIVITY_PAGE), read)


#: Chunks of output read at a time: enough for one round trip each megabyte, little enough to hold.
OUTPUT_PAGE = 8


def output_page(terms: Terms, session_id: str, run_id: str, first: str, last: str) -> Query:
    """Read a page of a run's chunks, and the id to go on after (None: that was all)."""

    def read(reply: list[Any]) -> tuple[list[bytes], str | None]:
        chunks = [fields[3] for _, fields in reply if text(fields[1]) == run_id]
        return chunks, text(reply[-1][0]) if len(reply) == OUTPUT_PAGE else None

    key = terms.keys.of_session(session_id, "outputs")
    return Query(("XRANGE", key, first, last, "COUNT", OUTPUT_PAGE), read)
