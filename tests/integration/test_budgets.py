"""Budgets and limits with real workers, tools and terminals: what is used up ends runs, no crowd gets past a limit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import redis

from maestro_state.errors import OverBudget
from maestro_state.net import connect
from tests.support.accounts import guarded
from tests.support.embedded_project import is_alive
from tests.support.waiting import wait_until
from tests.support.workshop import Workshop

#: Says that it has consumed something, step by step as the real tool does, and goes on for ever.
OPENCODE = f"""#!{sys.executable} -IS
import json, os, sys, time
open("pid", "w").write(str(os.getpid()))
cost = float(sys.stdin.read().split()[-1])
while True:
    tokens = {{"input": 100, "output": 10, "reasoning": 0, "cache": {{"read": 0, "write": 0}}}}
    step = {{"reason": "tool-calls", "cost": cost, "tokens": tokens}}
    print(json.dumps({{"type": "step_finish", "sessionID": "s", "part": step}}), flush=True)
    time.sleep(0.05)
"""

#: Says with each answer what it took, as the real tool does, and goes on for ever.
CLAUDE = f"""#!{sys.executable} -IS
import json, sys, time
sys.stdin.read()
for number in range(10**9):
    answer = {{"id": f"a{{number}}", "usage": {{"input_tokens": 90, "output_tokens": 10}}, "content": []}}
    print(json.dumps({{"type": "assistant", "session_id": "s", "message": answer}}), flush=True)
    time.sleep(0.05)
"""

#: Carries a run out as a worker does, and is killed between its end and counting it.
KILLED = """
import os, signal, sys
from maestro_workers import run
run.count = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
run.Workshop(sys.argv[1]).carry_out(*sys.argv[2:])
"""


#: As many terminals as are wanted, each a process of its own, ask at the same moment and say how it went.
CROWD = """
import multiprocessing, os, sys
from maestro_state import Maestro
from maestro_state.errors import MaestroError

def ask(starting):
    with Maestro(sys.argv[1], user="ana", runs_per_user=3) as maestro:
        maestro.sessions.read(sys.argv[2])
        starting.wait()
        try:
            maestro.runs.start("hi", sys.argv[2])
            said = b"asked "
        except MaestroError as error:
            said = error.code.encode() + b" "
        os.write(1, said)

fork = multiprocessing.get_context("fork")
starting = fork.Barrier(int(sys.argv[3]))
asking = [fork.Process(target=ask, args=(starting,)) for _ in range(int(sys.argv[3]))]
for one in asking: one.start()
for one in asking: one.join()
"""


@pytest.fixture
def tool_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Have the stand-in be `opencode`, here and where workers run."""
    program = tmp_path / "opencode"
    program.write_text(OPENCODE)
    program.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    monkeypatch.setenv("PATH", path)
    return path


def test_a_run_that_goes_beyond_its_budget_is_ended(shop: Workshop, tool_path: str):
    """With the sum as reason, the tool and all; the next is refused before it is recorded; others go on."""
    shop.start_worker(PATH=tool_path)
    maestro = shop.open(user="ana")
    session = maestro.sessions.start("one", tool="opencode")
    maestro.budgets.set(user="ana", cost=5)
    run = maestro.runs.wait(maestro.runs.start("each step costs 2", session.id), session.id)
    assert run.status == "error"
    assert run.error is not None
    assert run.error.startswith("the budget of ana for today is used up: $")
    assert run.error.endswith(" of $5.00 (maestro budget list); it was ended")
    wait_until(lambda: not is_alive(int((shop.project / "pid").read_text())), "the tool is gone")
    wait_until(lambda: maestro.ledger.counters().get("runs|opencode|error"), "it is counted")
    (budget,) = maestro.budgets.list()
    assert (budget.spent, budget.left) == (run.usage.cost, 0)
    with pytest.raises(OverBudget):
        maestro.runs.start("again", session.id)
    ben = shop.open(user="ben")
    assert ben.runs.wait(ben.runs.start("hi", session.id, tool="echo"), session.id).status == "success"


@pytest.mark.parametrize("how", ["canceled", "beyond its budget"])
def test_what_a_tool_told_before_it_was_ended_is_in_its_record(shop: Workshop, tool_path: str, how: str):
    """Its last line, which has the counts for good, never came: record, `usage` and ledger say the same."""
    program = Path(tool_path.partition(":")[0], "claude")
    program.write_text(CLAUDE)
    program.chmod(0o755)
    shop.start_worker(PATH=tool_path)
    maestro = shop.open(user="ana")
    session = maestro.sessions.start("one", tool="claude")
    maestro.budgets.set(user="ana", tokens=1000 if how == "beyond its budget" else 10**9)
    run = maestro.runs.start("hi", session.id)
    if how == "canceled":
        wait_until(lambda: maestro.budgets.list()[0].spent, "it was charged")
        maestro.runs.cancel(run.id, session.id)
    ended = maestro.runs.wait(run, session.id)
    assert ended.status == ("canceled" if how == "canceled" else "error")
    assert ended.usage is not None
    told = ended.usage.tokens_input + ended.usage.tokens_output
    assert told > 0
    assert told % 100 == 0
    assert maestro.budgets.list()[0].spent == told
    assert maestro.usage().total.tokens_input == ended.usage.tokens_input


