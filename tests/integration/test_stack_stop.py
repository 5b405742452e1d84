"""Stopping the stack: everything is on disk first, or it is said what is not."""

from __future__ import annotations

import json

import pytest
from maestro_workers.pool.loop import Loop
from maestro_workers.pool.pool import Pool
from maestro_workers.stack.supervisor import Supervisor
from maestro_workers.stack.sweeps import has_all_on_disk

from maestro_state import Maestro
from maestro_state.state import keys
from maestro_state.state.calls import leases
from maestro_state.upkeep import shards
from tests.support.cli_runs import maestro_command, printed
from tests.support.embedded_project import end, supervisors
from tests.support.waiting import wait_until


def started(maestro, count):
    """Start sessions that are not on disk yet."""
    return {maestro.sessions.start(f"session {number}").id for number in range(count)}


def archived(maestro):
    """Return what is on disk."""
    return {path.parent.name for path in (maestro.project.root / ".maestro" / "sessions").glob("*/session.json")}


def test_more_than_one_pass_holds_is_written_before_the_stack_may_stop(real, monkeypatch):
    """Each pass that leaves something is followed by another; the stack may stop when nothing is left."""
    monkeypatch.setattr(shards, "BATCH", 2)
    monkeypatch.setattr(keys, "SHARDS", 1)
    with Maestro(real.project) as maestro:
        ids = started(maestro, 5)
        assert [has_all_on_disk(maestro) for _ in range(3)] == [False, False, True]
        assert archived(maestro) == ids


def test_somebody_else_who_writes_is_waited_for(real):
    """While another one sweeps the stack may not stop; when it is done, it may."""
    with Maestro(real.project) as maestro:
        ids = started(maestro, 2)
        server = maestro.server
        shard = leases.of_shard(keys.shard_of(min(ids)))
        other = server.run(leases.take_lease(server.terms, shard, "other", maestro.schedule.now_ms()))
        assert not has_all_on_disk(maestro)
        server.run(leases.release_lease(server.terms, shard, other))
        assert has_all_on_disk(maestro)
        assert archived(maestro) == ids


def test_what_cannot_be_written_does_not_keep_the_stack_forever(real):
    """A session whose place on disk is taken by something else is left to the server's own file."""
    with Maestro(real.project) as maestro:
        (session_id,) = started(maestro, 1)
        place = real.project / ".maestro" / "sessions" / session_id
        place.write_text("in the way")
        assert has_all_on_disk(maestro)
        assert place.read_text() == "in the way"


def test_an_open_run_keeps_the_stack_unless_somebody_asks(real):
    """Idling is put off by a run that is open; a person who stops the stack is not kept waiting for it."""
    with Maestro(real.project) as maestro:
        maestro.sessions.start("running", tool="echo")
        pool = Pool(Loop(lambda: None), maestro, lambda _: 0, lambda _: None, most=1)
        assert pool.before_stop(asked=False)
        run = maestro.runs.start("nobody carries this out")
        assert not pool.before_stop(asked=False)
        assert pool.before_stop(asked=True)
        maestro.runs.cancel(run.id)
        assert pool.before_stop(asked=False)


class Slow:
    """A service that is at a safe point when it was asked often enough."""

    name = "slow"

    def __init__(self, times):
        """Take how often."""
        self.left = times

    def before_stop(self, *, asked):
        """Count down."""
        assert asked
        self.left -= 1
        return self.left <= 0


class Pauses:
    """Remembers pauses instead of making them."""

    def __init__(self):
        """Begin with none."""
        self.made = []

    def wait(self, seconds):
        """Remember it."""
        self.made.append(seconds)


def test_a_supervisor_told_to_stop_lets_its_services_settle(tmp_path):
    """It asks until they agree, with longer and longer pauses."""
    service, pauses = Slow(7), Pauses()
    supervisor = Supervisor(tmp_path, 600, lambda _loop, _log: [], lambda _: None)
    supervisor._parts = [service]
    supervisor._settle(pauses)
    assert service.left == 0
    assert pauses.made == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0]


@pytest.mark.xdist_group("busy")
def test_stopping_writes_everything_and_says_so(project):
    """What was not on disk a moment before is there when the command returns."""
    with Maestro(project) as maestro:
        ids = started(maestro, 40)
        wait_until(lambda: supervisors(project), "nobody supervises")
        assert printed(project, "stack", "stop") == {"stopped": True}
        assert archived(maestro) == ids
    assert printed(project, "stack", "stop") == {"stopped": False}


def test_a_stack_whose_supervisor_was_killed_is_written_too(project):
    """Another one is started for it."""
    with Maestro(project) as maestro:
        server = maestro.server
        maestro.project.begin()
        # Not in the middle of a pass: the one that is killed there keeps others out until its lease ends.
        wait_until(lambda: server.fetch(leases.read_lease(server.terms, leases.SCHEDULE)).swept_at, "no pass")
        end(*supervisors(project))
        ids = started(maestro, 3)
        assert not ids & archived(maestro)
        assert printed(project, "stack", "stop") == {"stopped": True}
        assert archived(maestro) == ids


def test_runs_that_it_ends_are_said(project):
    """Whoever stops it learns in which sessions runs were open; these have ended, and not in silence."""
    with Maestro(project) as maestro:
        session = maestro.sessions.start("busy", tool="sleep 600")
        maestro.sessions.start("quiet")
        run = maestro.runs.start("x", session.id)
        wait_until(lambda: maestro.runs.read(run.id, session.id).status == "running", "it does not run")
        assert printed(project, "stack", "stop") == {"stopped": True, "with_runs": [session.id]}
        ended = maestro.runs.read(run.id, session.id)
        assert (ended.status, ended.error) == ("error", "its worker was stopped while it ran")
        assert printed(project, "stack", "stop") == {"stopped": True}


def test_what_could_not_be_archived_is_said(project):
    """The number is said, the command exits with 1, nothing is lost, and the next stack writes it."""
    with Maestro(project) as maestro:
        (session_id,) = started(maestro, 1)
        place = project / ".maestro" / "sessions" / session_id
        wait_until(lambda: session_id in archived(maestro), "it is not written")
        # First: the next pass of the scheduler must not find the place free.
        aside = place.rename(project / "aside")
        place.write_text("in the way")
        maestro.messages.add("user", "kept", session_id)
        done = maestro_command(project, "stack", "stop", "--json")
    assert (done.returncode, json.loads(done.stdout)) == (1, {"stopped": True, "unwritten": 1})
    assert "1 session is not archived" in done.stderr
    place.unlink()
    aside.rename(place)
    assert printed(project, "messages")["messages"][0]["content"] == "kept"
    assert printed(project, "stack", "stop") == {"stopped": True}
    assert "kept" in (place / "messages.jsonl").read_text()
