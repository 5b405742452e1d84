"""`record`: what any agent says, calls and spends is in the session; and nothing of the agent fails for want of it."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from maestro_state import Maestro, record
from maestro_state.recording import writer_thread
from tests.support.servers import valkey
from tests.support.waiting import wait_until


def said(maestro, ref="record:work"):
    """Return role, text and run of every message."""
    return [(one.role, one.content, (one.metadata or {}).get("run")) for one in maestro.messages.since(ref=ref)]


def test_a_block_is_a_run(real):
    """Messages, a tool's call and result, tokens and cost: for `messages`, `runs`, `usage` and the archive."""
    with record("work", agent="triage", project=real.project) as r:
        r.system("be brief")
        r.user("why does the login fail?", ticket=7)
        with r.tool("grep", args={"pattern": "login"}) as call:
            call.result = ["a.py:3"]
        r.assistant("Let me see.", model="m1", tokens=SimpleNamespace(input_tokens=100, output_tokens=5), cost=0.001)
        r.assistant("The cookie expires.", tokens=(1100, 75), cost=0.003)
        r.assistant("", tokens={"prompt_tokens": 1, "completion_tokens": 2})
    assert (r.unwritten, r.lost) == (0, 0)

    with real.open() as maestro:
        assert r.session_id == maestro.bindings.find("record", "work")
        found = maestro.messages.since(ref="record:work")
        assert [(one.role, one.content) for one in found][:4] == [
            ("system", "be brief"),
            ("user", "why does the login fail?"),
            ("assistant", ""),
            ("tool", '["a.py:3"]'),
        ]
        assert found[1].metadata == {"ticket": 7, "tool": "triage", "run": "0001"}
        assert found[2].tool_calls == [{"id": call.id, "name": "grep", "arguments": {"pattern": "login"}}]
        assert found[3].tool_results == [{"call_id": call.id, "content": '["a.py:3"]'}]
        assert found[4].metadata == {
            "run": "0001", "model": "m1", "tokens_input": 100, "tokens_output": 5, "cost": 0.001
        }  # fmt: skip
        (run,) = maestro.runs.list("record:work")
        assert (run.tool, run.status, run.usage.model) == ("triage", "success", "m1")
        assert (run.usage.tokens_input, run.usage.tokens_output, run.usage.cost) == (1201, 82, 0.004)
        assert maestro.runs.output("1", "record:work") == b"The cookie expires."
        assert maestro.usage(by="tool").total.cost == 0.004
        counters = maestro.ledger.counters()
        assert (counters["runs|other|success"], counters["cost|other"]) == (1, 4_000_000)
        maestro.sessions.end("record:work")
        assert maestro.archive.verify(r.session_id).ok
        real.raw.flushall()
        assert maestro.usage(by="tool").rows[0].key == "triage"


def test_a_decorator_records_calls(real):
    """What a function was called with, returned and raised; of what is named like a secret, nothing."""
    log = record("work", project=real.project)

    @log.tool("look")
    def look(place):
        return f"seen {place}"

    @log
    def answer(question, *, api_key=None, **options):
        """Answer."""
        assert look("here") == "seen here"
        return {"answer": 42}

    @log
    async def fail(question):
        await asyncio.sleep(0)
        raise ValueError("no\nway")

    assert answer("why?", api_key="hunter2", password="hunter2", pace=2) == {"answer": 42}
    assert (answer.__name__, answer.__doc__) == ("answer", "Answer.")
    with pytest.raises(ValueError, match="no"):
        asyncio.run(fail("how?"))
    with pytest.raises(TypeError, match="generator"):
        log(_generator)

    with real.open() as maestro:
        texts = said(maestro)
        assert [one[0] for one in texts] == ["user", "assistant", "tool", "assistant", "user"]
        hidden = "'[not recorded]'"
        options = f"{{'password': {hidden}, 'pace': 2}}"
        assert texts[0][1].endswith(f"answer(question='why?', api_key={hidden}, options={options})")
        assert texts[2][1] == "seen here"
        assert texts[3][1:] == ('{"answer":42}', "0001")
        assert [(run.status, run.error) for run in maestro.runs.list("record:work")] == [
            ("success", None),
            ("error", "ValueError: no"),
        ]
        assert "hunter2" not in str(maestro.messages.since(ref="record:work"))


def _generator():
    yield


