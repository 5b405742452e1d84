"""Jobs that an earlier version left in the queue, when today's workers replace its own: refused, and nothing hangs."""

from __future__ import annotations

import json
import zlib

import msgspec
import pytest
import redis

from maestro_state import Maestro
from maestro_state.local.embedded import socket_path
from maestro_state.state.calls import queue
from tests.support.waiting import wait_until
from tests.support.workshop import Workshop

TODAYS = "maestro_workers.jobs."


def as_earlier(raw: redis.Redis) -> str:
    """Give the one job that waits the payload of an earlier version, everything else as it is; return its id."""
    (job_id,) = (found.decode() for found in raw.lrange("rq:queue:maestro", 0, -1))
    name, instance, names, options = json.loads(zlib.decompress(raw.hget(f"rq:job:{job_id}", "data")))
    assert name.startswith(TODAYS)
    earlier = msgspec.json.encode(["workers.jobs." + name.removeprefix(TODAYS), instance, names, options])
    raw.hset(f"rq:job:{job_id}", "data", zlib.compress(earlier))
    return job_id


def refusals(shop: Workshop, job_id: str) -> list[str]:
    """Return why workers refused a job."""
    lines = [json.loads(line) for line in shop.log.read_text().splitlines() if line.startswith("{")]
    return [line["reason"] for line in lines if line["event"] == "job_refused" and line["job"] == job_id]


def test_a_run_is_refused_by_its_old_name_and_carried_out_by_the_new(shop: Workshop, raw: redis.Redis):
    """It is pending without a job that anybody takes: recovery finds it, and writes the job anew."""
    maestro = shop.open()
    session = maestro.sessions.start("upgraded", tool="cat")
    run = maestro.runs.start("still asked for", history=0)
    job_id = as_earlier(raw)
    shop.start_worker()
    ended = maestro.runs.wait(run)

    assert (ended.status, maestro.runs.output(run.id, session.id)) == ("success", b"still asked for")
    (reason,) = refusals(shop, job_id)
    assert "'workers.jobs.execute_run'" in reason
    wait_until(lambda: not raw.exists(f"rq:job:{job_id}"), "no job is left")


def test_a_session_is_archived_by_the_sweep(shop: Workshop, raw: redis.Redis):
    """The job that was to archive it is gone after it was refused; the session is not."""
    maestro = shop.open()
    session = maestro.sessions.start("upgraded")
    maestro.messages.add("user", "kept")
    maestro.sessions.end(archive=False)
    job_id = as_earlier(raw)
    shop.start_worker()
    wait_until(lambda: refusals(shop, job_id), "the job was refused")
    assert not raw.exists(f"rq:job:{job_id}")
    assert maestro.archive.sweep().archived == [session.id]

    assert maestro.archive.verify(session.id).ok


def test_an_archive_that_was_asked_for_is_sent_when_asked_again(
    shop: Workshop, raw: redis.Redis, tmp_path_factory: pytest.TempPathFactory
):
    """Whoever asked gives up by itself; asked by today's name, the same worker sends it."""
    maestro = shop.open()
    session = maestro.sessions.start("upgraded")
    maestro.sessions.end()
    raw.delete(*maestro.server.terms.keys.session(session.id))
    maestro.queue.enqueue_sending(session.id, "0" * 32, 0)
    job_id = as_earlier(raw)
    shop.start_worker()
    wait_until(lambda: refusals(shop, job_id), "the job was refused")
    assert not raw.exists(f"rq:job:{job_id}")
    checkout = tmp_path_factory.mktemp("checkout")
    (checkout / ".maestro").mkdir()
    with Maestro(checkout, redis_url=f"unix://{socket_path(shop.project)}") as asking:
        assert asking.archive.pull(session.id).written


def test_the_names_in_the_queue_are_those_of_the_functions():
    """A name in the queue is a wire format: it is written out where jobs are made, and holds for the code."""
    from maestro_workers import jobs

    for name in (queue.EXECUTE_RUN, queue.FINALIZE_SESSION, queue.SEND_ARCHIVE):
        function = getattr(jobs, name.rpartition(".")[2])
        assert f"{function.__module__}.{function.__qualname__}" == name
