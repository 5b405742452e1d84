"""Calls of adapters: which session a framework's key is bound to, and what a framework writes, keeps and takes back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from maestro_state.errors import Conflict, InvalidValue
from maestro_state.models.binding import Bound
from maestro_state.models.names import is_session_id
from maestro_state.state.calls.messages import message_parts
from maestro_state.state.calls.replies import accept, text, word_of
from maestro_state.state.calls.terms import Stamp, Terms
from maestro_state.state.calls.values import check_size
from maestro_state.state.scripts import Call, Query, load

#: Largest value under a name, in bytes: a line of the archive holds it, in base64. What is set is smaller by far.
KEPT_MAX = 64 << 20
#: Names looked at by one step of a scan.
SCANNED = 20_000


class BoundTo(NamedTuple):
    """What a key is bound to."""

    session_id: str
    is_begun: bool  #: False while it may be that nobody has made the session yet


def read_binding(terms: Terms, bound: Bound) -> Query:
    """Ask which session a key is bound to."""
    return Query(("GET", *terms.keys.binding(bound.digest)), _bound_to)


def _bound_to(reply: bytes | None) -> BoundTo | None:
    session_id, _, begun = ("" if reply is None else text(reply)).partition(" ")
    return BoundTo(session_id, bool(begun)) if is_session_id(session_id) else None


def bind_session(
    terms: Terms,
    bound: Bound,
    session_id: str,
    ttl_ms: int,
    *,
    is_begun: bool = False,
    instead_of: str = "",
    only_moves: bool = False,
) -> Call:
    """Bind a key unless it is bound to another than `instead_of`, or to nothing and this `only_moves` it.

    Returns what it is bound to then.
    """
    # As long as keys live that no disk has yet: the longest that anything of the session may be there.
    life_ms = ttl_ms + terms.grace_ms
    args = (session_id, "begun" if is_begun else "", life_ms, instead_of, "only" if only_moves else "")

    def read(reply: list[Any]) -> BoundTo:
        return BoundTo(text(reply[1]), bool(reply[2]))

    return Call(load("bind_session"), terms.keys.binding(bound.digest), args, read)


def unbind_session(terms: Terms, bound: Bound, session_id: str) -> Call:
    """Let go of a key, if it is bound to this session; words: OK, OTHER."""
    keys = terms.keys.binding(bound.digest)
    return Call(load("unbind_session"), keys, (session_id,), word_of)


class Entries:
    """What a framework writes in one step, in the order it is to be read again; nothing is done before it is sent."""

    def __init__(self) -> None:
        self._expected: list[Any] = []
        self._parts: list[Any] = []

    def _add(self, kind: str, *values: Any) -> Entries:
        self._parts += [kind, len(values), *values]
        return self

    def message(self, role: str, content: str, **parts: Any) -> Entries:
        """Say something; `parts` as `messages.add` takes them."""
        fields, _ = message_parts(role, content, parts)
        return self._add("message", *fields)

    def event(self, kind: str, **data: str) -> Entries:
        """Tell followers of something that happened."""
        return self._add("event", "type", kind, *(part for pair in data.items() for part in pair))

    def once(self, name: str) -> Entries:
        """Leave the next part out if this name was given before, in this session or in this step."""
        return self._add("once", name)

    def set(self, name: str, value: bytes | str) -> Entries:
        """Keep a value under a name."""
        return self._add("set", name, value)

    def first(self, name: str, value: bytes | str) -> Entries:
        """Keep a value under a name that has none yet."""
        return self._add("first", name, value)

    def append(self, name: str, value: bytes) -> Entries:
        """Add to the end of the value under a name; refused where that would be more than there can be."""
        self._expected += ["room", 2, name, KEPT_MAX - len(value)]
        return self._add("append", name, value)

    def highest(self, name: str, value: bytes | str) -> Entries:
        """Keep a value under a name unless a higher one is there, by their bytes."""
        return self._add("highest", name, value)

    def here(self, prefix: str, suffix: str, value: bytes | str) -> Entries:
        """Keep a value under a name with the id of the last entry before this step in it: its place in the record."""
        return self._add("here", prefix, suffix, value)

    def drop(self, name: str) -> Entries:
        """Keep nothing under a name any more."""
        return self._add("drop", name)

    def clear(self) -> Entries:
        """Take back every message that was there before this step."""
        return self._add("clear")

    def retract(self, message_id: str) -> Entries:
        """Take back one message."""
        return self._add("retract", message_id)

    def expect(self, name: str, value: bytes | str | None) -> Entries:
        """Do nothing at all unless this is what is kept under a name; None is nothing. Raises Conflict then."""
        self._expected += ["expect", 2, name, "" if value is None else value]
        return self

    def and_then(self, others: Entries) -> Entries:
        """Do in the same step what others say, after this."""
        self._expected += others._expected
        self._parts += others._parts
        return self

    def words(self, most: int) -> list[Any]:
        """Return what the script reads; no value that is to be kept may have more than so many bytes."""
        return [*(_word(word) for word in self._expected), *(_word(word, most) for word in self._parts)]


def add_entries(terms: Terms, stamp: Stamp, session_id: str, entries: Entries) -> Call:
    """Write all of it in one step; returns the id of the last entry."""
    words = entries.words(min(terms.max_value_bytes, KEPT_MAX))
    args = (stamp.idempotency_key, stamp.now_ms, terms.grace_ms, terms.user, len(words), *words)

    def read(reply: list[Any]) -> Any:
        if text(reply[0]) == "STALE":
            raise Conflict(f"somebody wrote to session {session_id} first: {text(reply[1])[:80]} is another by now")
        if text(reply[0]) == "FULL":
            raise InvalidValue(f"what is kept as {text(reply[1])[:80]} would be more than {KEPT_MAX} bytes")
        return accept(reply, session_id, "writing to it")

    return Call(load("add_entries"), terms.keys.session(session_id), args, read)


def _word(word: Any, most: int | None = None) -> Any:
    if isinstance(word, str):
        if word.isascii():
            return word
        try:
            return word.encode()
        except UnicodeEncodeError as error:
            raise InvalidValue("what is to be kept has a name that is not valid Unicode text") from error
    return check_size("what is to be kept", word, most) if most is not None and isinstance(word, bytes) else word


def retract_last(terms: Terms, stamp: Stamp, session_id: str) -> Call:
    """Take the newest message back; returns its id, an empty one when there is none."""
    args = (stamp.idempotency_key, stamp.now_ms, terms.grace_ms, terms.user)
    return Call(load("retract_last"), terms.keys.session(session_id), args,
                lambda reply: accept(reply, session_id, "taking a message back"))  # fmt: skip


def read_kept(terms: Terms, session_id: str, names: Iterable[str]) -> Query:
    """Read what a framework keeps under some names, in their order."""
    return Query(("HMGET", terms.keys.of_session(session_id, "kept"), *names), lambda reply: reply)


def read_kept_of(terms: Terms, ids: Iterable[str], names: Sequence[str]) -> list[Query]:
    """Read what is kept under some names in several sessions: names with values, of those that there are."""

    def read(reply: list[Any]) -> dict[str, bytes]:
        found = dict(zip(names, reply, strict=True))
        return {name: value for name, value in found.items() if value is not None} if None in reply else found

    return [Query(("HMGET", key, *names), read) for key in terms.keys.of_sessions(ids, "kept")]


def scan_kept(terms: Terms, session_id: str, prefix: str, cursor: int = 0) -> Query:
    """Read a part of what is kept under names with a prefix: where to go on, 0 at the end, and names with values."""
    pattern = "".join(f"[{char}]" if char in "*?[" else char for char in prefix) + "*"

    def read(reply: list[Any]) -> tuple[int, dict[str, bytes]]:
        after, rows = reply
        return int(after), {text(name): value for name, value in zip(rows[::2], rows[1::2], strict=True)}

    key = terms.keys.of_session(session_id, "kept")
    return Query(("HSCAN", key, cursor, "MATCH", pattern, "COUNT", SCANNED), read)


def kept_names(terms: Terms, session_id: str) -> Query:
    """Read the names under which a framework keeps something."""
    return Query(("HKEYS", terms.keys.of_session(session_id, "kept")), lambda reply: [text(name) for name in reply])
