"""Calls on breadcrumbs: accept one, apply what was accepted, read both.

An entry of the breadcrumbs stream is the breadcrumb as JSON behind the few numbers that statistics need, so that
applying it reads no JSON but the count of tools. The cursor in the record says how far it has been applied.
"""

from __future__ import annotations

from typing import Any

import msgspec

from maestro_state.errors import InvalidValue
from maestro_state.models.message import id_order
from maestro_state.models.work import Accepted, Breadcrumb, WorkView, check_breadcrumb
from maestro_state.state.calls.replies import accept_work, text
from maestro_state.state.calls.terms import Stamp, Terms
from maestro_state.state.scripts import Call, Query, load
from maestro_state.work.stats import parts_of
from maestro_state.work.timeline import LogEntry

#: Breadcrumbs applied by one script call: a few milliseconds of the server's time.
BATCH = 200
#: Breadcrumbs read at a time.
PAGE = 1000

#: What a breadcrumb brings to the sums, besides its model and its tools.
_PLAIN_PARTS = ("depth", "day", "errors", "files", "cost_kind", "nano", "input", "output")

_decode = msgspec.json.Decoder(Breadcrumb).decode


def add_breadcrumb(terms: Terms, stamp: Stamp, work_id: str, crumb: Breadcrumb, *, source: str | None = None) -> Call:
    """Accept a breadcrumb; answers its entry id, whether it is new, and the summary when the index is due.

    One from the mailbox (`source`) is taken even if the work session ended since.
    """
    check_breadcrumb(crumb)
    try:
        body = msgspec.json.encode(crumb.document())
        parts = parts_of(crumb)
        fields: list[Any] = ["breadcrumb_id", crumb.breadcrumb_id, "model", parts.model.encode(),
                             "tools", msgspec.json.encode(parts.tools)]  # fmt: skip
        for name in _PLAIN_PARTS:
            fields += [name, getattr(parts, name)]
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidValue("the breadcrumb is not valid Unicode text and JSON", hint="send UTF-8") from error
    if len(body) > terms.max_value_bytes:
        raise InvalidValue(f"the breadcrumb is {len(body)} bytes; at most {terms.max_value_bytes} are kept")
    named = (source or "").encode("utf-8", "replace")
    if named:
        fields += ["source", named]
    args = (stamp.idempotency_key, stamp.now_ms, terms.grace_ms, terms.user, int(source is not None),
            crumb.breadcrumb_id, named, *fields, "body", body)  # fmt: skip

    def read(reply: list[Any]) -> tuple[str, bool, Any]:
        if text(reply[0]) == "DUPLICATE":
            return text(reply[1]).split(" ", 1)[0], False, None
        entry_id, summary = accept_work(reply, work_id, "adding a breadcrumb")
        return text(entry_id), True, summary

    return Call(load("add_breadcrumb"), terms.keys.work(work_id), args, read)


def known_breadcrumbs(terms: Terms, work_id: str, ids: list[str]) -> Query:
    """Read which ids were accepted before, and from which mailbox file: None, or its source (empty: no file)."""

    def read(reply: list[bytes | None]) -> list[str | None]:
        return [text(one).split(" ", 1)[1] if one else None for one in reply]

    return Query(("HMGET", terms.keys.of_work(work_id, "ids"), *ids), read)


def apply_breadcrumbs(terms: Terms, idempotency_key: str, work_id: str, limit: int) -> Call:
    """Apply the next breadcrumbs; answers how many there were, 0 when all are applied.

    Repeatable: whoever calls it, and however often, each breadcrumb is applied once. It is no activity: it happens
    at the time of the last one (0 is before every other), so that it prolongs no life and is not refused after its end.
    """
    args = (idempotency_key, 0, terms.grace_ms, terms.user, limit)
    return Call(load("apply_breadcrumbs"), terms.keys.work(work_id), args,
                lambda reply: accept_work(reply, work_id, "applying breadcrumbs"))  # fmt: skip


def read_page(terms: Terms, work: WorkView, after: str | None) -> Query:
    """Read breadcrumbs in the order they were accepted, after an entry."""
    start = f"({after}" if after else "-"
    applied_to = id_order(work.cursor)

    def read(reply: list[Any]) -> list[Accepted]:
        return [_accepted(work.id, entry, applied_to) for entry in reply]

    return Query(("XRANGE", terms.keys.of_work(work.id, "breadcrumbs"), start, "+", "COUNT", PAGE), read)


def read_one(terms: Terms, work: WorkView, entry_id: str) -> Query:
    """Read one breadcrumb by its entry."""
    key = terms.keys.of_work(work.id, "breadcrumbs")
    return Query(
        ("XRANGE", key, entry_id, entry_id),
        lambda reply: _accepted(work.id, reply[0], id_order(entry_id)) if reply else None,
    )


def _accepted(work_id: str, entry: list[Any], applied_to: tuple[int, int]) -> Accepted:
    entry_id, fields = text(entry[0]), entry[1]
    stored = {fields[at]: fields[at + 1] for at in range(0, len(fields), 2)}
    source = stored.get(b"source")
    return Accepted(
        session_id=work_id,
        entry_id=entry_id,
        breadcrumb=_decode(stored[b"body"]),
        applied=id_order(entry_id) <= applied_to,
        source=source.decode() if source else None,
    )


def read_totals(terms: Terms, work_id: str) -> Query:
    """Read the sums of a work session's applied breadcrumbs."""

    def read(reply: list[bytes]) -> dict[str, int]:
        return {text(name): int(value) for name, value in zip(reply[::2], reply[1::2], strict=True)}

    return Query(("HGETALL", terms.keys.of_work(work_id, "totals")), read)


def read_log(terms: Terms, work_id: str, after: str | None) -> Query:
    """Read a work session's log after an entry, or all of it."""
    start = f"({after}" if after else "-"
    command = ("XRANGE", terms.keys.of_work(work_id, "log"), start, "+")
    return Query(command, lambda reply: [_log_entry(entry) for entry in reply])


def last_logged(terms: Terms, work_id: str) -> Query:
    """Read the id of the last entry of the log; None before the first."""
    command = ("XREVRANGE", terms.keys.of_work(work_id, "log"), "+", "-", "COUNT", 1)
    return Query(command, lambda reply: text(reply[0][0]) if reply else None)


def _log_entry(entry: list[Any]) -> LogEntry:
    entry_id, fields = text(entry[0]), entry[1]
    data = {text(fields[at]): text(fields[at + 1]) for at in range(0, len(fields), 2)}
    return LogEntry(entry_id, id_order(entry_id)[0], data.pop("type"), data)


def wait_for_more(terms: Terms, work_id: str, accepted: str, logged: str, block_ms: int) -> tuple[Any, ...]:
    """Return the command that waits until something is accepted or logged after these entries."""
    keys = [terms.keys.of_work(work_id, name) for name in ("breadcrumbs", "log")]
    return ("XREAD", "COUNT", 1, "BLOCK", block_ms, "STREAMS", *keys, accepted, logged)
