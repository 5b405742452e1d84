"""Calls on the index that spans sessions: summaries to list from, deadlines, what is not on disk yet."""

from __future__ import annotations

from bisect import insort_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeVar

import msgspec

from maestro_state.clock import iso
from maestro_state.models.binding import Bound, pair_of
from maestro_state.models.message import id_order
from maestro_state.models.names import is_session_id, slug_of
from maestro_state.models.session import SessionSummary
from maestro_state.models.undecodable import UNDECODABLE
from maestro_state.state.calls.replies import word_of
from maestro_state.state.calls.terms import Terms
from maestro_state.state.keys import named, shard_of
from maestro_state.state.scripts import Call, Query, load
from maestro_state.vocabulary import SessionState, liveness

if TYPE_CHECKING:
    StateWord = str
else:
    #: A state's word is one object for all rows that have it: a text for each would cost a list a tenth more.
    StateWord = Literal[tuple(str(state) for state in SessionState)]


#: The last moment that has a date.
_LAST_MS = 253_402_300_799_000
Ms = Annotated[int, msgspec.Meta(ge=0, le=_LAST_MS)]
MsFloat = Annotated[float, msgspec.Meta(ge=0, le=_LAST_MS)]

Row = TypeVar("Row")


class IndexEntry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A summary as the index stores it; `last_id` first, because index_session.lua compares it."""

    last_id: str
    id: str
    state: str
    created_ms: Ms
    last_activity_ms: (
        MsFloat  #: whole; lists are sorted by it, which takes half the time of an int too long for one word
    )
    ttl_ms: Ms
    user_id: str
    tool_active: str | None
    frozen_ms: Ms | None
    archived_id: str | None
    bound: tuple[str, str] | None = (
        None  #: kind and key of what it is bound to; few rows have it, the others end before
    )


Entry = TypeVar("Entry", bound=IndexEntry)


class View(NamedTuple):
    """From where a list is looked at: what rows show besides what the index has."""

    now_ms: int
    idle_after_ms: int
    active: str | None  #: the checkout's active session


class LiveSummary(SessionSummary, IndexEntry, frozen=True, array_like=True, gc=False):
    """A row of a list as the index stores it: ten thousand cost one decode, and what they show costs who looks."""

    state: StateWord
    view: View = View(0, 0, None)  #: given to each row right after decoding

    @property
    def bound_to(self) -> Bound | None:
        """The framework's key it is bound to."""
        return Bound(*self.bound) if self.bound else None

    @property
    def slug(self) -> str:
        """The name half of its id."""
        return slug_of(self.id)

    @property
    def status(self) -> str:
        """How alive it was when the list was made."""
        return liveness(self.state, int(self.last_activity_ms), self.ttl_ms, self.view.idle_after_ms, self.view.now_ms)

    @property
    def created_at(self) -> str:
        """When it was started."""
        return iso(self.created_ms)

    @property
    def updated_at(self) -> str:
        """When anything last happened in it."""
        return iso(int(self.last_activity_ms))

    @property
    def finalized_at(self) -> str | None:
        """When it was ended."""
        return iso(self.frozen_ms) if self.frozen_ms and self.state == SessionState.FINALIZED else None

    @property
    def active(self) -> bool:
        """Tell whether it is the checkout's active one."""
        return self.id == self.view.active

    @property
    def archived(self) -> bool:
        """Tell whether it is only on disk: what the index of the server has is not."""
        return False

    @property
    def orphan(self) -> bool:
        """Tell whether index and disk disagree about it."""
        return False


class OddSummary(LiveSummary, frozen=True, array_like=True, gc=False):
    """A row whose state may be one that only newer programs know."""

    state: str


_decode = msgspec.json.Decoder(IndexEntry).decode_lines
_decode_rows = msgspec.json.Decoder(LiveSummary).decode_lines
_decode_odd = msgspec.json.Decoder(OddSummary).decode_lines
_encode = msgspec.json.encode
_set = msgspec.structs.force_setattr

#: Finding the place of one archived row among live ones costs about as many text dates as this.
_PLACE_COST = 16


def entry_of(session_id: str, summary: list[Any]) -> IndexEntry:
    """Read what includes/summary.lua answers."""
    last_id, state, created_at, last_activity, ttl_ms, user_id, tool, frozen_at, archived_id, stored = summary
    return IndexEntry(
        last_id=last_id.decode(),
        id=session_id,
        state=state.decode(),
        created_ms=int(created_at),
        last_activity_ms=int(last_activity),
        ttl_ms=int(ttl_ms),
        user_id=(user_id or b"").decode(),
        tool_active=tool.decode() if tool else None,
        frozen_ms=int(frozen_at) if frozen_at else None,
        archived_id=archived_id.decode() if archived_id else None,
        bound=pair_of(stored) if stored else None,
    )


