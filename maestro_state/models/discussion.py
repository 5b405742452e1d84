"""The events of a discussion and the record beside them, as values, and the bytes of `transcript.jsonl`.

Times are text without a zone, with microseconds, in UTC: `2026-11-16T02:00:00.123456`. An event said on the server
carries its stream id in it (milliseconds and sequence), so that the last line of a file says where to go on.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from maestro_state.models import strict_json

USER, ASSISTANT, FINAL, REPLAY, ERROR = "user_message", "assistant_message", "final_json", "replay_run", "error"

#: What a discussion may be about.
KINDS = ("task", "phase", "track", "repo", "issues", "runbook", "workflow", "solutions", "global")

#: Event type → fields its payload must have, and their types.
PAYLOADS: dict[str, dict[str, type]] = {
    USER: {"content": str},
    ASSISTANT: {"content": str},
    FINAL: {},  # its content is the contract's business
    REPLAY: {"dry_run": bool, "result": str, "ops_count": int},
    ERROR: {"message": str},
}

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - the format's times have no zone
_FIELDS = {"ts", "type", "payload"}


class TranscriptEvent(msgspec.Struct, frozen=True):
    """One line of a transcript."""

    ts: str
    type: str
    payload: dict[str, Any]


class Context(msgspec.Struct, frozen=True):
    """What a discussion is about, and why that was chosen."""

    kind: str = "global"
    ref: str | None = None
    router_reason: str = ""


class Meta(msgspec.Struct, frozen=True, kw_only=True):
    """The record of a discussion: `meta.json`."""

    session_id: str
    context: Context = Context()
    contract_type: str = "global"
    created_at: str
    updated_at: str
    status: str = "open"  #: open or closed
    final_json_present: bool = False
    engine: str = "none"
    model: str = "default"
    initial_prompt: str = ""


class Damage(msgspec.Struct, frozen=True):
    """A line that cannot be read."""

    line: int  #: counted from 1
    reason: str


class Transcript(msgspec.Struct, frozen=True):
    """What a transcript's bytes hold: every event that can be read, and what cannot."""

    events: tuple[TranscriptEvent, ...] = ()
    torn: str | None = None  #: the last line, when its writer did not finish it
    damaged: tuple[Damage, ...] = ()

    @property
    def finals(self) -> list[TranscriptEvent]:
        """Return the final_json events: none yet, or one."""
        return [event for event in self.events if event.type == FINAL]


class Discussion(msgspec.Struct, frozen=True, kw_only=True):
    """A discussion from whichever format it was read."""

    meta: Meta
    transcript: Transcript
    source: str = "canonical"  #: canonical, artifact or work_session
    path: str = ""  #: where it was read

    def document(self) -> dict[str, Any]:
        """Return the record with its events, as `discuss show` prints it."""
        events = [msgspec.structs.asdict(event) for event in self.transcript.events]
        shown = meta_document(self.meta) | {"events": events}
        return shown | ({"warnings": warned} if (warned := self.warnings()) else {})

    def warnings(self) -> list[str]:
        """Say what of the transcript could not be read."""
        found = [f"line {one.line} is damaged: {one.reason}" for one in self.transcript.damaged]
        return [*found, *([TORN] if self.transcript.torn is not None else [])]


TORN = "the last line was not finished by its writer and is skipped"


def text_of(micros: int) -> str:
    """Write microseconds since the epoch in the format's form."""
    return (_EPOCH + timedelta(microseconds=micros)).isoformat(timespec="microseconds")


def micros_of(text: str) -> int:
    """Read a time of the format; a time with a zone is moved to UTC. Raise ValueError for what is none."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is not None:
        moment = moment.astimezone(UTC).replace(tzinfo=None)
    return (moment - _EPOCH) // timedelta(microseconds=1)


def micros_of_id(entry_id: str) -> int:
    """Return the time of a stream id: its sequence, which the scripts keep below 1000, are the microseconds."""
    ms, _, sequence = entry_id.partition("-")
    return int(ms) * 1000 + int(sequence or 0)


def id_after(micros: int) -> str:
    """Return the stream id that an event of this time has."""
    return f"{micros // 1000}-{micros % 1000}"


def line_of(event: TranscriptEvent) -> bytes:
    """Write one event as a line."""
    return strict_json.line({"ts": event.ts, "type": event.type, "payload": event.payload})


def meta_document(meta: Meta) -> dict[str, Any]:
    """Return the record as a document, in the order the format has."""
    return msgspec.structs.asdict(meta) | {"context": msgspec.structs.asdict(meta.context)}


def read_meta(content: bytes) -> Meta:
    """Read `meta.json`; fields it does not have get their defaults. Raise ValueError for what is none."""
    document = strict_json.read(content)
    try:
        meta = msgspec.convert(document, Meta)
        micros_of(meta.created_at)
        micros_of(meta.updated_at)
    except (msgspec.ValidationError, OverflowError) as error:
        raise ValueError(str(error)) from error
    return meta


def read_event(line: bytes) -> TranscriptEvent:
    """Read one line; raise ValueError that says what is wrong with it."""
    document = strict_json.read(line)
    if not isinstance(document, dict) or set(document) != _FIELDS:
        raise ValueError("not an object of ts, type and payload")
    return check_event(document["ts"], document["type"], document["payload"])


def check_event(ts: Any, kind: Any, payload: Any) -> TranscriptEvent:
    """Make an event of parts from outside; raise ValueError for what is none."""
    if not isinstance(kind, str) or kind not in PAYLOADS:
        raise ValueError(f"{kind!r:.60} is not a type of event")
    if not isinstance(ts, str):
        raise ValueError("ts is not text")
    try:
        micros_of(ts)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{ts[:40]!r} is not a time") from error
    if not isinstance(payload, dict):
        raise ValueError(f"the payload of {kind} is not an object")
    for name, wanted in PAYLOADS[kind].items():
        if type(payload.get(name)) is not wanted:
            raise ValueError(f"{kind} needs {name}")
    return TranscriptEvent(ts, kind, payload)


def read_transcript(content: bytes) -> Transcript:
    """Read a transcript. Its last line may be torn; any other that cannot be read is named."""
    events, damaged, torn = [], [], None
    lines = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    last = max((number for number, line in enumerate(lines, start=1) if line.strip()), default=0)
    for number, line in enumerate(lines[:last], start=1):
        if not line.strip():
            continue
        try:
            events.append(read_event(line))
        except ValueError as error:
            if number == last and not strict_json.is_whole(line):
                torn = line.decode("utf-8", "backslashreplace")
            else:
                damaged.append(Damage(number, str(error)))
    return Transcript(tuple(events), torn, tuple(damaged))


def conversation(events: Sequence[TranscriptEvent]) -> str:
    """Return what was said, and by whom, as a tool is handed it."""
    who = {USER: "User", ASSISTANT: "Assistant"}
    turns = [f"{who[event.type]}: {event.payload['content']}" for event in events if event.type in who]
    return "\n\n".join(turns)
