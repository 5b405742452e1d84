"""Calls on discussions: start, add an event, finish, read. What lies on disk is in `mirror`."""

from __future__ import annotations

from typing import Any

import msgspec

from maestro_state.errors import InvalidValue
from maestro_state.models import strict_json
from maestro_state.models.contracts import CONTRACTS, validate
from maestro_state.models.discussion import (
    ASSISTANT,
    FINAL,
    KINDS,
    USER,
    Context,
    Meta,
    TranscriptEvent,
    check_event,
    id_after,
    meta_document,
    micros_of,
    micros_of_id,
    text_of,
)
from maestro_state.models.schema import check
from maestro_state.state.calls.replies import discussion_refusal, text, word_of
from maestro_state.state.calls.terms import Stamp, Terms
from maestro_state.state.scripts import Call, Query, load
from maestro_state.vocabulary import DiscussionStatus

#: Who may speak in a discussion → the event it makes.
ROLES = {"user": USER, "assistant": ASSISTANT}


class Row(msgspec.Struct, frozen=True):
    """One discussion of a list."""

    meta: Meta
    live: bool  #: whether the server has it

    def document(self) -> dict[str, Any]:
        """Return the row `discuss list` prints."""
        return meta_document(self.meta) | {"live": self.live}


class Listing(msgspec.Struct, frozen=True):
    """Every discussion there is, last changed first, and the folders that cannot be read."""

    rows: list[Row]
    damaged: dict[str, str]


class Live(msgspec.Struct, frozen=True):
    """A discussion as the server has it."""

    meta: Meta
    last_activity: int
    ttl_ms: int


def new_meta(
    discussion_id: str, now_ms: int, *, kind: str, ref: str | None, contract: str | None, reason: str | None,
    engine: str, model: str,
) -> Meta:  # fmt: skip
    """Return the record of a new discussion; without a contract its kind says which, and global is for the rest."""
    if kind not in KINDS:
        raise InvalidValue(f"'{kind[:40]}' is not what a discussion is about", hint=f"one of {', '.join(KINDS)}")
    contract = contract or (kind if kind in CONTRACTS else "global")
    if contract not in CONTRACTS:
        raise InvalidValue(f"'{contract[:40]}' is not a contract", hint=f"one of {', '.join(CONTRACTS)}")
    for name, value in (("ref", ref or ""), ("reason", reason or ""), ("engine", engine), ("model", model)):
        if not strict_json.is_text(value) or len(value) > 1000:
            raise InvalidValue(f"{name} must be text of at most 1000 characters")
    why = reason or (f"{kind} {ref} was named" if ref else "no context was named" if kind == "global" else
                     f"{kind} was named")  # fmt: skip
    now = text_of(now_ms * 1000)
    return Meta(
        session_id=discussion_id,
        context=Context(kind, ref, why),
        contract_type=contract,
        created_at=now,
        updated_at=now,
        engine=engine,
        model=model,
    )


def start_discussion(terms: Terms, stamp: Stamp, meta: Meta, *, after_micros: int | None) -> Call:
    """Make a discussion, or take one up from disk: its next events come after `after_micros`.

    Returns whether it was made: False when the server has it alive.
    """
    now_micros = max(stamp.now_ms * 1000, after_micros or 0)
    fields = {
        "user_id": terms.user,
        "context": msgspec.json.encode(meta.context),
        "contract_type": meta.contract_type,
        "engine": meta.engine,
        "model": meta.model,
        "initial_prompt": meta.initial_prompt.encode("utf-8", "replace"),
    }
    present = [part for name, value in fields.items() if value for part in (name, value)]
    args = (stamp.idempotency_key, stamp.now_ms, terms.grace_ms, str(DiscussionStatus.OPEN), terms.ttl_ms,
            micros_of(meta.created_at), id_after(now_micros), *present)  # fmt: skip

    def read(reply: list[Any]) -> bool:
        if text(reply[0]) == "NEWER":
            raise discussion_refusal("NEWER", reply[1:], meta.session_id, "starting it")
        return text(reply[0]) == "OK"

    return Call(load("start_discussion"), terms.keys.discussion(meta.session_id), args, read)


def message_event(terms: Terms, role: str, content: str, model: str | None) -> tuple[str, dict[str, Any]]:
    """Return type and payload of something said; raise InvalidValue for what cannot be."""
    if role not in ROLES:
        raise InvalidValue(f"'{role[:40]}' is not a role of a discussion", hint=f"one of {', '.join(ROLES)}")
    if not strict_json.is_text(content):
        raise InvalidValue("the message is not valid Unicode text", hint="send UTF-8")
    if len(content.encode()) > terms.max_value_bytes:
        raise InvalidValue(f"the message is {len(content.encode())} bytes; at most {terms.max_value_bytes} are kept")
    if model is not None and (role != "assistant" or not strict_json.is_text(model)):
        raise InvalidValue("only a message of the assistant has a model")
    return ROLES[role], {"content": content} | ({"model": model} if model else {})