def _row(entry: IndexEntry) -> bytes:
    """Write a row; what is bound to nothing is written as it always was."""
    return _encode(entry if entry.bound else msgspec.structs.astuple(entry)[:-1])


def index_session(terms: Terms, entry: IndexEntry, *, is_on_disk: bool = False) -> Call:
    """Write a summary; an older one than the index has is dropped by the script.

    `is_on_disk` says that all but the newest changes were just written: those wait since now.
    """
    is_dirty = entry.last_id != entry.archived_id
    args = (
        entry.id,
        entry.last_id,
        _row(entry),
        entry.last_activity_ms,
        entry.last_activity_ms + entry.ttl_ms,
        "anew" if is_dirty and is_on_disk else int(is_dirty),
        entry.ttl_ms + terms.grace_ms,
        int(entry.state == SessionState.RUNNING),
    )
    return Call(load("index_session"), terms.keys.index(entry.id), args, word_of)


def in_index(call: Call, index: tuple[str, ...]) -> Call:
    """Have a call on a session's shard made on another index."""
    return Call(call.script, index, call.args, call.read)


def read_summary(terms: Terms, session_id: str) -> Query:
    """Read what includes/summary.lua would answer; None when the session is gone, or not complete yet."""
    fields = ("last_id", "state", "created_at", "last_activity", "ttl_ms", "user_id", "tool_active", "frozen_at",
              "archived_id", "bound", "filling")  # fmt: skip
    command = ("HMGET", terms.keys.of_session(session_id, "session"), *fields)
    return Query(command, lambda reply: reply[:-1] if reply[0] and not reply[-1] else None)


def of_shards(ids: Iterable[str]) -> dict[int, list[str]]:
    """Group ids by the shard of the index they are in."""
    found: dict[int, list[str]] = {}
    for one in ids:
        found.setdefault(shard_of(one), []).append(one)
    return found


def read_rows(terms: Terms, ids: Iterable[str], *names: str) -> list[Query]:
    """Read what the index has of some sessions, as id → its rows in the keys of these names, summaries first."""

    def query(keys: tuple[str, ...], name: str, some: list[str]) -> Query:
        command = "HMGET" if name == "summaries" else "ZMSCORE"
        return Query((command, named(keys, name), *some), lambda reply: dict(zip(some, reply, strict=True)))

    shards = of_shards(ids).items()
    return [query(terms.keys.shards[shard], name, some) for name in ("summaries", *names) for shard, some in shards]


def forget_session(terms: Terms, session_id: str | bytes) -> Call:
    """Take a session out of the index, or what stands in its place."""
    return forget_in(terms.keys.index(session_id), session_id)


def forget_in(index: tuple[str, ...], session_id: str | bytes) -> Call:
    """Take a session, or what stands in its place, out of a certain shard, or of the earlier index."""
    return Call(load("forget_session"), index, (session_id,), word_of)


def recount_states(terms: Terms) -> list[Call]:
    """Count anew how many sessions are in each state, shard by shard."""
    return [Call(load("recount_states"), shard, (), word_of) for shard in terms.keys.shards]


def session_ids(members: list[bytes]) -> list[str]:
    """Return the members of a list of sessions that are ids: whatever else somebody put there stops nobody."""
    return [name for name in (member.decode(errors="replace") for member in members) if is_session_id(name)]


def _joined(values: Sequence[bytes | None]) -> bytes:
    # One decode for all rows: a tenth of the cost of decoding them one by one.
    return b"\n".join(filter(None, values))


class Listed(NamedTuple):
    """Rows as the index has them, and those among them that the server may have let go."""

    rows: list[LiveSummary]
    doubtful: list[LiveSummary]  #: their time is over, or all of them is on disk


def _listed(values: Sequence[bytes | None], view: View) -> Listed:
    joined = _joined(values)
    try:
        rows = _decode_rows(joined)
    except UNDECODABLE:
        rows = [*_each(values, _decode_odd)]
    # Both in one pass: rows just decoded are in no cache, so each pass over all of them costs as much as decoding.
    doubtful, now_ms = [], view.now_ms
    for row in rows:
        _set(row, "view", view)
        if row.archived_id == row.last_id or row.last_activity_ms + row.ttl_ms <= now_ms:
            doubtful.append(row)
    return Listed(rows, doubtful)


def rows_of(values: list[bytes | None], view: View) -> list[LiveSummary]:
    """Read rows of a list, those that are damaged left out."""
    return _listed(values, view).rows


