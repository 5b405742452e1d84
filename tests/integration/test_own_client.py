"""A redis-py client of the user's own: connections are made like its own, for every kind of server and pool."""

from __future__ import annotations

import inspect
import threading

import pytest
import redis
import redis.asyncio
from redis.asyncio.sentinel import Sentinel as AsyncSentinel
from redis.backoff import NoBackoff
from redis.credentials import CredentialProvider
from redis.retry import Retry
from redis.sentinel import Sentinel

from maestro_state import AsyncMaestro, Maestro
from maestro_state.errors import ConfigError, ServerUnavailable
from tests.support.sentinels import watched_master
from tests.support.servers import free_port, raw_call, valkey
from tests.support.waiting import wait_until
from tests.support.work_samples import crumb

FINAL = {"patch_operations": [{"op_type": "add_track", "data": {"track_name": "Login"}}]}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Run one server for the module, with a user that a password lets in."""
    with valkey(tmp_path_factory.mktemp("s"), port=free_port()) as running:
        raw_call(running, "ACL", "SETUSER", "ana", "on", ">secret", "~*", "&*", "+@all")
        yield running


def clients(server):
    """Return what the server says of each connection, by field."""
    lines = raw_call(server, "CLIENT", "LIST").decode().splitlines()
    return [dict(part.split("=", 1) for part in line.split() if "=" in part) for line in lines]


async def got(value):
    """Return what a verb of either Maestro gives."""
    return await value if inspect.isawaitable(value) else value


async def walk(maestro, *, has_queue=True):
    """Do something in every room that asks the server."""
    session = await got(maestro.sessions.start("walk", tool="echo"))
    await got(maestro.messages.add("user", "é"))
    assert [one.content for one in await got(maestro.messages.last())] == ["é"]
    assert await got(maestro.context.list()) == []
    await got(maestro.tools.use("echo"))
    if has_queue:
        run = await got(maestro.runs.start("hello"))
        assert await got(maestro.queue.waiting()) >= 1
        claim = await got(maestro.claims.claim(session.id, run.id, "me"))
        assert (await got(maestro.claims.contents(claim)))[0] == b"hello"
        await got(maestro.claims.add_outputs(claim, 0, [b"out"]))
        assert await got(maestro.runs.output(run.id)) == b"out"
    else:
        with pytest.raises(ConfigError, match="Cluster"):
            await got(maestro.runs.start("hello"))
    assert await got(maestro.schedule.now_ms()) > 0
    assert {check.name: check.status for check in await got(maestro.health.checks())}["server"] == "ok"
    work = (await got(maestro.work.start("t"))).session_id
    await got(maestro.work.add_breadcrumb(work, crumb("one")))
    assert (await got(maestro.work.consume(work))).applied == 1
    talk = await got(maestro.discussions.start(kind="track", ref="login", reason="asked for"))
    await got(maestro.discussions.say("plan"))
    assert (await got(maestro.discussions.done(FINAL))).status == "closed"
    assert (await got(maestro.discussions.show(talk.session_id))).meta.status == "closed"
    await got(maestro.usage())
    await got(maestro.archive.checkpoint(session.id))
    assert (await got(maestro.archive.verify(session.id))).ok
    events = maestro.follow.events(session.id, cursor="start", until_idle_ms=1)
    found = [event async for event in events] if hasattr(events, "__aiter__") else list(events)
    assert found[0].type == "session.started"


async def both(project, client, later, *, has_queue=True, **options):
    """Walk through the rooms of a blocking and of an asyncio Maestro."""
    with Maestro(project, client=client, **options) as maestro:
        await walk(maestro, has_queue=has_queue)
    async with AsyncMaestro(project, client=later, **options) as maestro:
        await walk(maestro, has_queue=has_queue)


async def test_every_room_over_tcp_in_the_clients_database(server, project):
    """The database is the client's; the client stays as it was, open and with its own kind of replies."""
    options = {"port": server.port, "db": 3, "decode_responses": True, "client_name": "mine"}
    client, later = redis.Redis(**options), redis.asyncio.Redis(**options)
    client.set("of-mine", "é")
    await both(project, client, later)
    assert client.get("of-mine") == "é"
    assert client.ping() is True
    assert await later.get("of-mine") == "é"
    assert client.info("keyspace")["db3"]["keys"] > 1
    client.close()
    await later.aclose()
    wait_until(lambda: not [row for row in clients(server) if row["name"] == "mine"], "connections are left open")


@pytest.mark.xdist_group("busy")
async def test_every_room_behind_sentinel(tmp_path, project):
    """A client of Sentinel's master leads to the master, also for the threads; the sentinel's clients stay open."""
    with watched_master(tmp_path) as watched:
        where = [("127.0.0.1", watched.sentinel.port)]
        sentinel, later = Sentinel(where), AsyncSentinel(where)
        await both(project, sentinel.master_for("mymaster"), later.master_for("mymaster"))
        assert sentinel.discover_master("mymaster") == ("127.0.0.1", watched.master.port)
        for client in (sentinel.slave_for("mymaster"), sentinel.slave_for("mymaster", is_master=False)):
            with pytest.raises(ConfigError, match="replica"):
                Maestro(project, client=client)
        for one in sentinel.sentinels:
            one.close()
        for one in later.sentinels:
            await one.aclose()


@pytest.mark.xdist_group("cluster")
async def test_every_room_on_a_cluster(nodes, project, tmp_path):
    """A cluster client does for everything but the queue, which is named where it is missing."""
    port = nodes.nodes[0].port
    with redis.RedisCluster(port=port, host="127.0.0.1") as client:
        later = redis.asyncio.RedisCluster(port=port, host="127.0.0.1", decode_responses=True)
        await both(project, client, later, has_queue=False)
        with valkey(tmp_path) as queue:
            await both(project, client, later, queue_url=queue.url)
        assert client.ping(target_nodes="all") is True
        await later.aclose()


