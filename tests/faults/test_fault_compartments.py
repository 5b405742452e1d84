"""Damaged records: whatever becomes of one session, the others are swept, listed, run and ended as ever."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from maestro_workers.sweep import sweep

from maestro_state import Maestro
from maestro_state.errors import DamagedRecord
from maestro_state.local.embedded import socket_path
from maestro_state.upkeep import lost_sessions, shards
from maestro_state.upkeep import sweep as sweep_room
from maestro_state.upkeep.doctor import Health
from tests.support.backends import Backend
from tests.support.cli_runs import maestro_command, printed
from tests.support.damage import INDEX_KINDS, KINDS
from tests.support.passing import TTL_S, let_pass, long_ago

#: Into how many tests the kinds of damage are put.
BATCHES = 9


@dataclass
class Others:
    """Sessions that nothing is wrong with: with something to write, over, with a run that waits, about to end."""

    changed: str
    over: str
    running: str
    ending: str

    @property
    def ids(self) -> set[str]:
        return {self.changed, self.over, self.running, self.ending}


def others(backend: Backend, maestro: Maestro) -> Others:
    with backend.open(now_ms=long_ago()) as then:
        over = then.sessions.start("over", ttl_seconds=TTL_S).id
        let_pass(backend.raw, then, over)
    changed = maestro.sessions.start("changed").id
    running = maestro.sessions.start("running", tool="echo").id
    maestro.runs.start("p", running)
    return Others(changed, over, running, maestro.sessions.start("ending").id)


def bad_one(maestro: Maestro) -> str:
    """Return a session that has something of everything."""
    session_id = maestro.sessions.start("bad", tool="echo").id
    maestro.messages.add("user", "hello")
    maestro.context.add("a text", kind="text")
    run = maestro.runs.start("p")
    claim = maestro.claims.claim(session_id, run.id, "me")
    maestro.ledger.begin(session_id, claim.run)
    maestro.claims.add_outputs(claim, 0, [b"printed"])
    maestro.runs.start("waits")
    return session_id


def look_after(maestro: Maestro, them: Others) -> None:
    """Do all that goes over all sessions, and end one; raises or fails when one of the others is affected."""
    report = sweep(maestro)
    written = {*report.checkpointed, *report.finalized, *report.archived}
    assert them.ids <= written, f"not written: {them.ids - written} {report.errors}"
    assert them.over in report.finalized
    assert them.ids <= {row.id for row in maestro.sessions.list()}
    assert [row.document() for row in maestro.sessions.list(everything=True)]
    assert maestro.sessions.resolve(them.changed[-6:]) == them.changed
    maestro.claims.recover()
    claim = maestro.claims.claim(them.running, "0001", "me")
    assert claim.run.tool == "echo"
    assert maestro.sessions.end(them.ending).state == "finalizada"
    assert maestro.archive.verify(them.ending).ok
    assert {check.status for check in maestro.health.checks()} <= {"ok", "warn"}


@pytest.mark.parametrize("batch", range(BATCHES))
def test_damaged_sessions_affect_no_other(workplace, batch: int):
    """A dozen kinds of damage: the bad ones are named, everything else is as if they were not there; doctor repairs."""
    backend, maestro = workplace
    kinds = [*KINDS.values()][batch::BATCHES]
    bad, them = [bad_one(maestro) for _ in kinds], others(backend, maestro)
    for session_id, damage in zip(bad, kinds, strict=True):
        damage(backend.raw, maestro.server.terms.keys, session_id)
    look_after(maestro, them)
    repaired = maestro.health.repair()
    assert not any(check.name == "records" for check in maestro.health.checks()), repaired
    # One that says it is another checkout's is not damaged: it is written there.
    assert [one for one in sweep(maestro).errors if "another checkout" not in one.reason] == [], repaired


@pytest.mark.parametrize("content", ["bytes", "deep"])
def test_who_reads_a_damaged_record_is_told_so(workplace, content: str):
    """Whatever keeps it from being decoded, it is no failure of the program."""
    backend, maestro = workplace
    session_id = bad_one(maestro)
    KINDS[f"preferences is {content}"](backend.raw, maestro.server.terms.keys, session_id)
    with pytest.raises(DamagedRecord):
        maestro.sessions.status(session_id)


@pytest.mark.parametrize("kind", INDEX_KINDS)
def test_a_damaged_index_is_made_anew(workplace, kind: str):
    """What spans sessions is read from the sessions again."""
    backend, maestro = workplace
    them = others(backend, maestro)
    INDEX_KINDS[kind](backend.raw, maestro.server.terms.keys, "")
    look_after(maestro, them)
    assert sweep(maestro).errors == []
    assert not any(check.name == "records" for check in maestro.health.checks())


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """Run one server for the module."""
    import shutil
    import tempfile
    from pathlib import Path

    from tests.support.backends import BACKENDS

    # In memory where that can be: hundreds of archives are written, and it is not their disk that is looked at.
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    folder = Path(tempfile.mkdtemp(prefix="m-", dir=memory))
    with BACKENDS["real"](folder) as backend:
        yield backend
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def workplace(shared: Backend, monkeypatch):
    """Return an empty server and a client of it; checks start nobody who would take the runs of these sessions."""
    monkeypatch.setattr(Health, "_supervisor", lambda _: None)
    shared.raw.flushall()
    with shared.open() as maestro:
        yield shared, maestro
    shared.raw.flushall()


def test_without_compartments_one_would_stop_the_others(workplace, monkeypatch):
    """Control: in a plain loop over the sessions many kinds of damage keep others from being written."""
    backend, maestro = workplace

    @contextmanager
    def bare(_quarantine, _report, _session_id):
        yield

    for module in (sweep_room, shards, lost_sessions):
        monkeypatch.setattr(module, "apart", bare)
    stopped = []
    for kind, damage in list(KINDS.items())[::4]:
        backend.raw.flushall()
        bad, them = bad_one(maestro), others(backend, maestro)
        damage(backend.raw, maestro.server.terms.keys, bad)
        try:
            report = maestro.archive.sweep()
            if not them.ids <= {*report.checkpointed, *report.finalized, *report.archived}:
                stopped.append(kind)
        except Exception:  # noqa: BLE001 - whatever it is, it was not kept apart
            stopped.append(kind)
            backend.raw.flushall()  # its lease
    print(f"{len(stopped)} of {len(KINDS) // 4} kinds stopped the others")
    assert len(stopped) > len(KINDS) // 4 // 4, stopped


def test_many_kinds_at_once_stop_no_worker_and_no_command(workplace):
    """Real processes: with every third kind on one server a worker carries out a run, commands list and end."""
    backend, maestro = workplace
    for damage in [*KINDS.values()][::3]:
        damage(backend.raw, maestro.server.terms.keys, bad_one(maestro))
    good = maestro.sessions.start("good", tool="echo").id
    run = maestro.runs.start("said", good)
    address = {"MAESTRO_REDIS_URL": f"unix://{socket_path(backend.project)}"}
    worked = maestro_command(backend.project, "worker", "--burst", env=address)
    assert worked.returncode == 0, worked.stderr
    assert maestro.runs.read(run.id, good).status == "success"
    swept = maestro_command(backend.project, "sweep", "--json", env=address)
    assert json.loads(swept.stdout)["errors"], "control: the sweep has met the damage"
    assert maestro.archive.verify(good).ok
    listed = maestro_command(backend.project, "session", "list", "--json", env=address)
    assert good in [row["id"] for row in json.loads(listed.stdout)["sessions"]], listed.stderr
    assert printed(backend.project, "session", "end", good, env=address)["state"] == "finalizada"
    checks = printed(backend.project, "doctor", "--repair", env=address)
    assert "records" not in [check["name"] for check in checks["checks"]], checks
    for _ in range(5):  # each sweep looks for what the index does not know at some more of the keys
        left = [one for one in sweep(maestro, thorough=True).errors if "another checkout" not in one.reason]
        maestro.health.repair()
    assert left == []
