# Generated from maestro_state/live by `make generate`. Do not edit.
"""The ledger: what runs are charged and counted, as whoever carries them out tells it, and who may ask for one more."""

from __future__ import annotations

from contextlib import suppress

from msgspec import structs

from maestro_state.clock import new_idempotency_key
from maestro_state.errors import DamagedRecord, NotFound, OverBudget, ServerUnavailable, TooManyRuns
from maestro_state._sync.server import Server
from maestro_state.models.ledger import BudgetName, Counted, Over, counted, sound, used_up
from maestro_state.models.run import OPEN, Run, Usage
from maestro_state.net import is_forbidden
from maestro_state.state.calls import claims as claim_ops
from maestro_state.state.calls import concurrency
from maestro_state.state.calls import ledger as ops
from maestro_state.state.calls import runs as run_ops
from maestro_state.state.scripts import Query

#: What stands for tools that the catalogue does not name: a command line would be a label of its own each.
OTHER = "other"


class Ledger:
    """What was consumed. Everything here may be repeated: a run is counted once."""

    def __init__(self, server: Server) -> None:
        """Take the server."""
        self._server = server

    def begin(self, session_id: str, run: Run) -> Over | None:
        """Put a run down as begun; returns the budget that leaves nothing for it, if there is one."""
        call = ops.charge_run(
            self._server.terms,
            session_id,
            run.id,
            run.user or "",
            None,
            self._server.now_ms(),
            is_beginning=True,
        )
        over: Over | None = self._server.run(call)
        return over

    def charge(self, session_id: str, run: Run, usage: Usage) -> Over | None:
        """Charge a run what its tool has told so far; returns the budget that it has gone beyond, if there is one."""
        terms, now_ms = self._server.terms, self._server.now_ms()
        call = ops.charge_run(terms, session_id, run.id, run.user or "", sound(usage), now_ms)
        over: Over | None = self._server.run(call)
        return over

    def count(self, session_id: str, run_id: str) -> Counted | None:
        """Count a run if it is over; returns what it came to, None when it was counted before or is not over."""
        terms, now_ms = self._server.terms, self._server.now_ms()
        try:
            run: Run = self._server.fetch(run_ops.read_run(terms, session_id, run_id))
        except NotFound:
            self._server.run(ops.drop_run(terms, session_id, run_id, now_ms))
            return None
        if run.status in (*OPEN, "dry"):
            return None
        run = structs.replace(run, usage=sound(run.usage))
        found = counted(session_id, run, _label(run.tool))
        is_new = self._server.run(ops.count_run(terms, run, found, now_ms))
        return found if is_new else None

    def count_own(self, session_id: str, run_id: str) -> None:
        """Count a run that no worker carried out; an account that may not write the ledger leaves that be."""
        try:
            self.count(session_id, run_id)
        except ServerUnavailable as error:
            if not is_forbidden(error):
                raise

    def count_rest(self) -> list[Counted]:
        """Count the runs that are over and that nobody counted: whoever had ended them was killed before that.

        What somebody else put in the place of the ledger is dropped first.
        """
        self._server.run(ops.mend_ledger(self._server.terms, self._server.now_ms()))
        found = []
        for session_id, run_id in self._server.fetch(ops.uncounted_runs(self._server.terms)):
            with suppress(DamagedRecord):  # named by whoever looks after sessions; the others are counted
                found.append(self.count(session_id, run_id))
        return [one for one in found if one is not None]

    def count_errors(self, kind: str, count: int = 1) -> None:
        """Count what went wrong, by kind."""
        self._server.run(ops.count_errors(self._server.terms, kind, count))

    def counters(self) -> dict[str, int]:
        """Read all counters."""
        found: dict[str, int] = self._server.fetch(ops.read_counters(self._server.terms))
        return found

    def budgets_for(self, session_id: str) -> list[Query]:
        """Return the reads that tell whether a budget is used up: to be made together with others."""
        terms, now_ms = self._server.terms, self._server.now_ms()
        names = ops.budget_names(terms.user, session_id)
        return [ops.read_limits(terms, names), *ops.read_sums(terms, names, now_ms)]

    def check(self, found: list[dict[BudgetName, int]]) -> None:
        """Raise OverBudget when those reads found a budget that is used up."""
        limits, *sums = found
        over = ops.first_over(limits, {name: spent for some in sums for name, spent in some.items()})
        if over is not None:
            again = "a new day begins at midnight UTC; " if over.name.period == "day" else ""
            raise OverBudget(used_up(over), hint=f"{again}maestro budget list shows it, budget set raises it")

    def take_seat(self, most: int, idempotency_key: str | None = None) -> str:
        """Take a seat for one more run of this user; TooManyRuns, with those that are open, when there is none."""
        ticket = concurrency.ticket_of(idempotency_key or new_idempotency_key())
        taken = self._take(ticket, most)
        if taken and (gone := self._over(taken)):
            taken = self._take(ticket, most, gone)
        if not taken:
            return ticket
        runs = [run for run in map(concurrency.run_in, taken) if run]
        shown = ", ".join(f"{session_id}/{run_id}" for session_id, run_id in runs[:5]) or "being asked for just now"
        more = f" and {len(runs) - 5} more" if len(runs) > 5 else ""
        of = f"{self._server.terms.user} has {len(taken)} open already ({shown}{more})"
        session_id, run_id = runs[0] if runs else ("REF", "RUN")
        raise TooManyRuns(
            f"at most {most} {'run' if most == 1 else 'runs'} of one user may be open at once, and {of}",
            hint=f"maestro --session {session_id} wait {run_id}, or cancel it"
            " (the limit is MAESTRO_RUNS_PER_USER, here or of a worker)",
        )

    def name_seat(self, ticket: str, session_id: str, run_id: str | None) -> None:
        """Say which run a seat was taken for; None gives it up."""
        run = ops.run_name(session_id, run_id) if run_id else ""
        self._server.run(concurrency.name_seat(self._server.terms, ticket, run, self._server.now_ms()))

    def _take(self, ticket: str, most: int, gone: list[str] | None = None) -> list[str]:
        call = concurrency.take_seat(self._server.terms, ticket, most, self._server.now_ms(), gone or [])
        taken: list[str] = self._server.run(call)
        return taken

    def _over(self, taken: list[str]) -> list[str]:
        """Return the seats whose runs are over, or gone, or cannot be read."""
        gone = []
        for seat in taken:
            run = concurrency.run_in(seat)
            if run is not None and self._status(*run) not in OPEN:
                gone.append(seat)
        return gone

    def _status(self, session_id: str, run_id: str) -> str | None:
        try:
            status: str | None = self._server.fetch(claim_ops.read_status(self._server.terms, session_id, run_id))
        except DamagedRecord:
            return None
        return status


def _label(tool: str) -> str:
    """Return what a tool is counted as."""
    from maestro_state.tools import names

    return tool if tool in names() else OTHER
