"""Who ends a run writes the run first and the index after it: what a kill between the two leaves, a sweep mends."""

from __future__ import annotations

import pytest

from maestro_state import Maestro
from maestro_state.models.claim import Ended
from tests.support.backends import Backend

#: What was written to disk before the run was ended, and after it, by somebody who was killed right then.
WRITTEN = {"nothing": (False, False), "what was before": (True, False), "all of it": (True, True)}


def end_unseen(backend: Backend, *, before: bool, after: bool) -> str:
    """End a run as somebody does who is killed before the index has it; return its session."""
    with backend.open() as worker:
        session_id = worker.sessions.start("ended", tool="echo").id
        claim = worker.claims.claim(session_id, worker.runs.start("p", session_id).id, "worker")
        worker.claims.add_outputs(claim, 0, [b"done\n"])
        if before:
            worker.archive.checkpoint(session_id)
        worker.server.index = lambda *_, **__: True  # killed before that
        worker.claims.finish(claim, Ended(status="success", size=5))
        if after:
            worker.archive.checkpoint(session_id)
        terms = worker.server.terms
        waits = backend.raw.zscore(terms.keys.of_index("dirty", session_id), session_id) is not None
        assert waits is not before  # control: a list of what to write names it, or nothing does
        assert told(worker, session_id) == ("executando", {"executando": 1}, [session_id])
    return session_id


def told(maestro: Maestro, session_id: str) -> tuple[str, dict[str, int], list[str]]:
    """Return how lists, metrics and recovery see a session."""
    counted = {state: count for state, count in maestro.metrics.read().sessions.items() if count}
    [row] = [row for row in maestro.sessions.list() if row.id == session_id]
    return row.state, counted, maestro.claims.open_sessions()


@pytest.mark.parametrize("written", WRITTEN)
def test_the_end_of_a_run_that_nobody_indexed_is_known_after_a_sweep(backend: Backend, written: str):
    """However far the disk was: lists, metrics and recovery see what the record says."""
    before, after = WRITTEN[written]
    session_id = end_unseen(backend, before=before, after=after)
    with backend.open() as maestro:
        maestro.sweep()
        assert told(maestro, session_id) == ("com_saida", {"com_saida": 1}, [])
        assert maestro.archive.verify(session_id).ok


@pytest.mark.parametrize("written", WRITTEN)
def test_a_row_that_is_late_is_found_by_the_record_alone(backend: Backend, written: str):
    """Without the list of sessions that run, as for any other change whose maker was killed."""
    before, after = WRITTEN[written]
    session_id = end_unseen(backend, before=before, after=after)
    with backend.open() as maestro:
        report = maestro.archive.sweep()
        assert told(maestro, session_id) == ("com_saida", {"com_saida": 1}, [])
        assert maestro.archive.sweep().repaired == []  # and once is enough
        assert report.errors == []


def test_who_follows_all_sessions_is_not_told_that_a_late_one_went(backend: Backend):
    """Its row is written over: a page that shows it shows it on."""
    session_id = end_unseen(backend, before=True, after=True)
    with backend.open() as maestro:
        [key] = maestro.server.terms.keys.change
        last = backend.raw.xrevrange(key, count=1)[0][0].decode()
        maestro.archive.sweep()
        assert backend.raw.xrange(key, f"({last}") != []  # control: it is told of
        assert all(b"gone" not in fields for _, fields in backend.raw.xrange(key, f"({last}"))
        assert maestro.sessions.read(session_id).state == "com_saida"