def _each(values: Sequence[bytes | None], decode: Callable[[bytes], list[Row]]) -> Iterator[Row]:
    """Decode rows one by one, those that are none left out: one damaged row must not hide the others."""
    for value in filter(None, values):
        with suppress(*UNDECODABLE):
            yield from decode(value)


def entries_of(values: Sequence[bytes | None]) -> list[IndexEntry]:
    """Read rows of the index, those that are damaged left out."""
    try:
        return _decode(_joined(values))
    except UNDECODABLE:
        return [*_each(values, _decode)]


def all_rows(terms: Terms) -> list[Query]:
    """Read every summary, a reply for each shard. Grows with the number of sessions: one write, then one decode."""
    return [Query(("HVALS", key), list) for key in terms.keys.all_of("summaries")]


def all_sessions(replies: Sequence[list[bytes]]) -> list[IndexEntry]:
    """Return what `all_rows` found, in no order."""
    *shards, earlier = replies
    entries = entries_of([*chain.from_iterable(shards)])
    return _newest_of(entries, entries_of(earlier)) if earlier else entries


def list_sessions(replies: Sequence[list[bytes]], view: View) -> Listed:
    """Return what `all_rows` found as rows of a list, in no order; costs what `all_sessions` does."""
    *shards, earlier = replies
    listed = _listed([*chain.from_iterable(shards)], view)
    if not earlier:
        return listed
    before = _listed(earlier, view)
    rows = _newest_of(listed.rows, before.rows)
    # What only the earlier index has may have been forgotten elsewhere long ago.
    shown, known = {row.id for row in rows}, {row.id for row in listed.rows}
    doubtful = {row.id: row for row in (*before.doubtful, *listed.doubtful) if row.id in shown}
    doubtful |= {row.id: row for row in before.rows if row.id not in known}
    return Listed(rows, [*doubtful.values()])


def _newest_of(entries: list[Entry], earlier: list[Entry]) -> list[Entry]:
    """Return one row of each session: while earlier versions run, either index may be behind."""
    found = {entry.id: entry for entry in entries}
    for entry in earlier:
        known = found.get(entry.id)
        if known is None or is_behind(known.last_id, entry.last_id):
            found[entry.id] = entry
    return [*found.values()]


def is_behind(last_id: str, other: str) -> bool:
    """Tell whether a row that goes as far as `last_id` is older than another; one that says nonsense is."""
    try:
        return id_order(last_id) < id_order(other)
    except ValueError:
        return True


def running_sessions(terms: Terms) -> list[Query]:
    """Read the ids of sessions with open runs; costs what those cost, however many sessions there are."""
    return [Query(("ZRANGE", key, 0, -1), session_ids) for key in terms.keys.all_of("running")]


def count_sessions(terms: Terms) -> Query:
    """Ask how many sessions the first shard of the index has: something that everybody may ask."""
    return Query(("HLEN", terms.keys.all_of("summaries")[0]), int)


def count_rows(terms: Terms) -> list[Query]:
    """Ask how many sessions each shard of the index has."""
    return [Query(("HLEN", named(shard, "summaries")), int) for shard in terms.keys.shards]


def newest_sessions(terms: Terms, count: int) -> list[Call]:
    """Read the rows of the sessions last active in each shard, newest first."""
    return [Call(load("newest_sessions"), keys, (count,), lambda reply: reply[1]) for keys in terms.keys.indexes]


def share_of(terms: Terms, count: int) -> int:
    """Return how many rows to ask each shard for, so that they are likely to have so many together: twice its part."""
    return min(count, 2 * count // len(terms.keys.shards) + 8)


def newest_of(replies: Sequence[list[bytes]], count: int, share: int, view: View) -> list[LiveSummary] | None:
    """Return the newest of what `newest_sessions` found; None when each shard has to be asked for more."""
    rows = sorted(list_sessions(replies, view).rows, key=attrgetter("last_activity_ms"), reverse=True)[:count]
    if share < count and share in Counter(shard_of(row.id) for row in rows).values():
        return None  # all that a shard was asked for are among them: its next ones may be, too
    return rows


def by_activity(live: list[LiveSummary], archived: list[SessionSummary]) -> list[SessionSummary]:
    """Return all rows, last active first; a few archived ones do not cost the text dates of all that are live."""
    rows: list[SessionSummary] = [*sorted(live, key=attrgetter("last_activity_ms"), reverse=True)]
    by_date = attrgetter("updated_at")
    if len(archived) * _PLACE_COST > len(live):
        rows += archived
        rows.sort(key=by_date, reverse=True)
    elif archived:
        rows.reverse()
        for row in sorted(archived, key=by_date):
            insort_left(rows, row, key=by_date)
        rows.reverse()
    return rows
