"""Usage: what runs consumed, over the sessions the server has and those that only the disk has, each run once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from maestro_state._sync.budgets import Budgets
from maestro_state._sync.server import UNREADABLE, Server
from maestro_state.errors import DamagedRecord, MaestroError, NoProject
from maestro_state.mirror.places import Places
from maestro_state.mirror.usage import consumed_by, consumed_in
from maestro_state.models.ledger import Budget
from maestro_state.models.run import Run
from maestro_state.models.usage import Consumed, UsageReport, check_by, tally
from maestro_state.models.work_names import moment_ms
from maestro_state.net.faults import ReplyError
from maestro_state.state.calls import contents, index
from maestro_state.state.scripts import Query

#: Sessions whose runs are read in one round trip.
_BATCH = 100


class Usage:
    """What was consumed, added up."""

    def __init__(self, server: Server, places: Places, budgets: Budgets) -> None:
        self._server = server
        self._limits = budgets
        self._places = places
        self._skipped: list[str] = []

    def report(self, by: str, since: str | None) -> UsageReport:
        """Add up the runs asked for since then; dry ones executed nothing and do not count."""
        check_by(by)
        since_ms = None if since is None else moment_ms(since, self._server.now_ms())
        found = self._live()
        on_disk = self._places.own.ids() - set(found)
        runs = [run for session in found.values() for run in session]
        runs += [run for session_id in sorted(on_disk) for run in self._archived(session_id)]
        kept = runs if since_ms is None else [run for run in runs if run.created_ms >= since_ms]
        return tally(kept, by, sorted(self._skipped), self._budgets())

    def _budgets(self) -> list[Budget]:
        try:
            return self._limits.list()
        except (NoProject, DamagedRecord):
            return []

    def _live(self) -> dict[str, list[Consumed]]:
        """Return the runs of sessions that the server has, and has runs of: of any other the disk knows them."""
        try:
            entries = index.all_sessions(self._server.fetch_all(index.all_rows(self._server.terms)))
        except NoProject:
            return {}
        found: dict[str, list[Consumed]] = {}
        for start in range(0, len(entries), _BATCH):
            some = entries[start : start + _BATCH]
            for entry, runs in zip(some, self._runs_of([entry.id for entry in some]), strict=True):
                if runs is None:
                    self._skipped.append(entry.id)  # damaged: others are counted all the same
                counted = [run for run in runs or [] if run.status != "dry"]
                if runs is None or runs:
                    found[entry.id] = [consumed_by(run, entry.id, entry.user_id) for run in counted]
        return found

    def _runs_of(self, ids: list[str]) -> list[list[Run] | None]:
        """Read the runs of some sessions: in one round trip, or each apart where the server refuses one of them."""
        queries = [contents.read_runs(self._server.terms, session_id) for session_id in ids]
        try:
            replies = self._server.connection.calls([query.command for query in queries])
        except ReplyError:
            return [self._apart(query) for query in queries]
        return [_read(query, reply) for query, reply in zip(queries, replies, strict=True)]

    def _apart(self, query: Query) -> list[Run] | None:
        try:
            runs: list[Run] = self._server.fetch(query)
        except DamagedRecord:
            return None
        return runs

    def _archived(self, session_id: str) -> Iterator[Consumed]:
        try:
            yield from consumed_in(self._places.own, session_id)
        except (MaestroError, OSError):
            self._skipped.append(session_id)


def _read(query: Query, reply: Any) -> list[Run] | None:
    """Return the runs that a reply tells of; None when they cannot be read."""
    try:
        runs: list[Run] = query.read(reply)
    except (MaestroError, *UNREADABLE):
        return None
    return runs
