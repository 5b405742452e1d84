"""A user's own redis-py client: Maestro opens connections like its own, and never uses, changes or closes the client.

Its own they cannot be: replies may come decoded, converted or in RESP3, its timeout would end a read that waits in the
server, and whoever waits there would take the client's connections away from the user. What is taken over: where the
server is, database, user, password, credential provider, TLS, retries, connection class, kind and size of the pool.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import redis
import redis.asyncio as aredis
from redis import sentinel
from redis.asyncio import cluster as acluster
from redis.asyncio import retry as aretry
from redis.asyncio import sentinel as asentinel
from redis.backoff import ExponentialWithJitterBackoff
from redis.cluster import ClusterNode
from redis.credentials import CredentialProvider
from redis.retry import Retry

from maestro_state.errors import ConfigError
from maestro_state.net.discovery import RawCluster
from maestro_state.net.faults import Where
from maestro_state.net.redis_py import AsyncLibraryConnection, LibraryConnection
from maestro_state.net.url import Address, masked

#: Settings of connections that redis-py adds for itself, or that need RESP3; by how their names begin.
_INTERNAL = (
    "maint_",
    "oss_",
    "orig_",
    "himport_",
    "cache",
    "connection_pool",
    "event_dispatcher",
    "response_callbacks",
)
#: Pauses between redis-py's own tries where they cannot be read from the client, in seconds: its default.
_BACKOFF_S = {"base": 1, "cap": 10}


@dataclass(frozen=True)
class _World:
    """The classes of redis-py for blocking calls, or for an event loop."""

    word: str
    client: Any
    cluster: Any
    new_cluster: Any
    node: Any
    pool: Any
    blocking_pool: Any
    sentinel: Any
    sentinel_pool: Any
    retry: Any
    connections: tuple[Any, ...]


_SYNC = _World(
    "redis.Redis or redis.RedisCluster",
    redis.Redis,
    redis.RedisCluster,
    RawCluster,
    ClusterNode,
    redis.ConnectionPool,
    redis.BlockingConnectionPool,
    sentinel.Sentinel,
    sentinel.SentinelConnectionPool,
    Retry,
    (
        redis.Connection,
        redis.SSLConnection,
        redis.UnixDomainSocketConnection,
        sentinel.SentinelManagedConnection,
        sentinel.SentinelManagedSSLConnection,
    ),
)
_ASYNC = _World(
    "redis.asyncio.Redis or redis.asyncio.RedisCluster",
    aredis.Redis,
    aredis.RedisCluster,
    aredis.RedisCluster,
    acluster.ClusterNode,
    aredis.ConnectionPool,
    aredis.BlockingConnectionPool,
    asentinel.Sentinel,
    asentinel.SentinelConnectionPool,
    aretry.Retry,
    (
        aredis.Connection,
        aredis.SSLConnection,
        aredis.UnixDomainSocketConnection,
        asentinel.SentinelManagedConnection,
        asentinel.SentinelManagedSSLConnection,
    ),
)


@dataclass(frozen=True)
class Twin:
    """An asyncio client that stands for a blocking one: connections for blocking calls are made like its own."""

    client: Any


def connection_of(client: Any) -> LibraryConnection:
    """Return a blocking connection to the server of a client."""
    owns_sentinels = isinstance(client, Twin)
    if isinstance(client, Twin):
        client = client.client
    else:
        _check(client, _SYNC, "Maestro(client=…)")
    return LibraryConnection(
        lambda limit_s: _like(client, _SYNC, limit_s), where=_where(client), owns_sentinels=owns_sentinels
    )


def async_connection_of(client: Any) -> AsyncLibraryConnection:
    """Return an asyncio connection to the server of a client."""
    _check(client, _ASYNC, "AsyncMaestro(client=…)")
    return AsyncLibraryConnection(
        lambda limit_s: _like(client, _ASYNC, limit_s), where=_where(client), owns_sentinels=False
    )


def companion_client(client: Any, blocking: Any) -> Any:
    """Return what the blocking Maestro beside an async one takes: the client given for it, or one like the other.

    Raises ConfigError when there is none and the asyncio client's connections cannot be had for blocking calls.
    """
    if client is None:
        raise ConfigError("blocking_client= goes with client=", hint="give AsyncMaestro both")
    _check(client, _ASYNC, "AsyncMaestro(client=…)")
    if blocking is not None:
        _check(blocking, _SYNC, "AsyncMaestro(blocking_client=…)")
        return blocking
    if isinstance(client, _ASYNC.client):
        pool = client.connection_pool
        _connection_class(pool.connection_class, pool.connection_kwargs, client, _SYNC)
    return Twin(client)


def url_of(client: Any) -> str:
    """Return the address of a client's server, without user and password."""
    client = client.client if isinstance(client, Twin) else client
    if not isinstance(client, (_SYNC.client, _SYNC.cluster, _ASYNC.client, _ASYNC.cluster)):
        raise ConfigError(f"client= takes a redis-py client, not {type(client).__name__}", hint=_SYNC.word)
    return masked(_address(client)).replace("%", "%25")


def _check(client: Any, world: _World, taker: str) -> None:
    if not isinstance(client, (world.client, world.cluster)):
        kind = f"{type(client).__module__}.{type(client).__name__}"
        raise ConfigError(f"{taker} takes a client for {_USES[world.word]} calls, not {kind}", hint=f"use {world.word}")
    pool = getattr(client, "connection_pool", None)
    if isinstance(pool, world.sentinel_pool) and not pool.is_master:
        raise ConfigError("client= leads to a replica, which takes no writes", hint="use Sentinel.master_for()")


_USES = {_SYNC.word: "blocking", _ASYNC.word: "asyncio"}