class Known(CredentialProvider):
    """Lets in whoever asks it, and counts them."""

    asked = 0

    def get_credentials(self):
        """Return a user and a password."""
        self.asked += 1
        return "ana", "secret"


class Later(CredentialProvider):
    """Knows its password in an event loop only."""

    async def get_credentials_async(self):
        """Return a user and a password."""
        return "ana", "secret"


async def test_a_credential_provider_is_asked_for_each_connection(server, project):
    """Its connections are those of the provider's user, in the loop and in threads."""
    known = Known()
    options = {"port": server.port, "credential_provider": known}
    with Maestro(project, client=redis.Redis(**options)) as maestro:
        assert maestro.server.connection.call("ACL", "WHOAMI") == b"ana"
    assert known.asked == 1
    async with AsyncMaestro(project, client=redis.asyncio.Redis(**options)) as maestro:
        assert await maestro.server.connection.call("ACL", "WHOAMI") == b"ana"
        assert maestro.blocking.server.connection.call("ACL", "WHOAMI") == b"ana"
        await walk(maestro)


async def test_what_cannot_be_had_for_blocking_calls_is_asked_for(server, project):
    """A provider or a connection class of the event loop's alone needs blocking_client= too."""

    class Traced(redis.asyncio.Connection):
        """Not one of redis-py's own."""

    plain = {"port": server.port}
    provided = redis.asyncio.Redis(**plain, credential_provider=Later())
    pool = redis.asyncio.ConnectionPool(connection_class=Traced, **plain)
    for later in (provided, redis.asyncio.Redis(connection_pool=pool)):
        with pytest.raises(ConfigError) as caught:
            AsyncMaestro(project, client=later)
        assert "blocking_client=" in caught.value.hint
        blocking = redis.Redis(**plain, username="ana", password="secret")
        async with AsyncMaestro(project, client=later, blocking_client=blocking) as maestro:
            await walk(maestro)


def test_reads_that_wait_take_nothing_from_the_pool(server, project):
    """With one connection, and a timeout shorter than any wait, followers wait beside the calls of all others."""
    options = {"port": server.port, "socket_timeout": 0.5, "retry": Retry(NoBackoff(), 0)}
    pool = redis.BlockingConnectionPool(max_connections=1, timeout=20, **options)
    with Maestro(project, client=redis.Redis(connection_pool=pool)) as maestro:
        session = maestro.sessions.start("followed")
        maestro.server.connection.retry_s = 60.0
        seen = [[] for _ in range(3)]
        followers = [
            threading.Thread(target=lambda found=found: found.extend(maestro.follow.events(session.id, cursor="start")))
            for found in seen
        ]
        for follower in followers:
            follower.start()
        wait_until(lambda: sum(row["flags"] == "b" for row in clients(server)) == 3, "the followers do not wait")
        assert maestro.server.connection.block("BLPOP", "none", 1, block_ms=1000) is None  # past the client's timeout
        for number in range(5):
            maestro.messages.add("user", str(number))
        maestro.sessions.end()
        for follower in followers:
            follower.join(60)
        assert [len(found) for found in seen] == [7, 7, 7]


def test_a_subclass_that_adds_to_commands_is_kept(server, project):
    """What a class of the user's does with each command (tracing, say) is done with Maestro's too."""

    seen = []

    class Traced(redis.Redis):
        def execute_command(self, *args, **options):
            seen.append(args[0])
            return super().execute_command(*args, **options)

    with Maestro(project, client=Traced(port=server.port)) as maestro:
        maestro.messages.add("user", "hello", maestro.sessions.start("traced").id)
    assert "EVALSHA" in seen


def test_the_client_comes_before_the_environment(server, project):
    """A client says where the server is; with an address beside it nobody knows which was meant."""
    environment = {"MAESTRO_REDIS_URL": "redis://127.0.0.1:1"}
    client = redis.Redis(unix_socket_path=server.socket, db=2)
    with Maestro(project, client=client, environment=environment) as maestro:
        maestro.sessions.start("here")
        assert maestro.settings.redis_url == f"unix://{server.socket}?db=2"
    with pytest.raises(ConfigError, match="both"):
        Maestro(project, client=client, redis_url=server.url)


def test_what_is_no_client_for_it_is_refused(project):
    """A client of the other kind, and what is no client, are refused with the word for the one that is wanted."""
    plain, later = redis.Redis(), redis.asyncio.Redis()
    for make, wanted in (
        (lambda: Maestro(project, client=later), "redis.Redis"),
        (lambda: Maestro(project, client="redis://localhost"), "redis.Redis"),
        (lambda: AsyncMaestro(project, client=plain), "redis.asyncio.Redis"),
        (lambda: AsyncMaestro(project, client=42), "redis.asyncio.Redis"),
        (lambda: AsyncMaestro(project, client=later, blocking_client=later), "redis.Redis"),
        (lambda: AsyncMaestro(project, blocking_client=plain), "client="),
    ):
        with pytest.raises(ConfigError) as caught:
            make()
        assert wanted in f"{caught.value} {caught.value.hint}"


def test_a_server_that_is_not_there_is_named_without_secrets(project):
    """What cannot be reached is said with the client's address, and where that was given."""
    client = redis.Redis(port=free_port(), username="ana", password="secret", retry=Retry(NoBackoff(), 0))
    with Maestro(project, client=client) as maestro, pytest.raises(ServerUnavailable) as caught:
        maestro.sessions.start("nowhere")
    assert "redis://localhost:" in str(caught.value)
    assert "client=" in caught.value.hint
    assert "secret" not in str(caught.value)