def test_a_tool_that_fails_says_so(real):
    """The agent gets its exception, the session the reason."""
    with record("work", project=real.project) as r:
        with pytest.raises(KeyError), r.tool("look", args=[1]):
            raise KeyError("nothing there")
        r.user("go on")
    with real.open() as maestro:
        (_, result, _) = maestro.messages.since(ref="record:work")
        assert result.tool_results[0]["is_error"] is True
        assert result.content == "KeyError: 'nothing there'"


async def test_blocks_at_once_are_apart(real):
    """Tasks and threads, each with its own run, through one recorder; a thread inside a block belongs to it."""
    log = record("work", project=real.project)

    async def awaited(number):
        async with log:
            log.user(f"task {number}")
            await asyncio.sleep(0)
            log.assistant(f"answer of task {number}", tokens=number)

    def threaded(number):
        with log:
            log.user(f"thread {number}")
            helper = threading.Thread(target=lambda: None)
            helper.start()
            helper.join()
            log.assistant(f"answer of thread {number}", tokens=number)

    threads = [asyncio.to_thread(threaded, number) for number in range(4)]
    await asyncio.gather(*(awaited(number) for number in range(4)), *threads)
    with log:
        log.user("alone")
        thread = threading.Thread(target=log.assistant, args=("from a thread",))
        thread.start()
        thread.join()
    with real.open() as maestro:
        of_run = {}
        for _, content, run in said(maestro):
            of_run.setdefault(run, []).append(content)
        assert len(of_run) == 9
        assert all(second in (f"answer of {first}", "from a thread") for first, second in of_run.values())
        assert {run.usage.tokens_output for run in maestro.runs.list("record:work") if run.usage} == {0, 1, 2, 3}


def test_which_session_it_is(real):
    """One that somebody began by that name, the checkout's, one by its id, a framework's; it goes on after its end."""
    with real.open() as maestro:
        started = maestro.sessions.start("mine")
        bound = maestro.bindings.ensure("openai", "customer-42")
        for name in ("mine", None, started.id):
            with record(name, project=real.project) as r:
                r.user("hello")
            assert r.session_id == started.id
        with record("openai:customer-42", maestro=maestro) as r:
            r.user("hello")
        assert r.session_id == bound
        assert maestro.sessions.read(bound).state  # a Maestro that is given stays open

        maestro.sessions.end(started.id)
        with record(started.id, project=real.project) as r:
            r.user("again")
        assert maestro.sessions.read(r.session_id).forked_from == started.id
        assert [content for _, content, _ in said(maestro, r.session_id)] == ["hello"] * 3 + ["again"]


def test_anything_can_be_said(real):
    """Values of any kind and size become something that can be kept; slips in a program are told at once."""

    class Odd:
        def __repr__(self):
            raise RuntimeError("not today")

    circle = []
    circle.append(circle)
    with record("work", project=real.project) as r:
        r.user("half \ud83d a character", odd=Odd(), circle=circle, big=2**80, numbers={1: {2, 3}})
        with r.tool("look", args=Odd()) as call:
            call.result = b"bytes"
        r.assistant("x" * 2_000_000)
        with pytest.raises(TypeError, match="tokens"):
            r.assistant("hello", tokens="many")
        with pytest.raises(TypeError, match="cost"):
            r.assistant("hello", cost="much")
    assert r.lost == 0
    with pytest.raises(TypeError, match="projct"):
        record("work", projct=real.project)
    with pytest.raises(TypeError, match="session"):
        record("")
    with real.open() as maestro:
        assert [len(content) for _, content, _ in said(maestro)] == [18, 0, 5, pytest.approx(1_000_000, abs=100)]


def test_what_is_refused_is_left_out(real, caplog):
    """Counted and logged; what came with it is there."""
    with record("work", project=real.project, max_blob_bytes=100_000) as r:
        r.user("first")
        for number in range(5):
            r.assistant("y" * 200_000 if number == 2 else str(number))
    assert r.lost == 1
    assert "not recorded" in caplog.text
    with real.open() as maestro:
        assert [content for _, content, _ in said(maestro)] == ["first", "0", "1", "3", "4"]