def test_a_worker_holds_to_the_budget_whoever_asked(shop: Workshop, tool_path: str):
    """A terminal that does not ask for budgets gets a run that ends before its tool is started."""
    maestro = shop.open(user="ana")
    session = maestro.sessions.start("one", tool="opencode")
    run = maestro.runs.start("each step costs 2", session.id)
    maestro.budgets.set(session=session.id, tokens=0)
    shop.start_worker(PATH=tool_path)
    ended = maestro.runs.wait(run, session.id)
    assert (ended.status, ended.output_ref) == ("error", None)
    assert f"the budget of session {session.id} is used up: 0 tokens of 0 tokens" in (ended.error or "")
    assert not (shop.project / "pid").exists()


def test_a_crowd_of_terminals_never_exceeds_a_limit(shop: Workshop):
    """Twenty ask at once and three may: three get their run, seventeen one line; when all are over, three more may."""
    maestro = shop.open(user="ana")
    session = maestro.sessions.start("one", tool="echo")

    def ask(count: int) -> list[str]:
        argv = [sys.executable, "-c", CROWD, str(shop.project), session.id, str(count)]
        return sorted(subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True).stdout.split())

    assert ask(20) == ["asked"] * 3 + ["too_many_runs"] * 17
    assert len(maestro.runs.list(session.id)) == 3
    for run in maestro.runs.list(session.id):
        maestro.runs.cancel(run.id, session.id)
    assert ask(5) == ["asked"] * 3 + ["too_many_runs"] * 2


def test_a_worker_killed_before_counting_leaves_a_run_that_is_counted_once(shop: Workshop, raw: redis.Redis):
    """The sweep counts it, however often it comes."""
    maestro = shop.open(user="ana")
    session = maestro.sessions.start("one", tool="echo")
    run = maestro.runs.start("hi", session.id)
    killed = subprocess.run([sys.executable, "-c", KILLED, str(shop.project), session.id, run.id], check=False)
    assert killed.returncode == -9
    assert maestro.runs.read(run.id, session.id).status == "success"
    assert maestro.ledger.counters() == {}, "the control: it was killed in time"
    for _ in range(3):
        maestro.sweep()
    assert maestro.ledger.counters()["runs|echo|success"] == 1
    assert raw.hlen(maestro.server.terms.keys.ledger()[2]) == 0


def test_what_a_run_came_to_is_charged_before_its_record_says_so(shop: Workshop, tool_path: str, raw: redis.Redis):
    """A record is its session's: who takes the usage out of it before it is counted has consumed it all the same."""
    Path(tool_path.partition(":")[0], "opencode").write_text(
        OPENCODE.replace("while True:", "for _ in [1]:").replace("tool-calls", "stop")
    )
    maestro = shop.open(user="ana")
    maestro.budgets.set(user="ana", cost=5)
    session = maestro.sessions.start("one", tool="opencode")
    run = maestro.runs.start("0.4", session.id)
    killed = subprocess.run([sys.executable, "-c", KILLED, str(shop.project), session.id, run.id], check=False)
    assert killed.returncode == -9
    assert maestro.runs.read(run.id, session.id).usage.cost == 0.4
    runs = maestro.server.terms.keys.of_session(session.id, "runs")
    raw.hset(runs, f"{run.id}:end", b'{"finished_at":"2026-01-01T00:00:00+00:00"}')
    maestro.sweep()
    assert maestro.ledger.counters()["runs|opencode|success"] == 1
    assert "cost|opencode" not in maestro.ledger.counters(), "the control: its record said nothing any more"
    assert [one.spent for one in maestro.budgets.list()] == [0.4]


@pytest.mark.xdist_group("busy")
def test_no_terminal_writes_the_ledger_past_maestro(tmp_path: Path):
    """Its account reads what is left of a budget and writes nothing of it; a worker's may: the control."""
    key = "left:{@ledger}:budgets"
    writes = [
        ("HSET", key, "user:day:cost:ana", "{}"), ("DEL", key), ("HDEL", key, "x"), ("EXPIRE", key, "1"),
        ("EVAL", "return redis.call('HSET', KEYS[1], 'x', '1')", "1", key),
        ("EVAL", f"return redis.call('HSET', '{key}', 'x', '1')", "0"),
        ("HINCRBY", "left:{@ledger}:day:2026-01-01", "user:cost:ana", "-5"),
    ]  # fmt: skip
    with guarded(tmp_path, ("ana", "terminal", "left"), ("work", "worker", "left")) as team:
        terminal, worker = connect(team.url("ana")), connect(team.url("work"))
        try:
            for command in writes:
                with pytest.raises(Exception, match=r"NOPERM|No permissions|ACL failure"):
                    terminal.call(*command)
                worker.call(*command)
            assert terminal.call("HGETALL", key) == worker.call("HGETALL", key)
            terminal.call("SET", "left:{one--abcdef}", "x", "EX", "9")
        finally:
            terminal.close()
            worker.close()
