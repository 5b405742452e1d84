"""What goes after a while and what never does: decided purely, done as one more generation, safe to be killed."""

from __future__ import annotations

import json
import os
import threading
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maestro_state.clock import iso
from maestro_state.errors import RemovedByCleanup
from maestro_state.local.project import Project
from maestro_state.mirror.home import Home
from maestro_state.mirror.reader import ArchivedSession
from maestro_state.mirror.retention import LOCK, clean, plan
from maestro_state.mirror.verify import verify
from maestro_state.models.run import Flags, OutputRef, RelevantOutput, Run
from maestro_state.models.session import Counters, Session, Stats
from maestro_state.vocabulary import FROZEN, SessionState
from tests.support.backends import BACKENDS, Clock
from tests.support.stored import filler

DAY_MS = 24 * 3600 * 1000
NOW = 1_800_000_000_000


def a_run(number: int, status: str, finished_ms: int = NOW) -> Run:
    return Run(id=f"{number:04}", tool="t", prompt_source="cli", flags=Flags(status == "dry", False), status=status,
               created_at=iso(finished_ms), finished_at=iso(finished_ms), context_refs=[], context_version=[],
               output_ref=OutputRef("output.txt", 3, "x"))  # fmt: skip


def a_session(updated_ms: int, state: str, ended_at: str | None) -> Session:
    ended = {"finalizada": {"finalized_at": ended_at}, "abortada": {"aborted_at": ended_at}}.get(state, {})
    return Session(id="a--abcdef", slug="a", state=state, tool_active=None, created_at=iso(updated_ms),
                   updated_at=iso(updated_ms), counters=Counters(), stats=Stats(), session_id="a--abcdef", user_id="u",
                   status="expired", last_activity=iso(updated_ms), project_context={}, working_directory="/",
                   preferences={}, ttl_seconds=1, **ended)  # fmt: skip


STATUSES = st.sampled_from(["pending", "running", "success", "error", "canceled", "dry"])


@given(st.lists(STATUSES, max_size=8), st.sets(st.integers(1, 8)), st.sets(st.integers(1, 8)),
       st.one_of(st.none(), st.integers(1, 8)), st.integers(-5, 100), st.sampled_from(sorted(SessionState)),
       st.booleans(), st.booleans())  # fmt: skip
def test_what_must_stay_always_stays(statuses, relevant, present, last, age_days, state, has_time, every):
    """Promoted, last and open outputs never go, nothing goes from a session that is young, was not ended or does not
    say when it was, and rows never dangle. With no days, every ended one is old enough.
    """
    then = NOW - age_days * DAY_MS
    runs = [a_run(number, status, then) for number, status in enumerate(statuses, start=1)]
    rows = [RelevantOutput(f"{number:04}", "x") for number in sorted(relevant)]
    there = {f"{number:04}" for number in present} & {run.id for run in runs}
    last_id = f"{last:04}" if last else None
    session = a_session(then, str(state), iso(then) if has_time else None)
    wanted = plan(session, runs, rows, last_id, there, before_ms=None if every else NOW - 30 * DAY_MS)

    by_id = {run.id: run.status for run in runs}
    assert all(by_id[one] == "dry" for one in wanted.dry_runs)
    assert not set(wanted.outputs) & {row.run_id for row in rows}
    assert last_id not in wanted.outputs
    assert all(by_id[one] not in ("pending", "running") for one in wanted.outputs)
    staying = there - set(wanted.outputs) - set(wanted.dry_runs)
    if state not in FROZEN:
        assert (wanted.outputs, wanted.dry_runs, wanted.relevant) == ([], [], rows)
        return
    assert {row.run_id for row in wanted.relevant} <= staying
    if not every and (age_days <= 30 or not has_time):
        assert (wanted.outputs, wanted.dry_runs) == ([], [])
    else:
        assert wanted.dry_runs == [run.id for run in runs if run.status == "dry"]


