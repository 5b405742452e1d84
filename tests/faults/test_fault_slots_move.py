"""Slots that move from node to node under load: nothing lost, nothing doubled, no caller notices more than a pause."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor, wait

import pytest

from maestro_state import AsyncMaestro, Maestro
from maestro_state.errors import NotReplicated
from maestro_state.net.translation import read_error
from maestro_state.state.calls import replication
from tests.support.servers import raw_call
from tests.support.waiting import wait_until

WRITERS = 3
MOVES = 5

pytestmark = pytest.mark.xdist_group("cluster")


@pytest.fixture
def nodes(nodes):
    """Return the cluster's nodes and its address."""
    return nodes.nodes, nodes.url


class Slot:
    """The slot of one session, and how it is moved."""

    def __init__(self, nodes, key):
        self.nodes = nodes
        self.number = raw_call(nodes[0], "CLUSTER", "KEYSLOT", key)
        self._ids = [raw_call(node, "CLUSTER", "MYID").decode() for node in nodes]
        self.home = next(place for place, node in enumerate(nodes) if self.keys(node))

    def keys(self, node):
        """Return the keys a node has in this slot."""
        return [key.decode() for key in raw_call(node, "CLUSTER", "GETKEYSINSLOT", self.number, 100)]

    def move(self, between=lambda: None):
        """Move the slot to the next node, key by key; call `between` while its keys are on both."""
        source, self.home = self.home, (self.home + 1) % len(self.nodes)
        here, there = self.nodes[source], self.nodes[self.home]
        assert raw_call(there, "CLUSTER", "SETSLOT", self.number, "IMPORTING", self._ids[source]) == b"OK"
        assert raw_call(here, "CLUSTER", "SETSLOT", self.number, "MIGRATING", self._ids[self.home]) == b"OK"
        for position, key in enumerate(self.keys(here)):
            assert raw_call(here, "MIGRATE", "127.0.0.1", there.port, key, 0, 60_000) == b"OK"
            if position == 0:
                between()
        for node in (there, here, *self.nodes):
            raw_call(node, "CLUSTER", "SETSLOT", self.number, "NODE", self._ids[self.home])


def refusals(node, word):
    """Return how often a node answered with an error."""
    found = re.search(rb"errorstat_%b:count=(\d+)" % word, raw_call(node, "INFO", "errorstats"))
    return int(found[1]) if found else 0


def waiting_long(maestro):
    """Give a client more time than a move needs on a busy machine."""
    maestro.server.connection.retry_s = 60.0
    return maestro