def test_a_server_that_is_away_is_waited_for(tmp_path, project, caplog):
    """Nothing fails and nothing waits meanwhile; when it is back everything is there, once and in order."""
    with valkey(tmp_path) as server:
        with record("work", project=project, redis_url=server.url) as r:
            r.user("first")
        server.kill()
        with r:
            for number in range(20):
                r.user(f"question {number}")
                r.assistant(f"answer {number}", cost=0.5)
        assert r.unwritten  # the fault bites
        assert not r.flush(timeout_s=0.01)
        assert "is away" in caplog.text
        server.restart()
        assert r.flush(timeout_s=60)
        with Maestro(project, redis_url=server.url) as maestro:
            contents = [content for _, content, _ in said(maestro)]
            assert contents == ["first", *(f"{what} {n}" for n in range(20) for what in ("question", "answer"))]
            assert maestro.usage().total.cost == 10.0


def test_memory_has_an_end(tmp_path, project, caplog, monkeypatch):
    """While a server is away no more is kept than fits; what is left out is counted."""
    monkeypatch.setattr(writer_thread, "KEPT", 10)
    with valkey(tmp_path) as server:
        with record("work", project=project, redis_url=server.url) as r:
            r.user("first")
        server.kill()
        for number in range(30):
            r.user(str(number))
        assert r.lost >= 19
        server.restart()
        assert r.flush(timeout_s=60)
        assert "too many entries" in caplog.text


PROGRAM = """
import sys
from maestro_state import record
with record("work", project=sys.argv[1]) as r:
    for number in range(100_000):
        r.user(str(number))
        assert r.flush()
        print(number, flush=True)
"""


def test_what_was_flushed_outlives_a_kill(real):
    """Every entry that the agent was told of is there, once; the run that was cut off ends with that reason."""
    with subprocess.Popen([sys.executable, "-c", PROGRAM, str(real.project)], stdout=subprocess.PIPE) as agent:
        told = [agent.stdout.readline() for _ in range(5)]
        agent.kill()
        assert agent.wait() < 0  # the fault bites: it had 100 000 to say
    with real.open() as maestro:
        contents = [int(content) for _, content, _ in said(maestro)]
        assert contents == list(range(len(contents)))
        assert len(contents) >= len(told)

        def is_ended():
            maestro.claims.recover()
            return maestro.runs.read("1", "record:work").status == "error"

        wait_until(is_ended, "the run of a killed agent is not ended")


def test_a_program_that_ends_writes_what_is_left(real):
    """Without a block and without a flush."""
    program = "import sys; from maestro_state import record; record('work', project=sys.argv[1]).user('bye')"
    subprocess.run([sys.executable, "-c", program, str(real.project)], check=True)
    with real.open() as maestro:
        assert said(maestro) == [("user", "bye", None)]


LATE = """
import sys
from maestro_state import record
class Agent:
    def __init__(self):
        self.log = record("work", project=sys.argv[1])
    def __del__(self):
        with self.log as r:
            r.user("too late")
        print(r.lost, "lost", flush=True)
agent = Agent()
if sys.argv[2] == "used":
    agent.log.user("in time")
    agent.log.flush()
"""


@pytest.mark.parametrize("before", ["used", "new"])
def test_a_program_that_is_over_waits_for_nothing(real, before):
    """What an object says while the interpreter takes it apart, when no thread runs any more, is left out."""
    ended = subprocess.run(
        [sys.executable, "-c", LATE, str(real.project), before], timeout=60, capture_output=True, text=True, check=True
    )
    assert ended.stdout == "2 lost\n"
    assert "not recorded (user): the program is over" in ended.stderr
    with real.open() as maestro:
        assert maestro.bindings.find("record", "work") is None or said(maestro) == [("user", "in time", None)]


def test_a_forked_child_writes_its_own(real):
    """And nothing of its parent's."""
    r = record("work", project=real.project)
    r.user("parent")
    child = os.fork()
    if child == 0:
        try:
            r.user("child")
            os._exit(0 if r.flush() else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert r.flush()
    with real.open() as maestro:
        assert sorted(content for _, content, _ in said(maestro)) == ["child", "parent"]


def test_nothing_of_it_is_imported_before_it_is_used():
    """A program that records nothing pays for nothing."""
    program = (
        "import sys, maestro_state;"
        "print([name for name in sys.modules if name.startswith(('maestro_state.', 'asyncio', 'msgspec'))]);"
        "maestro_state.record"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.fixture(autouse=True)
def heard(caplog):
    """Hear what is logged, whatever other tests have set."""
    caplog.set_level(logging.WARNING, logger="maestro_state.record")
