"""An ended session gets archived: by a worker, by whoever ended it, or later; never not at all."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import redis

from maestro_state import Maestro
from maestro_state.errors import ArchiveElsewhere
from maestro_state.local.embedded import socket_path
from maestro_state.state.calls.queue import finalization_id
from maestro_state.upkeep import finalize
from tests.support.waiting import wait_until
from tests.support.workshop import Workshop


@pytest.fixture
def elsewhere(project: Path, tmp_path_factory):
    """Return another checkout that shares the project's server."""
    folder = tmp_path_factory.mktemp("elsewhere")
    (folder / ".maestro").mkdir()
    return folder


def open_elsewhere(shop: Workshop, folder: Path) -> Maestro:
    return Maestro(folder, redis_url=f"unix://{socket_path(shop.project)}")


def raw(shop: Workshop) -> redis.Redis:
    return redis.Redis(unix_socket_path=str(socket_path(shop.project)))


def said(shop: Workshop, word: str, session_id: str) -> bool:
    return any(word in line and session_id in line for line in shop.log.read_text().splitlines())


def is_archived(maestro: Maestro, session_id: str) -> bool:
    return session_id in maestro.places.own.ids() and maestro.archive.verify(session_id).ok


def test_a_worker_archives_what_was_ended(shop: Workshop, monkeypatch: pytest.MonkeyPatch):
    """End and abort come back when a worker has verified the archive, and tell meanwhile what is being done."""
    monkeypatch.setattr(finalize, "UNTAKEN_S", 60.0)
    monkeypatch.setattr(finalize, "TAKEN_S", 60.0)
    shop.start_worker()
    maestro, told = shop.open(), []
    ended = maestro.sessions.start("ended")
    maestro.messages.add("user", "kept")
    maestro.sessions.end(told=told.append)
    aborted = maestro.sessions.start("aborted")
    maestro.sessions.abort(reason="wrong branch", told=told.append)

    assert told == ["a worker archives it"] * 2
    for session in (ended, aborted):
        assert is_archived(maestro, session.id)
        wait_until(lambda session=session: said(shop, "session_archived", session.id), "the worker says so")
    assert maestro.sessions.status(ended.id).archive_waits is None


def test_without_a_worker_whoever_ends_it_archives_it(shop: Workshop):
    """No job is left behind that nobody would take; the archive is verified all the same."""
    maestro, told = shop.open(), []
    session = maestro.sessions.start("alone")
    maestro.sessions.end(told=told.append)
    assert told == ["archiving"]
    assert is_archived(maestro, session.id)
    assert raw(shop).llen("rq:queue:maestro") == 0


def test_nobody_waits_for_a_worker_that_does_nothing(shop: Workshop, monkeypatch: pytest.MonkeyPatch):
    """One that takes no job, and one that took it and stopped: the asker does the work; later there is nothing left."""
    worker = shop.start_worker()
    os.kill(worker.pid, signal.SIGSTOP)
    maestro, told = shop.open(), []
    untaken = maestro.sessions.start("untaken")
    maestro.sessions.end(told=told.append)
    assert is_archived(maestro, untaken.id)

    monkeypatch.setattr(finalize, "TAKEN_S", 0.2)
    monkeypatch.setattr(finalize, "UNTAKEN_S", 60.0)
    taken = maestro.sessions.start("taken")
    maestro.sessions.end(told=told.append)
    assert is_archived(maestro, taken.id)
    assert told == ["a worker archives it", "archiving"] * 2

    os.kill(worker.pid, signal.SIGCONT)
    for session in (untaken, taken):
        wait_until(lambda session=session: said(shop, "session_archived", session.id), "the job is done with")
        assert is_archived(maestro, session.id)


def test_no_wait_leaves_it_to_a_worker(shop: Workshop):
    """The command is gone before the archive is there; a worker that comes later writes it."""
    maestro = shop.open()
    session = maestro.sessions.start("later")
    maestro.sessions.end(archive=False)
    assert session.id not in maestro.places.own.ids()
    assert maestro.sessions.status(session.id).archive_waits == "nobody has written it yet"
    assert raw(shop).lrange("rq:queue:maestro", 0, -1) == [
        finalization_id(maestro.server.terms, session.id, 0).encode()
    ]
    shop.start_worker()
    wait_until(lambda: is_archived(maestro, session.id), "the worker archives it")


