"""Jobs that a stranger wrote straight into the queue's server: none is executed, and the worker goes on."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
import redis

from maestro_state.embedded import socket_path
from tests.waiting import wait_until
from tests.workshop import Workshop

MARK = "executed"


@pytest.fixture
def shop(project: Path):
    """Return a project with a server, and no worker yet."""
    with Workshop(project) as shop:
        yield shop


@pytest.fixture
def raw(shop: Workshop):
    """Return a client that may write anything."""
    client = redis.Redis(unix_socket_path=str(socket_path(shop.project)))
    yield client
    client.close()


def _push(raw: redis.Redis, job_id: str, data: bytes, **fields: object) -> None:
    """Write a job as RQ keeps them."""
    values = {"data": data, "created_at": "2026-01-01T00:00:00.000000Z", "origin": "maestro", "status": "queued"}
    raw.hset(f"rq:job:{job_id}", mapping={**values, **fields})
    raw.rpush("rq:queue:maestro", job_id)


def _payload(name: str, *arguments: object) -> bytes:
    return zlib.compress(json.dumps([name, None, list(arguments), {}]).encode())


class _Evil:
    """Executes something when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self):
        import os

        return os.system, (f"touch {self.path}",)


def _attacks(mark: Path) -> dict[str, tuple[bytes, dict[str, object]]]:
    session, run = "some-thing--abc123", "0001"
    good = _payload("workers.jobs.execute_run", session, run)
    touch = f"touch {mark}"
    return {
        "a-system": (_payload("os.system", touch), {}),
        "b-popen": (_payload("subprocess.getoutput", touch), {}),
        "c-pickle": (zlib.compress(pickle.dumps(("os.system", None, (touch,), {}))), {}),
        "d-pickle-object": (zlib.compress(pickle.dumps(_Evil(str(mark)))), {}),
        "e-callback": (good, {"success_callback_name": "os.system", "success_callback_timeout": 5}),
        "f-failure-callback": (good, {"failure_callback_name": "os.system"}),
        "g-webhook": (good, {"webhooks": json.dumps([{"url": "http://127.0.0.1:1/", "statuses": ["finished"]}])}),
        "h-result": (good, {"result": pickle.dumps(_Evil(str(mark)))}),
        "i-bomb": (zlib.compress(b'["' + b"x" * 200_000_000 + b'"]', 1), {}),
        "i-small-bomb": (zlib.compress(b"x" * 1_500_000, 9), {}),
        "j-large": (b"x" * 20_000_000, {}),
        "k-deep": (zlib.compress(b"[" * 1900), {}),
        "l-session": (_payload("workers.jobs.execute_run", "../../etc", run), {}),
        "m-run": (_payload("workers.jobs.execute_run", session, "1; touch x"), {}),
        "n-kwargs": (zlib.compress(json.dumps(["workers.jobs.execute_run", None, [], {"a": 1}]).encode()), {}),
        "o-instance": (zlib.compress(json.dumps(["system", "os", [touch], {}]).encode()), {}),
        "p-dates": (good, {"created_at": "not a date", "timeout": "never"}),
        "q-no-such-session": (good, {}),
    }


def test_no_job_of_a_stranger_is_executed(shop: Workshop, raw: redis.Redis):
    """Functions, callbacks, pickles, bombs and broken fields are refused and logged; the next run works."""
    worker = shop.start_worker()
    maestro = shop.open()
    maestro.sessions.start("safe", tool="cat")
    maestro.runs.wait(maestro.runs.start("warm up"))
    before = _resident_kib(worker.pid)
    mark = shop.project / MARK
    attacks = _attacks(mark)
    for job_id, (data, fields) in attacks.items():
        _push(raw, job_id, data, **fields)
    raw.rpush("rq:queue:maestro", "no-such-job", "\u2028 odd \x1b[31m id", b"\xff\xfe", "x" * 100_000, "")
    wait_until(lambda: raw.llen("rq:queue:maestro") == 0, "every job was looked at")
    ended = maestro.runs.wait(maestro.runs.start("still here"))

    assert (ended.status, maestro.runs.output(ended.id)) == ("success", b"still here")
    assert worker.poll() is None
    assert not mark.exists()
    assert _resident_kib(worker.pid) - before < 50_000
    log = shop.log.read_text()
    for job_id in attacks:
        if job_id != "q-no-such-session":
            assert f'"job": "{job_id}"' in log, job_id
    assert log.count("job_refused") == len(attacks) - 1 + 4
    assert "\x1b" not in log


def test_a_key_that_is_no_hash_does_not_end_a_worker(shop: Workshop, raw: redis.Redis):
    """A string, a list or a set under a job's name is refused and logged; the next run works."""
    raw.set("rq:job:a-string", "x")
    raw.rpush("rq:job:b-list", "x")
    raw.sadd("rq:job:c-set", "x")
    raw.rpush("rq:queue:maestro", "a-string", "b-list", "c-set")
    worker = shop.start_worker()
    maestro = shop.open()
    maestro.sessions.start("safe", tool="cat")
    ended = maestro.runs.wait(maestro.runs.start("still here"))

    assert ended.status == "success"
    assert worker.poll() is None
    said = [json.loads(line) for line in shop.log.read_text().splitlines()]
    refused = {line["job"]: line["reason"] for line in said if line["event"] == "job_refused"}
    assert set(refused) == {"a-string", "b-list", "c-set"}
    assert set(refused.values()) == {"its key cannot be read as a job (WRONGTYPE)"}


def test_rqs_own_worker_would_have_executed_it(shop: Workshop, raw: redis.Redis):
    """Control: with the JSON serializer alone, a job that names os.system is executed."""
    mark = shop.project / MARK
    _push(raw, "a-system", _payload("os.system", f"touch {mark}"))
    code = (
        "import sys, redis; from rq import Queue, SimpleWorker; from rq.serializers import JSONSerializer\n"
        "raw = redis.Redis(unix_socket_path=sys.argv[1])\n"
        "queue = Queue('maestro', connection=raw, serializer=JSONSerializer)\n"
        "SimpleWorker([queue], connection=raw, serializer=JSONSerializer).work(burst=True)"
    )
    subprocess.run([sys.executable, "-c", code, str(socket_path(shop.project))], check=True, capture_output=True)

    assert mark.exists()


def _resident_kib(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1])
    raise AssertionError("no VmRSS")
