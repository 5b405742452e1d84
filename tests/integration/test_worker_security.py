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
from maestro_workers.rq_adapter.job import SafeQueue, routed_queue
from rq.exceptions import DequeueTimeout

from maestro_state.local.embedded import socket_path
from tests.support.waiting import wait_until
from tests.support.workshop import Workshop

MARK = "executed"


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
    good = _payload("maestro_workers.jobs.execute_run", session, run)
    touch = f"touch {mark}"
    return {
        "a-system": (_payload("os.system", touch), {}),
        "b-popen": (_payload("subprocess.getoutput", touch), {}),
        "c-pickle": (zlib.compress(pickle.dumps(("os.system", None, (touch,), {}))), {}),
        "d-pickle-object": (zlib.compress(pickle.dumps(_Evil(str(mark)))), {}),
        "e-callback": (good, {"success_callback_name": "os.system", "success_callback_timeout": 5}),
        "f-failure-callback": (good, {"failure_callback_name": "os.system"}),
        "g-webhook": (good, {"webhooks": json.dumps([{"url": "somewhere", "statuses": ["finished"]}])}),
        "h-result": (good, {"result": pickle.dumps(_Evil(str(mark)))}),
        "i-bomb": (zlib.compress(b'["' + b"x" * 200_000_000 + b'"]', 1), {}),
        "i-small-bomb": (zlib.compress(b"x" * 1_500_000, 9), {}),
        "j-large": (b"x" * 20_000_000, {}),
        "k-deep": (zlib.compress(b"[" * 1900), {}),
        "l-session": (_payload("maestro_workers.jobs.execute_run", "../../etc", run), {}),
        "m-run": (_payload("maestro_workers.jobs.execute_run", session, "1; touch x"), {}),
        "m-attempt": (_payload("maestro_workers.jobs.finalize_session", session, "9999"), {}),
        "m-finalize": (_payload("maestro_workers.jobs.finalize_session", "/etc", "0"), {}),
        "m-reference": (_payload("maestro_workers.jobs.send_archive", "../../etc", "0" * 32), {}),
        "m-token": (_payload("maestro_workers.jobs.send_archive", session, "x}:session{"), {}),
        "n-kwargs": (zlib.compress(json.dumps(["maestro_workers.jobs.execute_run", None, [], {"a": 1}]).encode()), {}),
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
    before = _peak_kib(worker.pid)
    mark = shop.project / MARK
    attacks = _attacks(mark)
    for job_id, (data, fields) in attacks.items():
        _push(raw, job_id, data, **fields)
    raw.rpush("rq:queue:maestro", "no-such-job", "\u2028 odd \x1b[31m id", b"\xff\xfe", "x" * 100_000, "")
    wait_until(lambda: raw.llen("rq:queue:maestro") == 0, "every job was looked at")
    ended = maestro.runs.wait(maestro.runs.start("still here", history=0))

    assert (ended.status, maestro.runs.output(ended.id)) == ("success", b"still here")
    assert worker.poll() is None
    assert not mark.exists()
    assert _peak_kib(worker.pid) - before < 50_000
    log = shop.log.read_text()
    for job_id in attacks:
        if job_id != "q-no-such-session":
            assert f'"job": "{job_id}"' in log, job_id
    assert log.count("job_refused") == len(attacks) - 1 + 4
    assert "\x1b" not in log


def _plant_oddities(raw: redis.Redis) -> list[str]:
    """Put things of other types where jobs are looked for, and where RQ's own upkeep looks; return the job ids."""
    raw.set("rq:job:s-string", "y")
    raw.rpush("rq:job:s-list", "y")
    raw.xadd("rq:job:s-stream", {"data": "y"})
    raw.zadd("rq:job:s-zset", {"y": 1})
    raw.sadd("rq:job:s-set", "y")
    jobs = ["s-string", "s-list", "s-stream", "s-zset", "s-set"]
    raw.rpush("rq:queue:maestro", *jobs)
    raw.rpush("rq:queue:maestro:intermediate", *jobs, b"\xff\xfe", "two\nlines", "")
    raw.zadd("rq:wip:maestro", {"s-string:1": 1, "s-list": 1, b"\xff": 1, "two\nlines:x": 1, "": 1})
    raw.set("rq:failed:maestro", "not a registry")
    raw.sadd("rq:workers:maestro", b"\xff", "rq:worker:two\nlines")
    return jobs


@pytest.mark.parametrize("when", ["before the worker starts", "while it listens"])
def test_keys_of_another_type_do_not_end_a_worker(shop: Workshop, raw: redis.Redis, when: str):
    """A job that is a string, list, stream or set is refused and logged, and so is nonsense in RQ's registries."""
    worker = shop.start_worker() if when == "while it listens" else None
    jobs = _plant_oddities(raw)
    raw.rpush("rq:queue:maestro", "two\nlines", "two\r\nlines", "a b", "maestro_x\n")
    worker = worker or shop.start_worker()
    maestro = shop.open()
    maestro.sessions.start("safe", tool="cat")
    run = maestro.runs.start("still here", history=0)
    wait_until(lambda: maestro.runs.read(run.id).status == "success", "the run was carried out")

    assert maestro.runs.output(run.id) == b"still here"
    assert raw.llen("rq:queue:maestro") == 0
    assert worker.poll() is None
    log = shop.log.read_text()
    assert all(f'"job": "{job}"' in log for job in jobs)
    if when == "before the worker starts":  # upkeep is done at the start, and then once a minute
        assert "upkeep_refused" in log
    assert r"two\\nlines" in log
    assert all(line.startswith("{") for line in log.splitlines() if line), "an id broke a line of the log in two"


@pytest.mark.parametrize("routed", ["", "01234567"])
def test_a_queue_that_is_no_list_ends_no_worker(shop: Workshop, raw: redis.Redis, routed: str):
    """Neither RQ's nor the one of workers that have the same: it is dropped, and what waits there next is taken."""
    keys = ["rq:queue:maestro"]
    kind = SafeQueue
    if routed:
        keys.append(f"maestro:{{queue}}:{routed}")
        kind = routed_queue(keys[1])
    for key in keys:
        raw.set(key, "x", ex=60)
    with pytest.raises(DequeueTimeout):
        kind.lmove(raw, keys[0], 1)
    assert not raw.exists(*keys)
    raw.rpush(keys[-1], "a-job")
    raw.expire(keys[-1], 60)
    assert kind.lmove(raw, keys[0], 1)[1] == b"a-job"
    raw.delete(f"{keys[0]}:intermediate")

    worker = shop.start_worker()
    maestro = shop.open()
    maestro.sessions.start("safe", tool="cat")
    raw.set("rq:queue:maestro", "x", ex=60)
    wait_until(lambda: raw.type("rq:queue:maestro") != b"string", "it was dropped")
    assert maestro.runs.wait(maestro.runs.start("still here")).status == "success"
    assert worker.poll() is None


def _plain_worker(shop: Workshop) -> subprocess.CompletedProcess[bytes]:
    """Let RQ's own worker, with the JSON serializer, work off the queue."""
    code = (
        "import sys, redis; from rq import Queue, SimpleWorker; from rq.serializers import JSONSerializer\n"
        "raw = redis.Redis(unix_socket_path=sys.argv[1])\n"
        "queue = Queue('maestro', connection=raw, serializer=JSONSerializer)\n"
        "SimpleWorker([queue], connection=raw, serializer=JSONSerializer).work(burst=True)"
    )
    command = [sys.executable, "-c", code, str(socket_path(shop.project))]
    return subprocess.run(command, check=True, capture_output=True)


def test_rqs_own_worker_would_have_executed_it(shop: Workshop, raw: redis.Redis):
    """Control: with the JSON serializer alone, a job that names os.system is executed."""
    mark = shop.project / MARK
    _push(raw, "a-system", _payload("os.system", f"touch {mark}"))
    _plain_worker(shop)

    assert mark.exists()


def test_rqs_own_worker_would_have_ended(shop: Workshop, raw: redis.Redis):
    """Control: a job whose key is a string ends RQ's own worker before it comes to the next job."""
    raw.set("rq:job:s-string", "y")
    raw.rpush("rq:queue:maestro", "s-string", "the-next")
    said = _plain_worker(shop).stderr

    assert b"unhandled exception, quitting" in said
    assert raw.lrange("rq:queue:maestro", 0, -1) == [b"the-next"]


def _peak_kib(pid: int) -> int:
    """Return the most memory a process ever had."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1])
    raise AssertionError("no VmHWM")
