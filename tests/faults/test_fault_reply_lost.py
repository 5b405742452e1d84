"""A reply that is lost after the server has done the work: every message is there exactly once."""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import closing

import pytest
import redis

from maestro_state import AsyncMaestro, Maestro
from maestro_state.net import connect
from tests.support.key_leaks import check_keys
from tests.support.seeds import seeded
from tests.support.servers import lossy_proxy, raw_call, valkey
from tests.support.waiting import wait_until

APPENDS = 1000
LOST_SHARE = 0.05


def losing(chance):
    """Lose one reply in twenty; never one before the greeting is over."""
    return lambda number: number > 4 and chance.random() < LOST_SHARE


def contents(messages):
    """Return what the messages say."""
    return [message.content for message in messages]


def test_a_thousand_messages_are_a_thousand(project, tmp_path):
    """With one reply in twenty lost, 1000 adds leave 1000 messages, in order, with the ids callers got."""
    with valkey(tmp_path) as server, lossy_proxy(server, losing(seeded())) as proxy:
        with (
            Maestro(project, redis_url=server.url) as direct,
            Maestro(project, redis_url=proxy.url) as maestro,
        ):
            session = direct.sessions.start("lossy")
            maestro.server.connection.retry_s = 60.0
            added = [maestro.messages.add("user", str(number), session.id) for number in range(APPENDS)]
            assert direct.messages.since(None, session.id) == added
            assert contents(added) == [str(number) for number in range(APPENDS)]
        assert proxy.lost >= 20, "too few replies were lost for this to prove anything"
        with redis.Redis(unix_socket_path=server.socket) as raw:
            check_keys(raw)


def test_plain_appends_through_the_same_proxy_are_doubled(tmp_path):
    """Control: what is appended without a command id is appended again when its reply is lost."""
    with valkey(tmp_path) as server, lossy_proxy(server, losing(seeded())) as proxy:
        with closing(connect(proxy.url)) as wire:
            wire.retry_s = 60.0
            for number in range(APPENDS):
                wire.call("XADD", "plain", "*", "n", number)
        assert raw_call(server, "XLEN", "plain") > APPENDS


async def test_callers_that_share_a_connection_are_told_apart(project, tmp_path):
    """Many tasks on one asyncio connection lose replies together, and still nothing is doubled or missing."""
    # By count, not by chance: on a busy machine the replies of all tasks come in few pieces. There are at least 50, as
    # each task waits for one reply before its next call.
    with valkey(tmp_path) as server, lossy_proxy(server, lambda number: number % 10 == 0) as proxy:
        async with AsyncMaestro(project, redis_url=server.url) as direct:
            session = await direct.sessions.start("shared")
            async with AsyncMaestro(project, redis_url=proxy.url) as maestro:
                maestro.server.connection.retry_s = 60.0

                async def talk(name):
                    for number in range(50):
                        await maestro.messages.add("user", f"{name}:{number}", session.id)

                await asyncio.gather(*(talk(name) for name in range(10)))
            found = contents(await direct.messages.since(None, session.id))
        assert sorted(found) == sorted(f"{name}:{number}" for name in range(10) for number in range(50))
        assert proxy.lost >= 5


def test_a_reply_lost_amid_a_busy_session_is_still_known(project, tmp_path):
    """Hundreds of calls by others between a call and its repeat do not make the server forget it."""
    lose_next = threading.Event()
    with valkey(tmp_path) as server, lossy_proxy(server, lambda number: lose_next.is_set()) as proxy:
        with (
            Maestro(project, redis_url=server.url) as busy,
            Maestro(project, redis_url=proxy.url) as unlucky,
        ):
            session = busy.sessions.start("busy")
            unlucky.server.connection.retry_s = 60.0
            unlucky.messages.add("user", "first", session.id)
            lose_next.set()
            caller = threading.Thread(target=unlucky.messages.add, args=("user", "once", session.id))
            caller.start()
            wait_until(lambda: proxy.lost > 0, "no reply was lost")
            for number in range(500):
                busy.messages.add("user", f"other {number}", session.id)
            lose_next.clear()
            caller.join(60)
            found = contents(busy.messages.since(None, session.id))
        assert proxy.lost > 0
        assert found.count("once") == 1
        assert len(found) == 502


class LoseOne:
    """Loses the n-th reply after it was armed."""

    def __init__(self):
        self.left = 0

    def __call__(self, number):
        if not self.left:
            return False
        self.left -= 1
        return not self.left


def start_another(maestro, session_id):
    """Start a second session and see that there is not a third."""
    maestro.sessions.start("another")
    assert len(maestro.sessions.newest(10)) == 2


VERBS = {
    "set": lambda maestro, session_id: maestro.sessions.set("preferences", {"a": 1}, if_revision=0),
    "end": lambda maestro, session_id: maestro.sessions.end(session_id),
    "abort": lambda maestro, session_id: maestro.sessions.abort(session_id, reason="enough"),
    "delete": lambda maestro, session_id: maestro.sessions.delete(session_id),
    "start": start_another,
}


@pytest.mark.parametrize("verb", VERBS)
def test_no_verb_is_in_conflict_with_itself(project, tmp_path, verb):
    """Whichever reply of a verb is lost, its repeat gets the first answer, and the change is there once."""
    lose = LoseOne()
    with valkey(tmp_path) as server, lossy_proxy(server, lose) as proxy:
        for nth in (1, 2, 3):
            with Maestro(project, redis_url=proxy.url, namespace=f"n{nth}") as maestro:
                session = maestro.sessions.start("verbs")
                lose.left = nth
                VERBS[verb](maestro, session.id)
                lose.left = 0
                if verb == "delete":
                    assert maestro.project.active() is None
                    assert maestro.sessions.list() == []
                else:
                    events = list(maestro.follow.events(session.id, cursor="start", until_idle_ms=1))
                    assert len(events) == (1 if verb == "start" else 2)
        assert proxy.lost >= 1


def test_a_client_leaves_one_mark_however_often_it_changes_something(real):
    """What is remembered to know repeats does not grow with the number of calls."""
    with real.open() as maestro:
        session = maestro.sessions.start("marks")
        key = maestro.server.terms.keys.of_session(session.id, "session")
        maestro.messages.add("user", "first")
        maestro.sessions.set("preferences", {})
        before = real.raw.hlen(key)
        for number in range(100):
            maestro.messages.add("user", str(number))
            maestro.sessions.set("preferences", {"n": number})
        assert real.raw.hlen(key) == before


def test_a_forked_child_is_not_taken_for_its_parent(real):
    """A message of a forked child is never mistaken for a repeat of its parent's."""
    with real.open() as maestro:
        session = maestro.sessions.start("forked")
        maestro.messages.add("user", "before", session.id)
        child = os.fork()
        if child == 0:
            try:
                maestro.messages.add("user", "child", session.id)
            finally:
                os._exit(0)
        maestro.messages.add("user", "parent", session.id)
        os.waitpid(child, 0)
        assert sorted(contents(maestro.messages.since(None, session.id))) == ["before", "child", "parent"]


def test_threads_that_share_a_maestro_lose_nothing(real):
    """Threads that add through one object are told apart."""
    with real.open() as maestro:
        session = maestro.sessions.start("threads")
        failed = []

        def talk(name):
            try:
                for number in range(50):
                    maestro.messages.add("user", f"{name}:{number}", session.id)
            except BaseException as error:
                failed.append(error)
                raise

        threads = [threading.Thread(target=talk, args=(name,)) for name in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []
        found = contents(maestro.messages.since(None, session.id))
        assert sorted(found) == sorted(f"{name}:{number}" for name in range(8) for number in range(50))
