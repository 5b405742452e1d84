"""Jobs that a worker could not do and keeps for later, while the queue's server is away."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis
from maestro_workers import finalize

from tests.support.servers import valkey
from tests.support.workshop import Workshop


def test_a_job_is_not_forgotten_while_its_queue_is_away(
    shop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """What is due stays due until the queue takes it, then goes there once; nothing is raised at the worker."""
    monkeypatch.setattr(finalize, "FIRST_DELAY_S", 0.0)
    with valkey(tmp_path) as queue:
        maestro = shop.open(queue_url=queue.url)
        kept = finalize.Requeue()
        for name in ("one--aaaaaa", "two--bbbbbb"):
            assert kept.later(name, 0)
        queue.kill()
        kept.tend(maestro)
        queue.restart()
        with redis.Redis(unix_socket_path=queue.socket) as raw:
            assert raw.llen("rq:queue:maestro") == 0  # control: nothing had got there
            for _ in range(2):
                kept.tend(maestro)
                assert raw.llen("rq:queue:maestro") == 2
            jobs = b" ".join(raw.lrange("rq:queue:maestro", 0, -1))
    assert b"one--aaaaaa" in jobs
    assert b"two--bbbbbb" in jobs
