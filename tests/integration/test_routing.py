"""Runs and real workers that differ in what they have: tools, labels, folders; and the order of runs that wait."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from maestro_state import Maestro
from maestro_state.errors import NoFittingWorker
from maestro_state.state.calls.health import Check
from tests.support.cli_runs import maestro_command, printed, refused
from tests.support.team_workers import Team, team_of
from tests.support.waiting import wait_until


@pytest.fixture
def team(project: Path, tmp_path: Path) -> Iterator[Team]:
    """Run a server that a team shares."""
    with team_of(project, tmp_path) as found:
        yield found


def test_a_run_goes_to_the_worker_that_has_its_tool(team: Team):
    """However idle the other is; a tool that neither has is refused before anything is recorded, with what there is."""
    one = team.start(team.programs("one", "llm"), "--label", "big")
    two = team.start(team.programs("two", "gemini"), "--count", "2")
    printed(team.project, "session", "start", "s", "--tool", "llm", env=team.env)
    with team.open() as maestro:
        runs = [maestro.runs.start(f"number {number}") for number in range(6)]
        assert [maestro.runs.wait(run).status for run in runs] == ["success"] * 6
        assert all(maestro.runs.output(run.id).startswith(b"one ") for run in runs)
        for process, done in ((one, 6), (two, 0)):
            wait_until(lambda process=process, done=done: team.row(process).runs_done == done, "it counts its runs")
        labelled = maestro.runs.wait(maestro.runs.start("p", tool="cat", labels=["big"]))
        assert labelled.status == "success"
        wait_until(lambda: team.row(one).runs_done == 7, "the one with the label did it")

        code, error = refused(team.project, "run", "p", "--tool", "codex", env=team.env)
        assert (code, error["code"]) == (3, "no_fitting_worker")
        assert error["message"] == "no worker has codex; those there have echo, gemini, llm"
        code, error = refused(team.project, "run", "p", "--label", "gpu", env=team.env)
        assert (code, error["message"]) == (3, "no worker has label gpu; those there have labels big")
        assert len(maestro.runs.list()) == 7

        # What they are told to have counts, and versions are told when they were found out.
        wait_until(lambda: all(tool.version for tool in team.row(one).tools), "it knows the versions of its tools")
        (first, second) = sorted(
            printed(team.project, "workers", env=team.env)["workers"], key=lambda row: row["labels"]
        )
        assert (first["pid"], second["pid"]) == (two.pid, one.pid)
        assert {"name": "llm", "version": "llm, version 1.2.3"} in second["tools"]
        assert second["projects"] == [str(team.project)]
        shown = maestro_command(team.project, "workers", env=team.env).stdout
        assert "llm 1.2.3" in shown
        checked = printed(team.project, "tool", "check", "llm", "--workers", env=team.env)["tools"]
        assert checked == [
            {"name": "llm", "status": "ok", "workers": [{"host": os.uname().nodename, "version": "llm, version 1.2.3"}]}
        ]
        assert _exit_code(team, "tool", "check", "codex", "--workers") == 1
        told = {check["name"]: check["detail"] for check in _checks(team)}
        assert told["worker tools"] == "gemini, llm found on the workers"
        without = {check.name: check for check in _checks_where_no_tool_is(team)}
        assert (without["tools"].status, without["tools"].detail) == (
            "ok",
            "none on PATH here; runs use those of the workers",
        )


def test_a_program_that_only_a_worker_has_can_be_asked_for_from_anywhere(team: Team):
    """Once the worker says that it has it: before, nobody can tell it from a name that was misspelled."""
    path = team.programs("one", "analyse")
    printed(team.project, "session", "start", "s", "--tool", "echo", env=team.env)
    plain = team.start(path)
    code, error = refused(team.project, "run", "p", "--tool", "analyse --deep", env=team.env)
    assert (code, error["code"]) == (3, "unknown_tool")
    team.start(path, "--tools", "analyse")
    plain.terminate()
    plain.wait()
    used = printed(team.project, "use", "analyse --deep", env=team.env)
    assert used["tool_active"] == "analyse --deep"
    with team.open() as maestro:
        for tool in (None, "analyse"):
            run = maestro.runs.wait(maestro.runs.start("p", tool=tool))
            assert (run.status, run.error) == ("success", None)
            assert maestro.runs.output(run.id).startswith(b"one ")
        assert maestro.sessions.start("other", tool="analyse").tool_active == "analyse"
        assert maestro.runs.preview("p").argv == ["analyse"]


def _exit_code(team: Team, *words: str) -> int:
    return maestro_command(team.project, *words, env=team.env).returncode


def _checks_where_no_tool_is(team: Team) -> list[Check]:
    with team.open() as maestro, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(team.folder / "none"))
        return maestro.health.checks()


def _checks(team: Team) -> list[dict[str, str]]:
    return json.loads(maestro_command(team.project, "doctor", "--json", env=team.env).stdout)["checks"]


def test_a_worker_takes_no_run_of_a_tool_it_was_not_told_to_have(team: Team):
    """A run asked for when nobody was there waits on for one that has its tool, and says so."""
    path = team.programs("one", "llm", "gemini")
    printed(team.project, "session", "start", "s", "--tool", "llm", env=team.env)
    with team.open() as maestro:
        early = maestro.runs.start("early")
        team.start(path, "--tools", "gemini")
        assert maestro.runs.wait(maestro.runs.start("p", tool="gemini")).status != "pending"
        wait_until(lambda: not maestro.server.connection.call("LLEN", "rq:queue:maestro"), "it was taken, and left")
        assert maestro.runs.read(early.id).status == "pending"
        assert maestro.runs.waits_for(early.id) == "a worker with llm"
        with pytest.raises(NoFittingWorker, match="no worker has cat"):
            maestro.runs.start("p", tool="cat")
        team.start(path, "--tools", "llm")
        assert maestro.runs.wait(early).status == "success"


def test_limits_that_a_worker_is_told_hold_for_terminals_that_are_told_none(team: Team):
    """Whoever runs the workers says how much may be open at once; the control is a worker that says nothing."""
    path = team.programs("one", "llm")
    strict = team.start(path, MAESTRO_RUNS_PER_USER="1")
    assert (team.row(strict).runs_per_user, team.row(strict).runs_per_session) == (1, 0)
    printed(team.project, "session", "start", "s", "--tool", "tail -f /dev/null", env=team.env)
    first = printed(team.project, "run", "p", "--detach", env=team.env)
    code, error = refused(team.project, "run", "p", "--tool", "llm", env=team.env)
    assert (code, error["code"]) == (4, "too_many_runs")
    assert first["id"] in error["message"]
    strict.terminate()
    with team.open() as maestro:
        maestro.runs.cancel(first["id"])
        assert strict.wait(60) == 0
        assert maestro.runs.wait(maestro.runs.read(first["id"])).status == "canceled"
        team.start(path)
        runs = [maestro.runs.start("p", tool="llm") for _ in range(3)]
        assert [maestro.runs.wait(run).status for run in runs] == ["success"] * 3


def test_folders_are_mapped_and_nothing_leads_out_of_them(team: Team):
    """A run works where the worker has the folder of whoever asked; else it ends with what to do, and the next ones are
    refused at once.
    """
    shop = team.folder / "checkouts" / "shop"
    (shop / "src").mkdir(parents=True)
    (team.folder / "checkouts" / "shopping").mkdir()
    (shop / "out").symlink_to(team.folder)
    team.start(team.programs("one"), MAESTRO_PATHS=f"/home/ana/shop={shop}:/home/ana/shop/deep={team.folder}/none")
    printed(team.project, "session", "start", "s", "--tool", "pwd", env=team.env)

    with team.open() as maestro:

        def works_in(folder: str) -> str:
            maestro.sessions.set("working_directory", folder)
            run = maestro.runs.wait(maestro.runs.start("p"))
            return maestro.runs.output(run.id).decode().strip() or run.error

        assert works_in("/home/ana/shop") == str(shop)
        assert works_in("/home/ana/shop/./src/") == str(shop / "src")
        assert works_in(str(team.folder)) == str(team.folder), "a folder that is there by its own name is that one"
        assert "a link that leads out of" in works_in("/home/ana/shop/out")
        for folder in ("/home/ana/shopping", "/home/ana/shop/../shopping", "/home/ana/shop/deep"):
            assert "MAESTRO_PATHS" in works_in(folder)
            wait_until(lambda folder=folder: folder in maestro.workers.list()[0].lacks, "the list says so")
            with pytest.raises(NoFittingWorker, match="no worker has the folder"):
                maestro.runs.start("p")
        (team.folder / "none").mkdir()
        wait_until(lambda: "/home/ana/shop/deep" not in maestro.workers.list()[0].lacks, "it looks again")
        assert works_in("/home/ana/shop/deep") == str(team.folder / "none")


def test_a_folder_that_one_worker_lacks_is_found_by_another(team: Team):
    """The one that lacks it leaves the run alone, though both might have had it as far as anybody knew."""
    place = team.folder / "here"
    place.mkdir()
    path = team.programs("one")
    lacking = team.start(path)
    team.start(path, MAESTRO_PATHS=f"/home/ana/shop={place}")
    printed(team.project, "session", "start", "s", "--tool", "pwd", env=team.env)
    with team.open() as maestro:
        maestro.sessions.set("working_directory", "/home/ana/shop")
        runs = [maestro.runs.start("p") for _ in range(4)]
        ended = [maestro.runs.wait(run) for run in runs]
        assert [run.error for run in ended] == [None] * 4
        assert {maestro.runs.output(run.id) for run in ended} == {f"{place}\n".encode()}
        assert team.row(lacking).runs_done == 0


def test_priorities_are_kept_by_a_busy_worker(team: Team):
    """While its worker is busy, what is asked for waits in the order of its priority, and is taken in that order."""
    gate = team.folder / "gate"
    os.mkfifo(gate)
    busy = shlex.join([sys.executable, "-S", "-c", f"open({str(gate)!r}).read()"])
    team.start(team.programs("one"))
    printed(team.project, "session", "start", "s", "--tool", "cat", env=team.env)
    with team.open() as maestro:
        first = maestro.runs.start("p", tool=busy)
        wait_until(lambda: maestro.runs.read(first.id).status == "running", "the worker is busy")
        asked = [
            printed(team.project, "run", "p", "--detach", "--priority", word, env=team.env)
            for word in ("low", "normal", "high")
        ]
        assert [run["priority"] for run in asked] == ["low", "normal", "high"]
        assert [maestro.runs.ahead(run["id"]) for run in asked] == [2, 1, 0]
        gate.write_text("")
        ended = [maestro.runs.wait(maestro.runs.read(run["id"])) for run in asked]
        low, normal, high = (run.started_at for run in ended)
        assert high < normal < low
        listed = maestro_command(team.project, "runs", env=team.env).stdout
        assert "↓ p" in listed
        assert "↑ p" in listed


#: `maestro worker` that searches for tools all the time.
SEARCHES = """
import sys
from maestro_workers.pool import presence
from maestro_workers.team import work_together
presence.TOOLS_S = 0.0
work_together(sys.argv[1], 1)
"""


def test_a_tool_that_is_installed_later_is_found(team: Team):
    """The workers say that they have it, and take its runs; what they were started with is gone."""
    path = team.programs("one")
    process = team.run([sys.executable, "-c", SEARCHES, str(team.project)], path)
    before = team.row(process).queue
    printed(team.project, "session", "start", "s", "--tool", "llm", env=team.env)
    with team.open() as maestro:
        with pytest.raises(NoFittingWorker, match="no worker has llm"):
            maestro.runs.start("p")
        team.install("one", "llm")
        wait_until(lambda: team.row(process).queue != before, "it has found the tool")
        assert maestro.runs.wait(maestro.runs.start("p")).status == "success"
        wait_until(
            lambda: next(tool.version for tool in team.row(process).tools if tool.name == "llm"), "and its version"
        )


def test_an_account_made_before_there_were_priorities_goes_on(team: Team):
    """Its runs wait in the order they came in; nothing is refused."""
    with redis.Redis(port=team.server.port) as raw:
        raw.execute_command("ACL", "SETUSER", "old", "on", ">secret", "~*", "&*", "+@all", "-linsert")
        url = f"redis://old:secret@127.0.0.1:{team.server.port}"
        with Maestro(team.project, redis_url=url) as old, team.open() as new:
            old.sessions.start("s", tool="cat")
            for maestro, priority in ((old, "normal"), (old, "high"), (new, "high")):
                maestro.runs.start("p", priority=priority)
        waiting = [job.decode().split("_")[2] for job in raw.lrange("rq:queue:maestro", 0, -1)]
    assert sorted(waiting) == ["0001", "0002", "0003"]
    assert waiting.index("0002") > waiting.index("0001"), "control: this one could not be put before the other"


#: What a worker is told, its exit code, and what it says.
NONSENSE = (
    (("--tools", "nope"), None, 3, "'nope' is neither a tool Maestro knows nor a program found on PATH"),
    (("--tools", "codex"), None, 3, "'codex' is not installed here"),
    (("--tools", "cat,"), None, 2, "--tools names tools, with a comma between two"),
    (("--label", "two words"), None, 2, "'two words' is not a label"),
    ((), "/home/ana", 2, "paths (env MAESTRO_PATHS): '/home/ana' is not valid; allowed: "),
)


def test_a_worker_that_is_told_nonsense_says_so_in_one_line(team: Team):
    """It does not start, and says what to write instead."""
    for words, paths, code, said in NONSENSE:
        told = team.env | {"PATH": "/usr/bin:/bin"} | ({"MAESTRO_PATHS": paths} if paths else {})
        done = maestro_command(team.project, "worker", *words, env=told)
        assert done.returncode == code
        assert done.stderr.startswith(f"maestro: {said}")
        assert done.stderr.count("\n") == 1
        assert " → " in done.stderr