def test_a_worker_that_cannot_reach_the_folder_leaves_it_to_one_that_can(shop: Workshop, elsewhere: Path):
    """It says so, the session tells that it waits, the sweeper asks again, and the right worker writes it."""
    shop.start_worker()
    here = shop.open()
    with open_elsewhere(shop, elsewhere) as there:
        session = there.sessions.start("far")
        there.sessions.end(archive=False)
        wait_until(lambda: said(shop, "archive_left_to_others", session.id), "the worker says so")
        wait_until(lambda: "another checkout" in (here.sessions.status(session.id).archive_waits or ""), "it is told")
        report = here.archive.sweep()
        assert (report.waiting, report.errors) == ([session.id], [])
        assert not (elsewhere / ".maestro/sessions" / session.id).exists()

        key = here.server.terms.keys.of_index("dirty", session.id)
        raw(shop).zadd(key, {session.id: 1})
        check = next(check for check in here.health.checks() if check.name == "archive")
        assert (check.status, "another checkout" in check.detail) == ("warn", True)

        shop.start_worker(elsewhere, MAESTRO_REDIS_URL=f"unix://{socket_path(shop.project)}")
        # As often as the sweeper comes by: the job goes to either worker, and only one of them can do it.
        wait_until(lambda: here.archive.sweep() and is_archived(there, session.id), "the right worker archives it")
        wait_until(lambda: here.sessions.status(session.id).archive_waits is None, "it does not wait any more")


def test_a_sweeper_leaves_what_it_cannot_reach_to_others_at_once(shop: Workshop, elsewhere: Path):
    """One that has been over a shard and could not write all of it keeps nobody out who can; it does not try again
    itself before its time.
    """
    here, pause_ms = shop.open(), 600_000
    with open_elsewhere(shop, elsewhere) as there:
        far = there.sessions.start("far").id
        assert [one.id for one in here.archive.sweep_shards(pause_ms).errors] == [far]
        assert here.archive.sweep_shards(pause_ms).errors == []
        assert there.archive.sweep_shards(pause_ms).checkpointed == [far]
        assert is_archived(there, far)
        # Control: a shard that was done as a whole is not due for anybody.
        there.messages.add("user", "more", far)
        assert there.archive.sweep_shards(pause_ms).checkpointed == []
        assert here.archive.sweep_shards(pause_ms).errors == []


def test_a_worker_whose_disk_is_away_does_not_keep_anybody_waiting(
    shop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """It says that it cannot write there; whoever ended the session does. A sweep there tells, and leaves its lease."""
    monkeypatch.setattr(finalize, "UNTAKEN_S", 60.0)
    monkeypatch.setattr(finalize, "TAKEN_S", 60.0)
    away = str(tmp_path / "not-mounted")
    shop.start_worker(MAESTRO_ARCHIVE_ROOT=away)
    maestro, told = shop.open(), []
    session = maestro.sessions.start("near")
    maestro.sessions.end(told=told.append)
    assert told == ["a worker archives it", "archiving"]
    assert is_archived(maestro, session.id)
    wait_until(lambda: said(shop, "archive_left_to_others", session.id), "the worker says so")
    wait_until(lambda: said(shop, "archived_by_others", session.id), "it hears that others could")
    there = shop.open(archive_root=away)
    for _ in range(2):
        report = there.archive.sweep()
        assert report.busy is None
        assert [failure.id.startswith(away) for failure in report.errors] == [True]


def test_ending_a_session_of_another_checkout_says_that_it_waits(
    shop: Workshop, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
):
    """Where neither this process nor any worker can reach the folder, nothing is lost and the error says what to do."""
    monkeypatch.setattr(finalize, "ELSEWHERE_S", 0.5)
    shop.start_worker()
    with open_elsewhere(shop, elsewhere) as there:
        session = there.sessions.start("far")
        there.messages.add("user", "kept")
    here = shop.open()
    with pytest.raises(ArchiveElsewhere, match="no worker that can reach its folder"):
        here.sessions.end(session.id)
    assert here.sessions.read(session.id).state == "finalizada"
    with open_elsewhere(shop, elsewhere) as there:
        assert there.archive.sweep().archived == [session.id]
        assert is_archived(there, session.id)