def _where(client: Any) -> Where:
    return Where(masked(_address(client)), "client=")


def _address(client: Any) -> Address:
    if isinstance(client, (_SYNC.cluster, _ASYNC.cluster)):
        return Address("redis+cluster", tuple(_nodes(client)))
    pool = client.connection_pool
    options = pool.connection_kwargs
    db = int(options.get("db") or 0)
    if isinstance(pool, (_SYNC.sentinel_pool, _ASYNC.sentinel_pool)):
        return Address("redis+sentinel", _sentinels(pool.sentinel_manager), db=db, service=pool.service_name)
    if options.get("path"):
        return Address("unix", path=options["path"], db=db)
    is_tls = issubclass(pool.connection_class, (redis.SSLConnection, aredis.SSLConnection))
    host = str(options.get("host") or "localhost"), int(options.get("port") or 6379)
    return Address("rediss" if is_tls else "redis", (host,), db=db, tls=is_tls)


def _sentinels(manager: Any) -> tuple[tuple[str, int], ...]:
    options = [watcher.connection_pool.connection_kwargs for watcher in manager.sentinels]
    return tuple((str(one["host"]), int(one["port"])) for one in options)


def _nodes(client: Any) -> list[tuple[str, int]]:
    """Return the nodes that a cluster client knows; one that has not connected yet knows those it was given."""
    known = client.get_nodes() or client.nodes_manager.startup_nodes.values()
    return [(str(node.host), int(node.port)) for node in known]


def _like(client: Any, world: _World, limit_s: float | None) -> Any:
    """Return a new client of `world` with the connections of another one, whose reads may take `limit_s`."""
    changed: dict[str, Any] = {"protocol": 2, "decode_responses": False, "encoding": "utf-8"}
    if limit_s is not None:
        changed["socket_timeout"] = limit_s
    if isinstance(client, (_SYNC.cluster, _ASYNC.cluster)):
        return _cluster_like(client, world, changed)
    pool = client.connection_pool
    options = _options(pool.connection_kwargs, world) | changed
    kinds: dict[str, Any] = {"connection_class": _connection_class(pool.connection_class, options, client, world)}
    kind = world.pool
    if limit_s is None:  # reads that wait in the server have their own connections, as many as there are
        kinds["max_connections"] = pool.max_connections
        if isinstance(pool, (_SYNC.blocking_pool, _ASYNC.blocking_pool)):
            kind = world.blocking_pool
            kinds["timeout"] = pool.timeout
    if isinstance(pool, (_SYNC.sentinel_pool, _ASYNC.sentinel_pool)):
        made = world.sentinel_pool(
            pool.service_name, _manager(pool, world), check_connection=pool.check_connection, **kinds, **options
        )
    else:
        made = kind(**kinds, **options)
    own = type(client)
    # A class that is made as redis-py's is keeps what it adds to commands: tracing, say.
    face = own if issubclass(own, world.client) and own.__init__ is world.client.__init__ else world.client
    new = face(connection_pool=made, credential_provider=options.get("credential_provider"))
    new.auto_close_connection_pool = True
    return new


def _options(found: dict[str, Any], world: _World) -> dict[str, Any]:
    """Return settings of connections without what redis-py put there, with retries that fit the world."""
    options = {name: value for name, value in found.items() if not name.startswith(_INTERNAL)}
    if "retry" in options:
        options["retry"] = _retry(options["retry"], world)
    return options


def _retry(found: Any, world: _World) -> Any:
    if found is None or isinstance(found, world.retry):
        return found
    return world.retry(ExponentialWithJitterBackoff(**_BACKOFF_S), found.get_retries())


def _connection_class(found: Any, options: dict[str, Any], client: Any, world: _World) -> Any:
    """Return the class of the world's connections; ConfigError for what only the other world has."""
    if isinstance(client, (world.client, world.cluster)):
        return found
    provider = options.get("credential_provider")
    asks = getattr(type(provider), "get_credentials", None)
    if found not in _ASYNC.connections:
        reason = f"connections of a class of your own ({found.__name__})"
    elif options.get("redis_connect_func"):
        reason = "connections with a redis_connect_func"
    elif provider is not None and asks is CredentialProvider.get_credentials:
        reason = "a credential provider without get_credentials()"
    else:
        return _SYNC.connections[_ASYNC.connections.index(found)]
    raise ConfigError(
        f"no blocking client can be made like client=: it has {reason}", hint="give AsyncMaestro blocking_client= too"
    )


def _manager(pool: Any, world: _World) -> Any:
    """Return what finds the master: the client's own, or one like it."""
    manager = pool.sentinel_manager
    if isinstance(manager, world.sentinel):
        return manager
    options = _options(manager.sentinel_kwargs, world)
    return world.sentinel(_sentinels(manager), manager.min_other_sentinels, sentinel_kwargs=options)


def _cluster_like(client: Any, world: _World, changed: dict[str, Any]) -> Any:
    manager = client.nodes_manager
    found = manager.connection_kwargs
    options = _options(found, world) | changed | {"redis_connect_func": getattr(client, "user_on_connect_func", None)}
    kind = options.pop("connection_class", None)  # an asyncio client's; it says only whether it is TLS
    if kind is not None:
        kind = _connection_class(kind, options, client, world)
        options["ssl"] = issubclass(kind, (redis.SSLConnection, aredis.SSLConnection))
    if world is _ASYNC:
        del options["redis_connect_func"]
    elif isinstance(client, _SYNC.cluster):
        options["connection_pool_class"] = manager.connection_pool_class
    return world.new_cluster(
        startup_nodes=[world.node(host, port) for host, port in _nodes(client)],
        retry=_retry(client.retry, world),
        address_remap=manager.address_remap,
        **options,
    )