@pytest.fixture
def old(project: Path):
    """Return a project with one archived session of runs: relevant, plain, dry, failed, last."""
    with BACKENDS["fake"](project) as backend, backend.open(now_ms=Clock(NOW - 40 * DAY_MS)) as maestro:
        session = maestro.sessions.start("old")
        fill = filler(backend, session.id)
        fill.item(b"kept for ever")
        fill.promote(fill.run(b"relevant"))
        fill.run(b"plain")
        fill.run(None, status="dry")
        fill.run(b"failed", status="error")
        fill.run(b"last")
        maestro.sessions.end()
        logs = project / ".maestro/logs"
        logs.mkdir()
        for name, age in (("tool-check-1.log", 40), ("tool-check-2.log", 1), ("future.log", -400)):
            (logs / name).write_text("x")
            os.utime(logs / name, ((NOW - age * DAY_MS) / 1000,) * 2)
        (logs / "notes.txt").write_text("not ours")
    return Home.of_project(Project(project)), session.id


def run_clean(home: Home, days: int = 30, now_ms: int = NOW, live: set[str] | None = None, **options: Any):
    return clean(home, live or set(), now_ms=now_ms, days=days, **{"dry_run": False} | options)


def test_cleanup_removes_what_may_go_and_nothing_else(old):
    """Old outputs, dry runs and logs go, on record; verify finds no damage; a second one has nothing to do."""
    home, session_id = old
    folder = Path(home.path) / "sessions" / session_id
    wanted = [
        *(f".maestro/sessions/{session_id}/runs/{path}" for path in
          ("0002/output.txt", "0004/output.txt", "0003/meta.json", "0003/prompt.txt", "0003/sent_context.json")),
        ".maestro/logs/tool-check-1.log",
    ]  # fmt: skip
    planned = run_clean(home, dry_run=True)
    assert planned.removed == wanted
    assert (folder / "runs/0002/output.txt").exists()

    report = run_clean(home)
    assert (report.removed, report.damaged, report.busy) == (wanted, [], False)
    assert not (folder / "runs/0002/output.txt").exists()
    assert (folder / "runs/0002/meta.json").exists()
    assert not (folder / "runs/0003").exists()
    assert (folder / "runs/0001/output.txt").read_bytes() == b"relevant"
    assert (folder / "runs/0005/output.txt").read_bytes() == b"last"
    assert json.loads((folder / "session.json").read_text())["cleanup_at"] == iso(NOW)
    assert verify(home, session_id).ok
    runs = {run.id: run for run in ArchivedSession(home, session_id).runs()}
    assert [one for one, run in runs.items() if run.removed_at] == ["0003"]
    assert {one: run.output_ref.removed_at for one, run in runs.items() if run.output_ref} == {
        "0001": None, "0002": iso(NOW), "0004": iso(NOW), "0005": None,
    }  # fmt: skip
    with pytest.raises(RemovedByCleanup, match="the output of run 0002 was removed by cleanup on 2027-"):
        list(ArchivedSession(home, session_id).output("0002"))
    with pytest.raises(RemovedByCleanup, match="run 0003 was removed"):
        ArchivedSession(home, session_id).prompt("0003")
    assert len(verify(home, session_id).removed) == 5
    assert sorted(os.listdir(Path(home.path) / "logs")) == ["future.log", "notes.txt", "tool-check-2.log"]
    assert run_clean(home).removed == []


@pytest.mark.parametrize(("days", "ahead_days"), [(30, -15), (41, 0), (30, -400), (36_500, 0)])
def test_nothing_goes_early(old, days: int, ahead_days: int):
    """Before its time nothing goes, also when the clock has been set back."""
    home, _ = old
    report = run_clean(home, days=days, now_ms=NOW + ahead_days * DAY_MS)
    assert [path for path in report.removed if "/sessions/" in path] == []


