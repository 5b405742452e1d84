"""Whoever asks for an archive and leaves costs the workers nothing: the sign that somebody waits goes with them."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
import redis

from maestro_state import Maestro
from maestro_state.errors import NoWorker, WorkFailed
from maestro_state.local.embedded import socket_path
from maestro_state.state.calls import parcels
from maestro_state.upkeep import pull as pulling
from tests.support.stored import Filler
from tests.support.workshop import Workshop


@pytest.fixture
def maestro(shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> Maestro:
    """Return an open project whose senders would wait for an hour for somebody to fetch what they send."""
    monkeypatch.setattr(pulling, "FETCHED_S", 3600.0)
    return shop.open()


@pytest.fixture
def session_id(maestro: Maestro, raw: redis.Redis) -> str:
    """Archive a session with more pieces than wait at a time."""
    session = maestro.sessions.start("gone")
    size = parcels.PIECE_BYTES * 2 * parcels.PIECES_MAX
    Filler(raw, maestro.server.terms.keys, session.id).run(os.urandom(size), chunks=8)
    maestro.sessions.end(session.id)
    return session.id


def test_a_job_of_somebody_who_left_is_over_at_once(maestro: Maestro, raw: redis.Redis, session_id: str):
    """Without the sign nothing is read and nothing sent."""
    token = os.urandom(16).hex()
    with pytest.raises(WorkFailed, match="nobody waits"):
        maestro.archive.send(session_id, token, "worker", lambda: False)
    assert not raw.keys("*:parcel")


def test_a_sender_stops_when_the_sign_lapses(maestro: Maestro, raw: redis.Redis, session_id: str):
    """Somebody who was killed does not renew it: the sender gives up with as many pieces sent as may wait."""
    token = os.urandom(16).hex()
    parcel, asker = maestro.server.terms.keys.parcel(token)
    raw.set(asker, "", ex=60)
    ends_at = time.monotonic() + 15  # without the sign it would wait for an hour: then it fails with another word

    def lapse() -> bool:
        if raw.llen(parcel) == parcels.PIECES_MAX:
            raw.delete(asker)  # as its own end does, and no sooner than the sender waits
        return time.monotonic() > ends_at

    with pytest.raises(WorkFailed, match="nobody waits"):
        maestro.archive.send(session_id, token, "worker", lapse)
    assert raw.llen(parcel) == parcels.PIECES_MAX
    assert 0 < raw.pttl(parcel) <= parcels.LIFE_MS


def test_a_sender_goes_on_while_the_sign_is_there(maestro: Maestro, raw: redis.Redis, session_id: str):
    """Control: with the sign there it waits for the pieces to be fetched, until it must leave itself."""
    token = os.urandom(16).hex()
    parcel, asker = maestro.server.terms.keys.parcel(token)
    raw.set(asker, "", ex=60)
    looks = iter(range(60))
    with pytest.raises(WorkFailed, match="is stopping"):
        maestro.archive.send(session_id, token, "worker", lambda: next(looks, None) is None)
    assert raw.llen(parcel) == parcels.PIECES_MAX


@pytest.mark.parametrize("leaving", [KeyboardInterrupt, NoWorker])
def test_whoever_leaves_takes_job_parcel_and_sign_along(
    maestro: Maestro, raw: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leaving: type[BaseException]
):
    """Interrupted, or tired of waiting: what no worker has taken is not left for one to find."""
    raw.sadd("rq:workers:maestro", "rq:worker:maestro-busy")
    raw.set("rq:worker:maestro-busy", "", ex=60)
    seen: list[tuple[int, int, int]] = []

    def wait(self, token: str, _timeout_s: float):
        parcel, asker = self._server.terms.keys.parcel(token)
        raw.rpush(parcel, b"a piece")
        raw.expire(parcel, 60)
        seen.append((raw.llen("rq:queue:maestro"), len(raw.keys("rq:job:*_send_*")), raw.pttl(asker)))
        raise leaving

    monkeypatch.setattr(pulling.Pull, "_next", wait)
    (tmp_path / ".maestro").mkdir()
    with Maestro(tmp_path, redis_url=f"unix://{socket_path(maestro.project.root)}") as asking, pytest.raises(leaving):
        asking.archive.pull("gone")
    ((waiting, jobs, left_ms),) = seen  # control: it was there
    assert (waiting, jobs) == (1, 1)
    assert 0 < left_ms <= parcels.ASKER_MS
    assert raw.llen("rq:queue:maestro") == 0
    assert raw.keys("rq:job:*_send_*") == []
    assert raw.keys("*:parcel") == raw.keys("*:asker") == []
    raw.delete("rq:workers:maestro", "rq:worker:maestro-busy")


def test_a_job_that_a_worker_has_taken_is_left_to_it(maestro: Maestro, raw: redis.Redis):
    """Taken back under its worker, its end could not be noted."""
    token = os.urandom(16).hex()
    maestro.queue.enqueue_sending("gone", token, 0)
    (job,) = raw.keys("rq:job:*_send_*")
    raw.lpop("rq:queue:maestro")
    maestro.queue.withdraw_sending(token, 0)
    assert raw.exists(job)
    raw.delete(job)
