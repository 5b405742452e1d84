"""Calls behind the metrics: each costs the same however many sessions there are."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from maestro_state.state.calls.index import session_ids
from maestro_state.state.calls.replies import moment, text
from maestro_state.state.calls.terms import Terms
from maestro_state.state.keys import named
from maestro_state.state.scripts import Call, Query, load
from maestro_state.vocabulary import SessionState

#: How long the tally is kept after it was last read, in milliseconds.
KEEP_MS = 400 * 24 * 3600 * 1000
#: Sessions that are asked for their messages at a time; the next time goes on.
TOLD_MAX = 2000
#: How far the index may be behind, and the clocks of those who write it may differ, in milliseconds.
OVERLAP_MS = 10_000


def count_states(terms: Terms) -> list[Query]:
    """Read how many sessions are in each state, shard by shard."""

    def read(reply: list[bytes]) -> dict[str, int]:
        return {text(name): max(0, int(value)) for name, value in zip(reply[::2], reply[1::2], strict=True)}

    return [Query(("HGETALL", named(shard, "states")), read) for shard in terms.keys.shards]


def all_states(shards: Iterable[dict[str, int]]) -> dict[str, int]:
    """Add up what the shards say; states that only newer programs know are told as they are."""
    found = dict.fromkeys(map(str, SessionState), 0)
    for shard in shards:
        for state, count in shard.items():
            found[state] = found.get(state, 0) + count
    return found


def oldest_dirty(terms: Terms) -> list[Query]:
    """Read since when the change that waits longest for a disk does, shard by shard; None when none waits."""

    def query(shard: tuple[str, ...]) -> Query:
        command = ("ZRANGE", named(shard, "dirty"), 0, 0, "WITHSCORES")
        return Query(command, lambda reply: moment(reply[-1]) if reply else None)

    return [query(shard) for shard in terms.keys.shards]


def count_damaged(terms: Terms) -> Query:
    """Ask how many records are known to be damaged."""
    return Query(("HLEN", *terms.keys.quarantine), int)


def read_tally(terms: Terms) -> Query:
    """Read how many messages were told of, and up to when sessions were looked at."""
    return Query(("HMGET", *terms.keys.tally, "messages", "until"), lambda reply: tuple(int(one or 0) for one in reply))


def active_sessions(terms: Terms, since_ms: int) -> list[Query]:
    """Read the sessions that were active since then, with when they were, oldest first, shard by shard."""

    def read(reply: list[bytes]) -> list[tuple[int, bytes]]:
        return [(moment(score), name) for name, score in zip(reply[::2], reply[1::2], strict=True)]

    end = (since_ms, "+inf", "WITHSCORES", "LIMIT", 0, TOLD_MAX)
    return [Query(("ZRANGEBYSCORE", named(shard, "recent"), *end), read) for shard in terms.keys.shards]


def oldest_of(shards: Iterable[list[tuple[int, bytes]]]) -> tuple[list[str], int]:
    """Return the sessions to ask now, oldest first, and when the last of them was active."""
    found = sorted(chain.from_iterable(shards))[:TOLD_MAX]
    return session_ids([name for _, name in found]), found[-1][0] if found else 0


def tell_messages(terms: Terms, session_id: str) -> Call:
    """Ask how many messages a session has that were not told of yet."""
    return Call(load("tell_messages"), terms.keys.session(session_id), (), lambda reply: int(reply[1]))


def tally_messages(terms: Terms, count: int, until_ms: int) -> Call:
    """Add messages that were told of; answers how many there are."""
    return Call(load("tally_messages"), terms.keys.tally, (count, until_ms, KEEP_MS), lambda reply: int(reply[1]))