def test_slots_move_under_writers_followers_and_a_sweeper(project, nodes):
    """The session goes round all nodes: each message once, in order, seen by all, and on disk in the end."""
    servers, url = nodes
    # A namespace of its own: the sweeper looks after every session there is, and other tests have theirs elsewhere.
    with waiting_long(Maestro(project, redis_url=url, namespace="moving")) as maestro:
        session = maestro.sessions.start("moving")
        maestro.messages.add("user", "first")
        slot = Slot(servers, maestro.server.terms.keys.of_session(session.id, "session"))
        moved_before = sum(refusals(node, b"MOVED") for node in servers)
        leave = threading.Event()
        acknowledged = dict.fromkeys(range(WRITERS), 0)

        def write(writer):
            with waiting_long(Maestro(project, redis_url=url, namespace="moving")) as own:
                while not leave.is_set():
                    own.messages.add("user", f"{writer}:{acknowledged[writer]}", session.id)
                    acknowledged[writer] += 1

        def follow():
            with waiting_long(Maestro(project, redis_url=url, namespace="moving")) as own:
                return [event.data.get("content") for event in own.follow.events(session.id, cursor="start")]

        async def follow_async():
            async with AsyncMaestro(project, redis_url=url, namespace="moving") as own:
                waiting_long(own)
                events = own.follow.events(session.id, cursor="start")
                return [event.data.get("content") async for event in events]

        def sweep():
            with waiting_long(Maestro(project, redis_url=url, namespace="moving")) as own:
                failed, passes = [], 0
                while not leave.is_set():
                    failed += own.archive.sweep().errors
                    passes += 1
                return failed, passes

        def hold():
            # Longer than redis-py tries on its own: several callers have been told to try again many times.
            source = servers[(slot.home - 1) % len(servers)]
            before = refusals(source, b"TRYAGAIN")
            wait_until(lambda: refusals(source, b"TRYAGAIN") > before + 150, "nobody is told to try again")

        with ThreadPoolExecutor(WRITERS + 3) as pool:
            followers = [pool.submit(follow), pool.submit(lambda: asyncio.run(follow_async()))]
            writers = [pool.submit(write, number) for number in range(WRITERS)]
            sweeper = pool.submit(sweep)
            try:
                for turn in range(MOVES):
                    goals = {number: count + 20 for number, count in acknowledged.items()}
                    wait_until(
                        lambda goals=goals: all(acknowledged[one] >= goal for one, goal in goals.items()),
                        "the writers do not get on",
                    )
                    slot.move(between=hold if turn == 1 else lambda: None)
            finally:
                leave.set()
                wait([*writers, sweeper], 90)
                stored = [message.content for message in maestro.messages.since(None, session.id)]
                maestro.sessions.end(session.id)  # the followers leave, whatever happened
            for writer in writers:
                writer.result()
            failed, passes = sweeper.result()
            seen = [follower.result(90)[1:-1] for follower in followers]
        assert (failed, passes > 0) == ([], True)
        maestro.archive.sweep()
        assert maestro.archive.verify(session.id).ok
        archived = (project / ".maestro" / "sessions" / session.id / "messages.jsonl").read_text().splitlines()
        assert [json.loads(line)["content"] for line in archived] == stored
    for number, count in acknowledged.items():
        assert [text for text in stored if text.startswith(f"{number}:")] == [f"{number}:{n}" for n in range(count)]
    assert len(stored) == 1 + sum(acknowledged.values())
    assert seen == [stored, stored]
    # Control: the moves were felt.
    assert sum(refusals(node, b"MOVED") for node in servers) > moved_before


def test_a_slot_in_the_middle_of_a_move_is_refused_to_the_bare_client(project, nodes):
    """Control: without repeats of our own, a move that takes longer than redis-py tries is an error to the caller."""
    servers, url = nodes
    with Maestro(project, redis_url=url) as maestro:
        session = maestro.sessions.start("refused")
        maestro.messages.add("user", "first")
        slot = Slot(servers, maestro.server.terms.keys.of_session(session.id, "session"))
        maestro.server.connection.retry_s = 0.0
        failed = []

        def ask():
            try:
                maestro.messages.add("user", "second")
            except OSError as error:  # never: a caller sees errors of ours only
                raise AssertionError from error
            except Exception as error:  # noqa: BLE001 - whatever it is, it is what the caller would see
                failed.append(error)

        slot.move(between=ask)
        assert [error.code for error in failed] == ["server_unavailable"]
        maestro.server.connection.retry_s = 5.0
        maestro.messages.add("user", "third")
        assert [message.content for message in maestro.messages.last(5)] == ["first", "third"]


async def test_confirmed_changes_find_a_slot_that_moved(project, nodes, monkeypatch):
    """A change that waits for replicas goes to the node that has the session, also just after a move."""
    monkeypatch.setattr(replication, "CONFIRM_MS", 50)
    servers, url = nodes
    with Maestro(project, redis_url=url, wait_replicas=1) as maestro:
        first, second = (maestro.sessions.start(f"session {number}").id for number in range(2))
        async with AsyncMaestro(project, redis_url=url, wait_replicas=1) as later:
            assert (await later.sessions.read(second)).state == "iniciada"
            for one in (first, second):
                Slot(servers, maestro.server.terms.keys.of_session(one, "session")).move()
            # These nodes have no replicas: the change is made where the session is now, and that is said.
            with pytest.raises(NotReplicated, match="only 0 of 1"):
                maestro.sessions.end(first)
            with pytest.raises(NotReplicated, match="only 0 of 1"):
                await later.sessions.end(second)
            assert [(await later.sessions.read(one)).state for one in (first, second)] == ["finalizada"] * 2


def test_exhausted_redirections_are_read_as_a_passing_answer():
    """What redis-py says when it gave up following a slot is an answer that will be another one later."""
    from redis.exceptions import ClusterError

    assert read_error(ClusterError("TTL exhausted.")).kind == "TRYAGAIN"