def test_a_session_the_server_has_is_left_alone(old):
    """What is live is not cleaned, however old; that it would have been its turn is said."""
    home, session_id = old
    report = run_clean(home, live={session_id})
    assert [path for path in report.removed if "/sessions/" in path] == []
    assert report.on_server == [session_id]
    assert run_clean(home, days=36_500, live={session_id}).on_server == []
    assert run_clean(home, dry_run=True).on_server == []


def test_the_server_lets_go_of_an_ended_session_first(old):
    """Then it is cleaned like any other; one that the server keeps after all stays as it is."""
    home, session_id = old
    asked: list[str] = []
    kept = run_clean(home, live={session_id}, release=lambda one: asked.append(one) or False)
    assert (kept.on_server, asked) == ([session_id], [session_id])
    cleaned = run_clean(home, live={session_id}, release=lambda one: asked.append(one) or True)
    assert cleaned.on_server == []
    assert [path for path in cleaned.removed if "/sessions/" in path]
    assert asked == [session_id] * 2


def test_a_damaged_archive_is_kept_and_reported(old):
    """One changed byte anywhere, and the whole session stays as it is."""
    home, session_id = old
    (Path(home.path) / "sessions" / session_id / "context/blobs/ctx-0001.txt").write_bytes(b"KEPT for ever")
    report = run_clean(home)
    assert [one.id for one in report.damaged] == [session_id]
    assert (Path(home.path) / "sessions" / session_id / "runs/0002/output.txt").exists()


def test_two_at_once_do_not_collide(old):
    """While one cleans, a second does nothing and says so; many at once remove everything exactly once."""
    home, _ = old
    with home.sessions() as folder, folder.try_locked(LOCK) as held:
        assert held is not None
        assert run_clean(home).busy
    reports = []
    threads = [threading.Thread(target=lambda: reports.append(run_clean(home))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    removed = [path for report in reports for path in report.removed]
    assert len(removed) == len(set(removed)) == 6


def test_an_output_that_somebody_removed_is_damage(old):
    """A promoted output that is gone, and not by cleanup, is reported; the list goes on naming it."""
    home, session_id = old
    run_clean(home)
    folder = Path(home.path) / "sessions" / session_id
    os.unlink(folder / "runs/0001/output.txt")
    assert [one.id for one in run_clean(home).damaged] == [session_id]
    assert [row["run_id"] for row in json.loads((folder / "outputs/relevant.json").read_text())["items"]] == ["0001"]


@pytest.mark.parametrize("damage", ["{", '{"items": []}', None])
def test_a_damaged_list_of_promoted_outputs_is_written_anew(old, damage: str | None):
    """The record has it too: cleanup puts relevant.json right, also when there is nothing to remove."""
    home, session_id = old
    run_clean(home)
    path = Path(home.path) / "sessions" / session_id / "outputs/relevant.json"
    before = path.read_bytes()
    path.unlink()
    if damage is not None:
        path.write_text(damage.ljust(len(before)))  # the same size: only the digest tells
    name = f".maestro/sessions/{session_id}/outputs/relevant.json"
    planned = run_clean(home, dry_run=True)
    assert (planned.repaired, planned.damaged) == ([name], [])
    assert not verify(home, session_id).ok  # control: it was damaged, and a dry run changes nothing
    assert run_clean(home).repaired == [name]
    assert path.read_bytes() == before
    assert verify(home, session_id).ok
    assert run_clean(home).repaired == []


def test_broken_rows_in_another_programs_list_are_dropped(project: Path):
    """Rows of runs without output go if told to, the others stay with every field they have."""
    folder = project / ".maestro/sessions/other--abcdef"
    for run in ("0001", "0002"):
        (folder / f"runs/{run}").mkdir(parents=True)
    (folder / "outputs").mkdir()
    (folder / "session.json").write_text('{"id": "other--abcdef", "state": "finalizada"}')
    (folder / "runs/0001/output.txt").write_text("kept")
    rows = [{"run_id": "0001", "motivo": "analysis"}, {"run_id": "0002"}, {"run_id": "0009"}]
    (folder / "outputs/relevant.json").write_text(json.dumps({"items": rows, "version": 3}))
    home = Home.of_project(Project(project))
    assert run_clean(home).repaired == []
    assert run_clean(home, foreign=True).repaired == [".maestro/sessions/other--abcdef/outputs/relevant.json"]
    kept = json.loads((folder / "outputs/relevant.json").read_text())
    assert kept == {"items": [{"run_id": "0001", "motivo": "analysis"}], "version": 3}
    assert verify(home, "other--abcdef").ok


def test_the_earlier_of_two_clocks_decides(project: Path):
    """A machine whose clock jumped forty days ahead of the server's removes nothing."""
    with BACKENDS["fake"](project) as backend:
        with backend.open() as maestro:
            session = maestro.sessions.start("young")
            fill = filler(backend, session.id)
            fill.run(b"one")
            fill.run(b"two")
            maestro.sessions.end()
            backend.raw.delete(*maestro.server.terms.keys.session(session.id))
            backend.raw.delete(*chain(*maestro.server.terms.keys.indexes))
            ahead = Clock(maestro.server.now_ms() + 40 * DAY_MS)
        with backend.open(now_ms=ahead) as maestro:
            assert maestro.archive.cleanup().removed == []
            assert maestro.archive.cleanup(days=0).removed == [f".maestro/sessions/{session.id}/runs/0001/output.txt"]


def files_and_times(folder: Path) -> dict[str, tuple[bytes, int]]:
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns) for path in found}