def add_event(
    terms: Terms, stamp: Stamp, discussion_id: str, kind: str, payload: dict[str, Any], engine: str | None = None
) -> Call:
    """Append one event to an open discussion; `engine` is the tool that said it."""
    prompt = payload["content"] if kind == USER else ""
    args = (stamp.idempotency_key, stamp.now_ms, terms.grace_ms, terms.user, kind, _stored(payload), prompt,
            engine or "", payload.get("model", "default"))  # fmt: skip
    return _call("add_discussion_event", terms, discussion_id, args, "saying something")


def finish_discussion(terms: Terms, stamp: Stamp, meta: Meta, payload: Any) -> Call:
    """Append the final JSON, which must keep to the discussion's contract, and close."""
    validate(meta.contract_type, payload)
    stored = _stored(payload)
    if len(stored) > terms.max_value_bytes:
        raise InvalidValue(f"the final JSON is {len(stored)} bytes; at most {terms.max_value_bytes} are kept")
    args = (
        stamp.idempotency_key,
        stamp.now_ms,
        terms.grace_ms,
        terms.user,
        str(DiscussionStatus.CLOSED),
        FINAL,
        stored,
    )
    return _call("finish_discussion", terms, meta.session_id, args, "finishing it")


def _stored(payload: dict[str, Any]) -> bytes:
    return strict_json.line(payload).rstrip()


def _call(name: str, terms: Terms, discussion_id: str, args: tuple[Any, ...], action: str) -> Call:
    def read(reply: list[Any]) -> tuple[str, list[Any] | None]:
        word = text(reply[0])
        if word != "OK":
            raise discussion_refusal(word, reply[1:], discussion_id, action)
        return text(reply[1]), reply[2]

    return Call(load(name), terms.keys.discussion(discussion_id), args, read)


def read_discussion(terms: Terms, discussion_id: str) -> Query:
    """Read the record the server has; None when it has none."""
    key = terms.keys.discussion(discussion_id)[0]
    return Query(("HGETALL", key), lambda reply: _live(discussion_id, reply))


def _live(discussion_id: str, reply: list[bytes]) -> Live | None:
    stored = {text(name): value for name, value in zip(reply[::2], reply[1::2], strict=True)}
    check(f"discussion {discussion_id}", stored.get("schema"))
    if "state" not in stored:
        return None
    is_closed = text(stored["state"]) == DiscussionStatus.CLOSED
    meta = Meta(
        session_id=discussion_id,
        context=msgspec.json.decode(stored["context"], type=Context),
        contract_type=text(stored["contract_type"]),
        created_at=text_of(int(stored["created_at"])),
        updated_at=text_of(micros_of_id(text(stored["last_id"]))),
        status=text(stored["state"]),
        final_json_present=is_closed,
        engine=text(stored.get("engine", b"")),
        model=text(stored.get("model", b"")),
        initial_prompt=text(stored.get("initial_prompt", b"")),
    )
    return Live(meta, int(stored["last_activity"]), int(stored["ttl_ms"]))


def events_after(terms: Terms, discussion_id: str, after_micros: int | None) -> Query:
    """Read the events the server has after a time, all of them for None."""
    start = "-" if after_micros is None else f"({id_after(after_micros)}"
    return Query(("XRANGE", terms.keys.discussion(discussion_id)[1], start, "+"), _events)


def _events(reply: list[Any]) -> list[TranscriptEvent]:
    return [_event(entry_id.decode(), fields) for entry_id, fields in reply]


def _event(entry_id: str, fields: list[bytes]) -> TranscriptEvent:
    stored = dict(zip(fields[::2], fields[1::2], strict=True))
    return check_event(text_of(micros_of_id(entry_id)), text(stored[b"type"]), strict_json.read(stored[b"payload"]))


def event_at(entry_id: str, kind: str, payload: dict[str, Any]) -> TranscriptEvent:
    """Return an event that was just appended."""
    return TranscriptEvent(text_of(micros_of_id(entry_id)), kind, payload)


def index_discussion(terms: Terms, discussion_id: str, last_activity: int, ttl_ms: int) -> Call:
    """Put a discussion on the list of open ones."""
    args = (discussion_id, last_activity, ttl_ms + terms.grace_ms)
    return Call(load("index_discussion"), terms.keys.discussion_index, args, word_of)


def forget_discussions(terms: Terms, discussion_ids: list[str]) -> Call:
    """Take discussions off the list of open ones."""
    args = tuple(discussion_ids)
    return Call(load("forget_discussion"), terms.keys.discussion_index, args, word_of)


def open_discussions(terms: Terms) -> Query:
    """Read the ids on the list of open ones, last active first; some may be gone."""
    command = ("ZREVRANGE", terms.keys.discussion_index[0], 0, 999)
    return Query(command, lambda reply: [text(one) for one in reply])
