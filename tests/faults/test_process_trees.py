"""Ending a run ends every process it started, in whatever groups and sessions they are. No server is needed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from maestro_workers import orphans
from maestro_workers.guard import Guard
from maestro_workers.invoke import Invocation, invoke

from tests.support import tree_kills
from tests.support.embedded_project import is_alive
from tests.support.programs import ROOT
from tests.support.tree_kills import LEAVES, Tree
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="trees are followed by calls that only Linux has")


@pytest.fixture
def tree(tmp_path):
    """Return what a tool will start; nothing of it survives the test."""
    tree = Tree(str(tmp_path))
    yield tree
    tree.end()


@pytest.mark.parametrize("end", tree_kills.ENDS.values(), ids=tree_kills.ENDS)
def test_nothing_a_tool_started_survives_its_run(tree, end):
    """Double forks, sessions of their own, environments of their own, three deep: all gone, however the run ends."""
    end(tree)
    assert tree.leaves() == []


def test_killing_the_group_alone_leaves_survivors(tree):
    """Control: what is ended above survives when only the tool's process group is killed."""
    tree_kills.kill_group(tree)
    assert len(tree.leaves()) >= LEAVES - 1


@pytest.fixture
def own_mark(monkeypatch):
    """Give a test marks of its own: survivors are looked for on the whole machine, by sweeps and by tests beside it."""
    monkeypatch.setattr(orphans, "MARK", f"MAESTRO_TEST_MARK_{os.getpid()}")
    least = 32 + 4 * (int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 8)
    monkeypatch.setattr(orphans, "LEVELS", (least, least + 3))


@pytest.mark.usefixtures("own_mark")
def test_what_worker_and_guard_could_not_end_is_found_by_its_marks(tree):
    """Both killed at once leave survivors (the control); the next look ends them, also who cleared its environment."""
    tree_kills.kill_both(tree)
    left = tree.leaves()
    assert len(left) >= LEAVES - 1
    marked = [pid for pid in left if orphans.MARK.encode() in Path(f"/proc/{pid}/environ").read_bytes()]
    assert len(marked) < len(left), "control: by its environment alone not all would be found"

    assert orphans.end_survivors() >= len(left)
    assert tree.leaves() == []


@pytest.mark.usefixtures("own_mark")
def test_a_lost_guards_processes_are_ended_by_a_worker_that_adopts_nobody(tree):
    """Of a guard that was killed nothing stays, whoever gets its orphans."""
    guard = Guard()
    try:
        devnull = os.open(os.devnull, os.O_RDWR)
        guard.start(tree_kills.argv(tree.number, tree.file), "/", {"PATH": os.environ["PATH"]}, [devnull] * 3)
        os.close(devnull)
        wait_until(tree.is_up, "the tool has not started everything")
        os.kill(guard.pid, signal.SIGKILL)
        os.waitid(os.P_PID, guard.pid, os.WEXITED | os.WNOWAIT)
        assert guard.end() == 0
        assert tree.leaves() == []
    finally:
        guard.close()


def test_a_limit_of_somebody_elses_is_no_mark(tmp_path):
    """Only numbers that nobody would ask for say anything; a run within a run has a mark of its own."""
    code = "import resource, time; resource.setrlimit(resource.RLIMIT_RTTIME, (200_000, 200_000)); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-S", "-c", code]) as process:
        limits = Path(f"/proc/{process.pid}/limits")
        wait_until(lambda: "200000" in limits.read_text(), "the limit is there")
        orphans.end_survivors()
        assert is_alive(process.pid)
        process.kill()
    inner = (
        "import resource, subprocess, sys; from maestro_workers import orphans; orphans.mark_by_limit()\n"
        "before = resource.getrlimit(resource.RLIMIT_RTTIME)\n"
        "if len(sys.argv) < 3: subprocess.run([sys.executable, '-c', sys.argv[1], sys.argv[1], 'x'], check=True)\n"
        "print(*before)"
    )
    done = subprocess.run([sys.executable, "-c", inner, inner], capture_output=True, check=True, cwd=ROOT)
    within, outer = (line.split() for line in done.stdout.decode().splitlines())
    assert (within[0], outer[0]) == (within[1], outer[1])
    assert int(within[0]) < int(outer[0])


@pytest.mark.usefixtures("own_mark")
def test_a_run_that_is_looked_after_is_no_survivor(tree):
    """A mark whose worker or guard lives is left alone, and so is one that is not ours to judge."""
    seen: list[int] = []

    def beat() -> str | None:
        if not tree.is_up():
            return None
        seen.append(orphans.end_survivors())
        return "canceled" if tree.is_up() else "killed"

    finished = tree_kills.call(tree.number, tree.file, None, beat)
    assert (finished.stopped, set(seen)) == ("canceled", {0})
    dead = orphans.place(os.getpid(), os.getpid()).replace(str(os.getpid()), "999999999")
    for mark in ("", "x", "pid:[1].999999999.1.999999999.1.ab", dead):
        environment = {"PATH": os.environ["PATH"], orphans.MARK: f"{mark}.ab" if mark == dead else mark}
        with subprocess.Popen(["sleep", "600"], env=environment) as process:
            orphans.end_survivors()
            assert is_alive(process.pid) == (mark != dead)
            process.kill()


def test_two_runs_at_once_are_two_trees(tmp_path):
    """Ending one run leaves the other's processes alone."""
    one, other = Tree(str(tmp_path)), Tree(str(tmp_path))
    guard = Guard()
    try:
        devnull = os.open(os.devnull, os.O_RDWR)
        guard.start(tree_kills.argv(other.number, other.file), "/", {"PATH": os.environ["PATH"]}, [devnull] * 3)
        os.close(devnull)
        wait_until(other.is_up, "the other tool has not started everything")
        tree_kills.cancel(one)
        assert one.leaves() == []
        assert other.is_up()
        assert guard.end() == 0
        assert other.leaves() == []
    finally:
        guard.close()


def test_a_guard_that_was_killed_is_replaced_before_the_next_tool(tmp_path):
    """The run that follows has a guard of its own, and ends as ever."""
    guard = Guard()
    os.kill(guard.pid, signal.SIGKILL)
    os.waitid(os.P_PID, guard.pid, os.WEXITED | os.WNOWAIT)
    said: list[bytes] = []
    code = "import os; print(os.getppid())"
    call = Invocation(
        [sys.executable, "-S", "-c", code], b"", str(tmp_path), {}, 60, said.append, lambda: None, 1, guard
    )

    assert invoke(call).exit_code == 0
    assert int(said[0]) == guard.pid
    guard.close()


def test_a_tool_that_forks_faster_than_it_is_killed_is_ended(tmp_path):
    """Processes that replace themselves all the time are stopped first, then killed."""
    code = (
        "import os, time\n"
        "end = time.time() + 600\n"
        "for _ in range(20):\n"
        "    if os.fork() == 0: break\n"
        "else:\n"
        "    print('up', flush=True); time.sleep(600)\n"
        "os.setsid()\n"
        "while time.time() < end:\n"
        "    if os.fork(): os._exit(0)\n"
        "    time.sleep(0.002)\n"
    )
    number = f"rabbit-{os.getpid()}"
    said: list[bytes] = []
    words = [sys.executable, "-S", "-c", code, number]
    invoke(Invocation(words, b"", str(tmp_path), {}, 60, said.append, lambda: "canceled" if said else None, 0.05))

    assert said
    lines = [line for _, line in tree_kills._command_lines() if line[-1] == number]
    assert lines == []
