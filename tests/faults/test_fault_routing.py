"""Workers that differ in what they have, killed with a job in hand: nothing is lost, nothing is done twice."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli_runs import printed
from tests.support.team_workers import Team, team_of
from tests.support.waiting import wait_until

#: `maestro worker` whose whole process tree is killed when it has taken a job, or has claimed its run.
DIES = """
import os, signal, sys
from maestro_state._sync.claims import Claims
from maestro_workers.admission import Admission
from maestro_workers.team import work_together
point, root, *tools = sys.argv[1:]
parent = os.getpid()
def die(*_, **__):
    os.kill(parent, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
if point == "taken":
    assert callable(Admission.leaves_to_others)  # another name of it would kill nobody
    Admission.leaves_to_others = die
else:
    claim = Claims.claim
    Claims.claim = lambda *args: claim(*args) and die()
work_together(root, 1, tools=tools or None)
"""

#: A tool that leaves a mark of what it was asked each time it is called.
MARKS = """#!/bin/sh
case "$*" in *logs*|*version*) exit 0;; esac
read -r asked; echo "$asked" >> starts
"""


@pytest.fixture
def team(project: Path, tmp_path: Path) -> Iterator[Team]:
    """Run a server that a team shares."""
    with team_of(project, tmp_path) as found:
        yield found


def _tool(team: Team, folder: str) -> str:
    """Make the tool `llm` in a folder; return a PATH that has it."""
    path = team.programs(folder, "llm")
    (team.folder / folder / "llm").write_text(MARKS)
    return path


def _starts(team: Team) -> list[str]:
    path = team.project / "starts"
    return path.read_text().split() if path.exists() else []


def _dying(team: Team, path: str, point: str, *tools: str):
    return team.run([sys.executable, "-c", DIES, point, str(team.project), *tools], path)


@pytest.mark.parametrize(("point", "retries"), [("taken", 0), ("claimed", 1)])
def test_a_worker_killed_with_a_job_in_hand_loses_nothing(team: Team, point: str, retries: int):
    """Killed before the claim, the next worker that has the tool carries it out, once; killed after it, the run ends
    with that reason, or is tried again if it may be. A worker without the tool, idle all the time, never takes it.
    """
    path = _tool(team, "one")
    printed(team.project, "session", "start", "s", "--tool", "llm", env=team.env)
    idle = team.start(team.programs("two", "gemini"), "--tools", "gemini,cat")
    dies = _dying(team, path, point, "llm")
    with team.open() as maestro:
        row = team.row(dies)
        run = maestro.runs.start("first", retries=retries, history=0)
        assert dies.wait(60) == -signal.SIGKILL
        assert _starts(team) == [], "control: it was killed before the tool was called"
        waits = maestro.server.connection.call("LLEN", f"maestro:{{queue}}:{row.queue}")
        assert waits == 0, "control: no list has the job any more"
        maestro.workers.sign_off(row.id)  # as it would be ten seconds later
        wait_until(
            lambda: maestro.runs.waits_for(run.id) == "a worker with llm" or run_ended(maestro, run), "it says so"
        )
        team.start(path, "--tools", "llm")
        ended = maestro.runs.wait(run)
        assert team.row(idle).runs_done == 0
    if point == "claimed" and not retries:
        assert ended.status == "error"
        assert "worker" in ended.error
        assert _starts(team) == []
    else:
        assert ended.status == "success", ended.error
        assert _starts(team) == ["first"]


def run_ended(maestro, run) -> bool:
    return maestro.runs.read(run.id).status == "error"


def test_killed_workers_of_two_kinds_do_each_run_once(team: Team):
    """Each run's job waits for both kinds. One kind is killed again and again; every run ends, and none ran twice."""
    path = _tool(team, "one")
    printed(team.project, "session", "start", "s", "--tool", "llm", env=team.env)
    team.start(path, "--label", "steady")
    with team.open() as maestro:
        for _ in range(2):
            team.start(path, "--count", "2", "--label", "killed")
            runs = [maestro.runs.start(f"r{number}", history=0) for number in range(8)]
            seen = len(_starts(team))
            wait_until(lambda seen=seen: len(_starts(team)) > seen, "some of them have begun")
            killed = team.processes[-1]
            os.kill(killed.pid, signal.SIGKILL)
            killed.wait()
            ended = [maestro.runs.wait(run) for run in runs]
            lost = [run for run in ended if run.status != "success"]
            assert all("worker" in run.error for run in lost), "only what was under way there"
            assert len(lost) <= 2
    begun = _starts(team)
    assert all(begun.count(f"r{number}") <= 2 for number in range(8)), "twice asked for, at most twice begun"
    assert len(begun) >= 16 - 4
