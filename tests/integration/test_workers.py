"""Runs carried out by real workers: what is promised when all goes well, and what of the output."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import signal
import socket
import sys

import pytest

from tests.support.waiting import wait_until
from tests.support.workshop import Workshop


def test_twenty_runs_at_once_on_four_workers(shop: Workshop):
    """Each run has its own prompt, output and end; nothing is lost, doubled or mixed."""
    for _ in range(4):
        shop.start_worker()
    maestro = shop.open()
    maestro.sessions.start("many", tool="cat")
    runs = [maestro.runs.start(f"prompt {number}\n" * 100, history=0) for number in range(20)]
    ended = [maestro.runs.wait(run) for run in runs]

    assert [run.status for run in ended] == ["success"] * 20
    for number, run in enumerate(ended):
        output = maestro.runs.output(run.id)
        assert output == f"prompt {number}\n".encode() * 100
        assert run.output_ref.digest == hashlib.sha256(output).hexdigest()
    record = maestro.sessions.read()
    assert (record.state, record.stats.runs_success, record.stats.runs_total) == ("com_saida", 20, 20)
    assert len({run.id for run in maestro.runs.list()}) == 20


def test_output_above_the_limit_ends_the_run_with_what_was_captured(shop: Workshop):
    """The limit ends the tool, keeps exactly that much, and says so."""
    shop.start_worker(MAESTRO_MAX_OUTPUT_BYTES="100000")
    maestro = shop.open()
    maestro.sessions.start("limit", tool="yes")
    ended = maestro.runs.wait(maestro.runs.start("go"))

    assert ended.status == "error"
    assert "limit of 100000 bytes" in ended.error
    assert ended.output_ref.size == 100_000
    assert maestro.runs.output(ended.id) == b"y\n" * 50_000
    assert maestro.sessions.read().state == "com_saida"


#: A stand-in for a JSON tool that says everything in its last line, which has no end.
ONE_LINE = """#!{python}
import json, sys
size = int(sys.stdin.read())
said = {{"type": "result", "subtype": "success", "is_error": False, "result": "x" * size}}
sys.stdout.write(json.dumps(said))
"""


@pytest.mark.parametrize("size", [1023, 1024, 5000])
def test_an_answer_cut_at_the_very_end_is_no_success(shop: Workshop, size: int):
    """A JSON tool whose last line, without a newline, brings more than the limit: an error that says so; else success.

    The smallest one is the control: with the end of its line it just fits.
    """
    programs = shop.project / "programs"
    programs.mkdir()
    (programs / "claude").write_text(ONE_LINE.format(python=sys.executable))
    (programs / "claude").chmod(0o755)
    shop.start_worker(MAESTRO_MAX_OUTPUT_BYTES="1024", PATH=f"{programs}:{os.environ['PATH']}")
    maestro = shop.open()
    maestro.sessions.start("cut", tool="claude")
    ended = maestro.runs.wait(maestro.runs.start(str(size)))

    assert maestro.runs.output(ended.id) == (b"x" * size + b"\n")[:1024]
    assert ended.output_ref.size == 1024
    if size == 1023:
        assert (ended.status, ended.error) == ("success", None)
    else:
        assert ended.status == "error"
        assert "above the limit of 1024 bytes" in ended.error


def test_a_tool_sees_the_allow_list_and_what_was_passed_on_purpose(shop: Workshop):
    """Prompts with shell syntax, dashes, NUL and a megabyte go in by stdin, untouched; the environment is cut down."""
    shop.start_worker(SECRET_OF_MINE="s3cret", PASSED="yes")
    dump = "import json, os, sys\nprint(json.dumps([sys.argv[1:], sorted(os.environ), len(sys.stdin.buffer.read())]))"
    tool = shop.tool("dump", dump)
    maestro = shop.open()
    maestro.sessions.start("inject", tool=tool + " -- 'one word'")
    prompts = [b"$(touch marker); `touch marker`", b"--help", b"-rf /", b"a\0b", b"x" * 1_000_000, "é\n".encode()]
    from maestro_state.tools.tool import BASE_ENVIRONMENT

    for prompt in prompts:
        ended = maestro.runs.wait(maestro.runs.start(prompt, env=("PASSED",), history=0))
        assert ended.status == "success", ended.error
        arguments, environment, size = json.loads(maestro.runs.output(ended.id))
        assert arguments == ["--", "one word"]
        assert size == len(prompt)
        assert "PASSED" in environment
        unexpected = set(environment) - set(BASE_ENVIRONMENT) - {"PASSED", "LC_CTYPE", "MAESTRO_RUN_MARK"}
        assert unexpected == set()
        assert maestro.runs.prompt(ended) == prompt
    assert not (shop.project / "marker").exists()
    assert b"s3cret" not in shop.log.read_bytes()
    assert b"touch marker" not in shop.log.read_bytes()


@pytest.mark.parametrize(
    ("tool", "reason"),
    [
        ("sh -c 'echo why >&2; exit 7'", "exit code 7: why"),
        ("sh -c 'kill -9 $$'", "killed"),
        ("codex", "not installed"),
    ],
)
def test_every_failure_ends_with_its_reason(shop: Workshop, tool: str, reason: str):
    """Non-zero exits, signals and missing programs are an error that says why; the session goes on."""
    shop.start_worker()
    maestro = shop.open()
    maestro.sessions.start("fails")
    ended = maestro.runs.wait(maestro.runs.start("p", tool=tool))

    assert ended.status == "error"
    assert reason in ended.error
    assert maestro.sessions.read().state == "iniciada"
    assert maestro.runs.wait(maestro.runs.start("p", tool="cat")).status == "success"


def test_a_working_directory_that_is_gone_is_said(shop: Workshop):
    """A run in a folder that its worker does not have ends as error: which folder, whose worker, what to do."""
    shop.start_worker()
    maestro = shop.open()
    maestro.sessions.start("gone", tool="cat", working_directory=str(shop.project / "nowhere"))
    ended = maestro.runs.wait(maestro.runs.start("p"))

    assert ended.status == "error"
    assert f"{shop.project / 'nowhere'} is not there on {socket.gethostname()}" in ended.error
    assert "maestro session set working_directory DIR" in ended.error
    maestro.sessions.set("working_directory", str(shop.project))
    assert maestro.runs.wait(maestro.runs.start("p")).status == "success"


def test_each_run_sees_the_context_as_it_was_when_it_was_started(shop: Workshop):
    """Runs started before and after a change of the context get each their own, whatever the worker's order."""
    from tests.contract.test_runs import put_item, remove_item
    from tests.support.backends import Backend

    maestro = shop.open()
    session = maestro.sessions.start("context", tool="cat")
    import redis

    from maestro_state.local.embedded import socket_path

    raw = redis.Redis(unix_socket_path=str(socket_path(shop.project)))
    backend = Backend("real", shop.project, raw, shop.open, shop.open)
    first = put_item(backend, session.id, 1, b"ALPHA")
    before = maestro.runs.start("p1")
    remove_item(backend, session.id, first)
    put_item(backend, session.id, 2, b"BETA")
    after = maestro.runs.start("p2")
    raw.close()
    shop.start_worker()
    outputs = [maestro.runs.output(maestro.runs.wait(run).id) for run in (before, after)]

    assert (b"ALPHA" in outputs[0], b"BETA" in outputs[0]) == (True, False)
    assert (b"ALPHA" in outputs[1], b"BETA" in outputs[1]) == (False, True)


