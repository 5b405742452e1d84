"""Losing the master while its replica lags: changes that matter survive if replicas were waited for, else not."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from maestro_cli.main import run

from maestro_state import AsyncMaestro, Maestro
from maestro_state.errors import NotReplicated
from maestro_state.state.calls import replication
from tests.support.cli_runs import printed
from tests.support.lasting import prepare
from tests.support.sentinels import watched_master
from tests.support.waiting import wait_until

#: Changes of each kind.
ROUNDS = 2
#: More than the kernel holds between two sockets: what comes behind it stays in the master's own memory.
LAG_BYTES = 24 << 20

pytestmark = pytest.mark.xdist_group("busy")


def opened(project, url, waits):
    """Return Maestro with more time than a failover needs on a busy machine."""
    maestro = Maestro(project, redis_url=url, wait_replicas=waits, max_blob_bytes=1 << 20)
    maestro.server.connection.retry_s = 60.0
    return maestro


def let_it_lag(maestro, replica):
    """Stop the replica, and write more than the network buffers for it."""
    assert maestro.server.connection.call("WAIT", 1, 60_000) == 1
    os.kill(replica.pid, signal.SIGSTOP)
    filler = maestro.sessions.start("filler").id
    body = "x" * (1 << 19)
    for _ in range(LAG_BYTES >> 19):
        maestro.messages.add("user", body, filler)
    return filler


def test_without_waiting_a_lagging_replica_loses_what_was_acknowledged(project, tmp_path):
    """Control: the fault bites, changes of every kind that were acknowledged are gone after the failover."""
    with watched_master(tmp_path) as watched, opened(project, watched.url, 0) as maestro:
        master, replica = watched.master, watched.replica
        changes = [change for number in range(ROUNDS) for change in prepare(maestro, master, number)]
        let_it_lag(maestro, replica)
        for change in changes:
            change.make(maestro)
        assert all(change.is_made(master) for change in changes)
        watched.lose_master()
        os.kill(replica.pid, signal.SIGCONT)
        wait_until(watched.is_promoted, "no failover")
        lost = {change.name for change in changes if not change.is_made(replica)}
        assert lost == {change.name for change in changes}


def test_what_replicas_confirmed_survives_losing_the_master(project, tmp_path):
    """Every change stays made, and nobody who was waiting for the confirmation sees more than a pause."""
    with watched_master(tmp_path) as watched, opened(project, watched.url, 1) as maestro:
        url, master, replica, _ = watched
        before = prepare(maestro, master, 0)
        for change in before:
            change.make(maestro)
        changes = [change for number in range(1, ROUNDS + 1) for change in prepare(maestro, master, number)]
        filler = let_it_lag(maestro, replica)

        # All are connected first: what is asserted below is seen well before the first one is tired of waiting.
        ready = threading.Barrier(len(changes))

        def make(change):
            with opened(project, url, 1) as other:
                other.server.connection.call("PING")
                ready.wait(60)
                change.make(other)

        with ThreadPoolExecutor(len(changes)) as pool:
            making = [pool.submit(make, change) for change in changes]
            wait_until(lambda: all(change.is_made(master) for change in changes), "the master did not get them")
            # Made on the master, and not acknowledged by anybody: the replica is silent.
            assert not any(one.done() for one in making)
            watched.lose_master()
            os.kill(replica.pid, signal.SIGCONT)
            wait_until(watched.is_promoted, "no failover")
            # The new master has no replica of its own: the change is made, and it is said that nobody confirmed it.
            for one in making:
                with pytest.raises(NotReplicated):
                    one.result(120)
        assert [change.name for change in before + changes if not change.is_made(replica)] == []
        # Ordinary messages are not waited for: some of those the lagging replica had not read are gone.
        assert len(maestro.messages.since(None, filler)) <= LAG_BYTES >> 19


async def test_too_few_replicas_are_said_and_the_change_stands(project, tmp_path, monkeypatch):
    """With a replica that is silent a freeze is made, reported as not replicated, and is not made again."""
    with watched_master(tmp_path) as (url, _, replica, _), opened(project, url, 1) as maestro:
        # Short only where a replica is missing: the one that is there may take its time on a busy machine.
        with opened(project, url, 2) as greedy, monkeypatch.context() as short:
            short.setattr(replication, "CONFIRM_MS", 1000)
            session = greedy.sessions.start("one is not two")
            with pytest.raises(NotReplicated, match="only 1 of 2 replicas") as failed:
                greedy.sessions.end(session.id)
            assert failed.value.exit_code == 5
            assert maestro.sessions.read(session.id).state == "finalizada"
            assert [row.state for row in maestro.sessions.newest(1)] == ["finalizada"]
        assert maestro.sessions.abort(maestro.sessions.start("kept").id, reason="over").state == "abortada"
        async with AsyncMaestro(project, redis_url=url, wait_replicas=1) as later:
            assert (await later.sessions.end((await later.sessions.start("async")).id)).state == "finalizada"
            silent = (await later.sessions.start("silent")).id
            os.kill(replica.pid, signal.SIGSTOP)
            monkeypatch.setattr(replication, "CONFIRM_MS", 100)
            with pytest.raises(NotReplicated):
                await later.sessions.end(silent)
            os.kill(replica.pid, signal.SIGCONT)


def test_the_command_says_that_it_was_not_replicated(project, tmp_path, monkeypatch, capsys):
    """The command exits with 5 and not_replicated, and says not to repeat it."""
    with watched_master(tmp_path) as (url, *_):
        env = {"MAESTRO_REDIS_URL": url, "MAESTRO_WAIT_REPLICAS": "2"}
        started = printed(project, "session", "start", "alone", env=env)
        # In this process, where a replica that will never come is not waited for so long.
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(replication, "CONFIRM_MS", 100)
        monkeypatch.chdir(project)
        assert run(["session", "end", "--json"]) == 5
        error = json.loads(capsys.readouterr().err)["error"]
        assert error["code"] == "not_replicated"
        assert "do not repeat" in error["hint"]
        assert printed(project, "session", "status", started["id"], env=env)["session"]["state"] == "finalizada"


def test_writers_and_a_follower_go_on_through_a_failover(project, tmp_path):
    """No writer gets an error, nothing is doubled, each writer's order is kept, the follower sees what is stored."""
    with watched_master(tmp_path) as watched, opened(project, watched.url, 0) as maestro:
        url = watched.url
        session = maestro.sessions.start("failing over")
        leave = threading.Event()
        acknowledged: dict[int, int] = {}

        def write(writer):
            with opened(project, url, 0) as own:
                while not leave.is_set():
                    own.messages.add("user", f"{writer}:{acknowledged.get(writer, 0)}", session.id)
                    acknowledged[writer] = acknowledged.get(writer, 0) + 1

        def follow():
            with opened(project, url, 0) as own:
                # It also ends when this test fails before it has ended the session.
                return [event.id for event in own.follow.events(session.id, cursor="start", until_idle_ms=90_000)]

        def all_past(count):
            return lambda: len(acknowledged) == 3 and min(acknowledged.values()) > count

        with ThreadPoolExecutor(4) as pool:
            follower = pool.submit(follow)
            writers = [pool.submit(write, number) for number in range(3)]
            try:
                wait_until(all_past(50), "the writers do not get on")
                confirmed = dict(acknowledged)
                maestro.messages.add("user", "all before this is on the replica", session.id)
                assert maestro.server.connection.call("WAIT", 1, 60_000) == 1
                killed_s = time.monotonic()
                watched.lose_master()
                known = dict(acknowledged)
                wait_until(watched.is_promoted, "no failover")
                wait_until(lambda: acknowledged != known, "nobody writes")
                print(f"outage: {time.monotonic() - killed_s:.1f} s")
                wait_until(all_past(max(acknowledged.values()) + 50), "the writers did not come back")
            finally:
                leave.set()
            for writer in writers:
                writer.result(90)
            messages = maestro.messages.since(None, session.id)
            maestro.sessions.end(session.id)
            followed = follower.result(90)
        stored = [message.content for message in messages]
        assert len(stored) == len(set(stored))
        for number, count in acknowledged.items():
            numbers = [int(text.partition(":")[2]) for text in stored if text.startswith(f"{number}:")]
            assert numbers == sorted(numbers)
            print(f"messages lost: {count - len(numbers)} of {count} acknowledged")
            assert numbers[: confirmed[number]] == list(range(confirmed[number])), "the replica had confirmed these"
        # What only the old master had may have been seen, under an id of its own; all that is stored was, in order.
        kept = {message.id for message in messages}
        assert [event_id for event_id in followed if event_id in kept] == [message.id for message in messages]
