"""The index of versions before the shards, `{index}`: taken over, and kept up to date as long as one of them runs.

Both indexes only help: what a session is, its record says. So whatever differs is written anew into both from there,
by whoever makes a pass. When nothing of an earlier version was seen for a day, the index goes; one that comes after
that makes its own again, and is noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from maestro_state._sync.quarantine import Quarantine
from maestro_state._sync.server import Server
from maestro_state.models.lease import Lease
from maestro_state.state.calls import index as ops
from maestro_state.state.calls.checkpoints import read_time
from maestro_state.state.keys import named
from maestro_state.state.scripts import Query
from maestro_state.upkeep.reports import SweepReport
from maestro_state.upkeep.shards import apart

#: How long after the last sign of an earlier version its index is kept, in milliseconds.
QUIET_MS = 24 * 3600 * 1000
#: Sessions looked at in one pass of each list, and in one write.
BATCH = 5000
_TOGETHER = 200
#: Rows are written by the clocks of those who made the change: so much later they are still looked for.
_LATE_MS = 600_000

#: What the next pass goes on from: how far the lists were read, and when an earlier version was last seen.
SINCE, SEEN = "earlier_since", "earlier_seen"


class EarlierIndex:
    """The index without shards."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._quarantine = Quarantine(server)
        self._keys = server.terms.keys.earlier_index

    def keep_up(self, report: SweepReport, lease: Lease, beat: Callable[[], object]) -> dict[str, str]:
        """Bring both indexes to what is true where they differ; return what the next pass goes on from."""
        if not self._server.connection.call("EXISTS", named(self._keys, "summaries")):
            return {}
        now_ms: int = self._server.fetch(read_time())
        since, seen = int(lease.notes.get(SINCE, 0)), int(lease.notes.get(SEEN, 0)) or now_ms
        queries = [
            _waiting(named(self._keys, "dirty")),
            *(_changed(key, since) for key in self._server.terms.keys.all_of("recent")),
        ]
        waiting, *lists = self._server.fetch_all(queries)
        ids = [*dict.fromkeys(ops.session_ids([*waiting, *(one for found in lists for one, _ in found)]))]
        for some in _in_parts(ids):
            beat()
            if self._bring_up(report, some, set(ops.session_ids(waiting))):
                seen = now_ms
        if not any(len(found) == BATCH for found in lists) and now_ms - seen > QUIET_MS:
            self._server.connection.call("DEL", *self._keys)
            return {SINCE: "0", SEEN: "0"}
        # Where a list was cut, the next pass goes on from there.
        reached = min((int(found[-1][1]) for found in lists if len(found) == BATCH), default=now_ms - _LATE_MS)
        return {SINCE: str(max(0, reached)), SEEN: str(seen)}

    def _bring_up(self, report: SweepReport, ids: list[str], waiting: set[str]) -> bool:
        """Write what is true of some sessions into both indexes; tell whether an earlier version was ahead of us."""
        terms, server = self._server.terms, self._server
        shards = {one: row for part in server.fetch_all(ops.read_rows(terms, ids)) for one, row in part.items()}
        rows = dict(zip(ids, server.connection.call("HMGET", named(self._keys, "summaries"), *ids), strict=True))
        differing = [one for one in ids if rows[one] != shards[one] or one in waiting]
        for one in differing:
            with apart(self._quarantine, report, one):
                self._write_anew(one)
        return any(_is_ahead(rows[one], shards[one]) for one in differing)

    def _write_anew(self, session_id: str) -> None:
        terms, server = self._server.terms, self._server
        summary = server.fetch(ops.read_summary(terms, session_id))
        if summary is None:
            server.run(ops.forget_in(self._keys, session_id))
            return
        call = ops.index_session(terms, ops.entry_of(session_id, summary))
        server.run_all([call, ops.in_index(call, self._keys)])


def _waiting(key: str) -> Query:
    return Query(("ZRANGEBYSCORE", key, "-inf", "+inf", "LIMIT", 0, BATCH), list)


def _changed(key: str, since: int) -> Query:
    """Find what an index has written since a time, the oldest first."""

    def read(reply: list[Any]) -> list[tuple[bytes, float]]:
        return [(one, float(score)) for one, score in zip(reply[::2], reply[1::2], strict=True)]

    return Query(("ZRANGEBYSCORE", key, since, "+inf", "WITHSCORES", "LIMIT", 0, BATCH), read)


def _in_parts(ids: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(ids), _TOGETHER):
        yield ids[start : start + _TOGETHER]


def _is_ahead(row: bytes | None, other: bytes | None) -> bool:
    """Tell whether a row of the earlier index says more than that of a shard."""
    entries, known = ops.entries_of([row]), ops.entries_of([other])
    return bool(entries) and (not known or ops.is_behind(known[0].last_id, entries[0].last_id))
