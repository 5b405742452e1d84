"""Sessions on a real cluster of three nodes: the same verbs, each session whole on one node."""

from __future__ import annotations

import asyncio
import json
import threading

import pytest
import redis

from maestro_state import AsyncMaestro, Maestro, Terminal
from maestro_state.adapters.binding import Adapter, Entries
from maestro_state.errors import Conflict, InvalidTransition, SessionNotFound
from maestro_state.net import ReplyError
from maestro_state.state.scripts import load
from tests.support.cli_runs import maestro_command, printed
from tests.support.key_leaks import check_keys
from tests.support.servers import raw_call

SESSIONS = 30
ME = Terminal("me", "here", "tty1", "2027-01-01T00:00:00.000+00:00")

pytestmark = pytest.mark.xdist_group("cluster")


@pytest.fixture
def url(nodes, monkeypatch):
    """Point everything at an empty cluster, and look at what is left on it afterwards."""
    monkeypatch.setenv("MAESTRO_REDIS_URL", nodes.url)
    yield nodes.url
    for node in nodes.nodes:
        with redis.Redis(unix_socket_path=node.socket) as raw:
            check_keys(raw)


def test_sessions_and_messages_on_a_cluster(project, url, nodes):
    """Every verb works, each session's keys lie on one node, and the sessions are spread over all nodes."""
    with Maestro(project) as maestro:
        ids = [maestro.sessions.start(f"session {number}").id for number in range(SESSIONS)]
        for number, session_id in enumerate(ids):
            added = maestro.messages.add("user", str(number), session_id)
            maestro.sessions.set("preferences", {"n": number}, session_id, if_revision=0)
            assert maestro.messages.since(None, session_id) == [added]
            with pytest.raises(Conflict):
                maestro.sessions.set("preferences", {}, session_id, if_revision=0)
            assert maestro.sessions.status(session_id).session.preferences == {"n": number}
        assert {row.id for row in maestro.sessions.list()} == set(ids)
        assert len(maestro.sessions.newest(10)) == 10
        assert maestro.sessions.end(ids[0]).state == "finalizada"
        assert maestro.sessions.abort(ids[1], reason="enough").state == "abortada"
        with pytest.raises(InvalidTransition):
            maestro.messages.add("user", "late", ids[0])
        maestro.sessions.delete(ids[2])
        with pytest.raises(SessionNotFound):
            maestro.sessions.read(ids[2])

        homes = {}
        for place, node in enumerate(nodes.nodes):
            for key in raw_call(node, "KEYS", "*{*--*}*"):
                homes.setdefault(key.decode().split("{")[1].split("}")[0], set()).add(place)
        assert set(homes) == set(ids) - {ids[2]}
        assert all(len(places) == 1 for places in homes.values())
        assert set.union(*homes.values()) == {0, 1, 2}


async def test_the_same_over_asyncio(project, url):
    """The asyncio shell does the same, and follows across nodes."""
    async with AsyncMaestro(project) as maestro, AsyncMaestro(project) as other:
        sessions = [await maestro.sessions.start(f"session {number}") for number in range(6)]

        async def follow(session_id):
            return [event async for event in other.follow.events(session_id, cursor="start", terminal=ME)]

        following = [asyncio.create_task(follow(session.id)) for session in sessions]
        for session in sessions:
            for number in range(5):
                await maestro.messages.add("user", str(number), session.id)
            await maestro.sessions.set("context_summary", "short", session.id)
            await maestro.sessions.end(session.id)
        for events in await asyncio.gather(*following):
            kinds = [event.type for event in events]
            assert kinds == [
                "session.started",
                *["message.added"] * 5,
                "session.updated",
                "session.finalized",
            ]
        assert {row.id for row in await maestro.sessions.list()} == {session.id for session in sessions}
        assert {row.state for row in await maestro.sessions.newest(6)} == {"finalizada"}


def test_followers_on_a_cluster(project, url):
    """A follower that waits sees what another adds, and one that comes back misses nothing."""
    with Maestro(project) as maestro, Maestro(project) as other:
        session = maestro.sessions.start("followed")
        found: list = []
        follower = threading.Thread(target=lambda: found.extend(other.follow.events(session.id, cursor="start")))
        follower.start()
        added = [maestro.messages.add("user", str(number)).id for number in range(20)]
        maestro.sessions.end()
        follower.join(60)
        assert [event.id for event in found[1:-1]] == added
        assert [event.id for event in maestro.follow.events(session.id, cursor=added[9])][:-1] == added[10:]


def test_the_command_line_on_a_cluster(project, url):
    """The commands need nothing but the address."""
    started = printed(project, "session", "start", "from the shell")
    printed(project, "message", "add", "--role", "user", "hello")
    assert [one["content"] for one in printed(project, "messages")["messages"]] == ["hello"]
    assert [row["id"] for row in printed(project, "session", "list")["sessions"]] == [started["id"]]
    watched = maestro_command(project, "watch", "--json", "--from", "start", "--until-idle", "0.1")
    assert [json.loads(line)["type"] for line in watched.stdout.splitlines()] == [
        "session.started",
        "message.added",
    ]
    # The queue needs a server of its own beside a cluster; the state on it is judged as anywhere.
    checks = json.loads(maestro_command(project, "doctor", "--json").stdout)["checks"]
    judged = {check["name"]: check["status"] for check in checks}
    assert {judged[name] for name in ("server", "version", "eviction")} == {"ok"}
    assert judged["persistence"] == "warn"  # these nodes sync once a second


def test_keys_of_two_sessions_in_one_script_are_refused(project, url, nodes):
    """Control: without the common tag the cluster refuses, so it is the tag that makes the verbs work."""
    with Maestro(project) as maestro:
        keys = maestro.server.terms.keys
        ids = [f"session-{number}--abcdef" for number in range(SESSIONS)]
        mixed = [keys.of_session(session_id, "session") for session_id in ids]
        with pytest.raises(ReplyError):
            maestro.server.connection.script(load("delete_session"), mixed, ())
        assert str(raw_call(nodes.nodes[0], "EVAL", "return 1", len(mixed), *mixed)).startswith("CROSSSLOT")


async def test_bound_keys_on_a_cluster(project, url, nodes):
    """A binding is in a slot of its own, its session in another: one session all the same, and a fork of it later."""
    async with Adapter(project=project) as adapter:
        threads = [adapter.binding("langgraph", "thread") for _ in range(8)]
        await asyncio.gather(*(one.write(Entries().message("user", "a").set("n", b"1")) for one in threads))
        first = await threads[0].find()
        assert [row.id for row in await adapter.maestro.sessions.list()] == [first]
        assert len(await threads[0].messages()) == 8
        await threads[0].pop()
        await adapter.maestro.sessions.end(first)
        await asyncio.gather(*(one.write(Entries().message("user", "b")) for one in threads))
        second = await threads[1].find()
        assert (await adapter.maestro.sessions.read(second)).forked_from == first
        assert [one.content for one in await threads[2].messages()] == ["a"] * 7 + ["b"] * 8
        assert await threads[2].kept() == {"n": b"1"}
        assert await threads[3].delete()
        assert await adapter.maestro.sessions.list(everything=True) == []