@pytest.mark.parametrize("days", [0, 30])
def test_another_programs_archive_needs_a_word(project: Path, days: int):
    """Ended long ago and full of outputs: untouched and named, until it is asked for; then what went is told."""
    folder = project / ".maestro/sessions/other--abcdef"
    for number in ("0001", "0002"):
        (folder / f"runs/{number}").mkdir(parents=True)
        (folder / f"runs/{number}/output.txt").write_text("an answer")
    record = {"id": "other--abcdef", "state": "finalizada", "finalized_at": "2020-01-02T03:04:05Z"}
    (folder / "session.json").write_text(json.dumps(record))
    # A file of that name alone is nobody's word: without a manifest that lists it, it is not this program's.
    (folder / "maestro.json").write_text("{}")
    before, home = files_and_times(folder), Home.of_project(Project(project))
    report = run_clean(home, days)
    assert (report.removed, report.foreign) == ([], ["other--abcdef"])
    assert files_and_times(folder) == before
    asked = run_clean(home, days, foreign=True)
    assert asked.removed == [".maestro/sessions/other--abcdef/runs/0001/output.txt"]
    found = ArchivedSession(home, "other--abcdef")
    assert [run.output_ref is not None and run.output_ref.removed_at for run in found.runs()] == [iso(NOW), None]
    assert found.record().cleanup_at == iso(NOW)
    assert verify(home, "other--abcdef").removed == ["runs/0001/output.txt"]


def test_what_another_programs_cleanup_removed_is_told_too(project: Path):
    """An output that its reference knows, in a session with cleanup_at and no manifest, was removed then."""
    folder = project / ".maestro/sessions/other--abcdef"
    (folder / "runs/0001").mkdir(parents=True)
    record = {"id": "other--abcdef", "state": "finalizada", "cleanup_at": "2026-01-02T03:04:05Z"}
    (folder / "session.json").write_text(json.dumps(record))
    meta = {"status": "success", "output_ref": {"path": "output.txt", "size": 9}}
    (folder / "runs/0001/meta.json").write_text(json.dumps(meta))
    home = Home.of_project(Project(project))
    (run,) = ArchivedSession(home, "other--abcdef").runs()
    assert run.output_ref.removed_at == "2026-01-02T03:04:05.000+00:00"
    assert verify(home, "other--abcdef").removed == ["runs/0001/output.txt"]
    # Control: without that mark it is missing.
    (folder / "session.json").write_text(json.dumps(record | {"cleanup_at": None}))
    assert [one.reason for one in verify(home, "other--abcdef").damaged] == ["missing"]