def test_stderr_is_kept_only_when_debugging_is_asked_for(shop: Workshop):
    """stderr is in no run and no stream; with debugging it is in a file only its owner can read."""
    shop.start_worker()
    maestro = shop.open()
    session = maestro.sessions.start("err", tool="sh -c 'echo out; echo hidden words >&2'")
    maestro.runs.wait(maestro.runs.start("p"))
    assert maestro.runs.output("0001") == b"out\n"
    logs = shop.project / ".maestro" / "logs"
    assert not list(logs.glob("run-*"))
    os.kill(shop.workers[0].pid, 15)
    shop.workers[0].wait()
    shop.start_worker(MAESTRO_DEBUG="1")
    maestro.runs.wait(maestro.runs.start("p"))

    (log,) = logs.glob("run-*")
    assert log.name == f"run-{session.id}-0002.stderr.log"
    assert log.read_bytes() == b"hidden words\n"
    assert log.stat().st_mode & 0o777 == 0o600


def test_a_disk_without_room_for_stderr_ends_no_run(shop: Workshop):
    """What is kept for debugging alone may be lacking; the run is what counts."""
    worker = shop.start_worker(MAESTRO_DEBUG="1")
    maestro = shop.open()
    session = maestro.sessions.start("err", tool="sh -c 'echo hidden words >&2; echo out'")
    resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, (0, 0))
    ended = maestro.runs.wait(maestro.runs.start("p"))
    log = shop.project / ".maestro" / "logs" / f"run-{session.id}-0001.stderr.log"
    assert log.read_bytes() == b"", "the limit does not bite"
    assert (ended.status, ended.error) == ("success", None)
    assert maestro.runs.output("0001") == b"out\n"


@pytest.mark.parametrize("asked", ["with no grace", "twice", "to quit"])
def test_a_worker_that_cannot_wait_ends_its_run_and_says_why(shop: Workshop, asked: str):
    """Out of grace, asked again or by SIGQUIT, it ends the tool at once, and the run with a reason."""
    worker = shop.start_worker(MAESTRO_STOP_GRACE_SECONDS="0" if asked == "with no grace" else "3600")
    maestro = shop.open()
    maestro.sessions.start("stop", tool="sh -c 'echo started; sleep 600'")
    run = maestro.runs.start("p")
    wait_until(lambda: maestro.runs.output(run.id), "the tool has printed")
    worker.send_signal(signal.SIGQUIT if asked == "to quit" else signal.SIGTERM)
    if asked == "twice":
        wait_until(lambda: b"worker_stopping" in shop.log.read_bytes(), "the worker has heard it")
        worker.terminate()
    assert worker.wait(60) == 0

    ended = maestro.runs.read(run.id)
    assert (ended.status, ended.error) == ("error", "its worker was stopped while it ran")
    assert maestro.runs.workers() == 0


def test_a_worker_told_to_stop_lets_its_run_end_and_takes_no_other(shop: Workshop):
    """SIGTERM: the run that is under way ends as if nothing had been, the next one waits for another worker."""
    worker = shop.start_worker()
    maestro = shop.open()
    maestro.sessions.start("drain", tool="sh -c 'echo started; while [ ! -e go ]; do sleep 0.05; done; echo ended'")
    run = maestro.runs.start("p")
    wait_until(lambda: maestro.runs.output(run.id), "the tool has printed")
    waiting = maestro.runs.start("p")
    worker.terminate()
    wait_until(lambda: b"worker_stopping" in shop.log.read_bytes(), "the worker has heard it")
    assert maestro.runs.read(run.id).status == "running"
    (shop.project / "go").touch()
    assert worker.wait(60) == 0

    assert maestro.runs.read(run.id).status == "success"
    assert maestro.runs.output(run.id) == b"started\nended\n"
    assert maestro.runs.read(waiting.id).status == "pending"
    shop.start_worker()
    assert maestro.runs.wait(waiting).status == "success"
