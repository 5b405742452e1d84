"""A user's own redis-py client: Maestro opens connections like its own, and never uses, changes or closes the client.

Its own they cannot be: replies may come decoded, converted or in RESP3, its timeout would end a read that waits in the
server, and whoever waits there would take the client's connections away from the user. What is taken over: where the
server is, database, user, password, credential provider, TLS, retries, connection class, kind and size of the pool.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import redis.asyncio.cluster
import redis.asyncio.retry
import redis.asyncio.sentinel
import redis.cluster
import redis.retry
import redis.sentinel
from redis.backoff import ExponentialWithJitterBackoff
from redis.credentials import CredentialProvider

from maestro_state.errors import ConfigError
from maestro_state.net.discovery import RawCluster
from maestro_state.net.redis_py import AsyncLibraryConnection, LibraryConnection
from maestro_state.net.url import Address, masked

#: Settings of connections that redis-py adds for itself, or that need RESP3; by how their names begin.
_INTERNAL = ("maint_", "oss_", "orig_", "himport_", "cache", "connection_pool", "event_dispatcher", "response_")
#: Pauses between redis-py's own tries where they cannot be read from the client, in seconds: its default.
_BACKOFF_S = {"base": 1, "cap": 10}


@dataclass(frozen=True)
class _World:
    """redis-py for blocking calls, or for an event loop: the same names in different modules."""

    use: str
    name: str
    base: ModuleType
    sentinel: ModuleType
    cluster: ModuleType
    retry: Any
    new_cluster: Any

    def has(self, client: Any) -> bool:
        """Tell whether a client is one of these."""
        return isinstance(client, (self.base.Redis, self.base.RedisCluster))

    def connection(self, name: str) -> Any:
        """Return the class of connections that redis-py has under a name; None if it has none."""
        return getattr(self.base, name, None) or getattr(self.sentinel, name, None)


_SYNC = _World("blocking", "redis", redis, redis.sentinel, redis.cluster, redis.retry.Retry, RawCluster)
_ASYNC = _World(
    "asyncio",
    "redis.asyncio",
    redis.asyncio,
    redis.asyncio.sentinel,
    redis.asyncio.cluster,
    redis.asyncio.retry.Retry,
    redis.asyncio.RedisCluster,
)
_CLUSTERS = (redis.RedisCluster, redis.asyncio.RedisCluster)
_SENTINEL_POOLS = (redis.sentinel.SentinelConnectionPool, redis.asyncio.sentinel.SentinelConnectionPool)
_BLOCKING_POOLS = (redis.BlockingConnectionPool, redis.asyncio.BlockingConnectionPool)
_TLS = (redis.SSLConnection, redis.asyncio.SSLConnection)


@dataclass(frozen=True)
class Twin:
    """An asyncio client that stands for a blocking one: connections for blocking calls are made like its own."""

    client: Any


def connection_of(client: Any) -> LibraryConnection:
    """Return a blocking connection to the server of a client."""
    if is_twin := isinstance(client, Twin):
        client = client.client
    else:
        _check(client, _SYNC, "Maestro(client=…)")
    # The sentinels of a client are asked over its own connections; a twin's had to be made.
    return LibraryConnection(
        lambda limit_s: _like(client, _SYNC, limit_s),
        address=_named(client),
        owns_sentinels=is_twin,
    )


def async_connection_of(client: Any) -> AsyncLibraryConnection:
    """Return an asyncio connection to the server of a client."""
    _check(client, _ASYNC, "AsyncMaestro(client=…)")
    return AsyncLibraryConnection(
        lambda limit_s: _like(client, _ASYNC, limit_s),
        address=_named(client),
        owns_sentinels=False,
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
    if not isinstance(client, _CLUSTERS):
        pool = client.connection_pool
        _connection_class(pool.connection_class, pool.connection_kwargs, client, _SYNC)
    return Twin(client)


def url_of(client: Any) -> str:
    """Return the address of a client's server, without user and password."""
    client = client.client if isinstance(client, Twin) else client
    if not _ASYNC.has(client):
        _check(client, _SYNC, "Maestro(client=…)")
    return masked(_address(client)).replace("%", "%25")


def _check(client: Any, world: _World, taker: str) -> None:
    if not world.has(client):
        kind = f"{type(client).__module__}.{type(client).__name__}"
        raise ConfigError(
            f"{taker} takes a redis-py client for {world.use} calls, not {kind}",
            hint=f"use {world.name}.Redis or {world.name}.RedisCluster",
        )
    pool = getattr(client, "connection_pool", None)
    if isinstance(pool, _SENTINEL_POOLS) and not pool.is_master:
        raise ConfigError("client= leads to a replica, which takes no writes", hint="use Sentinel.master_for()")


def _named(client: Any) -> Address:
    """Return the address with what is to be corrected when nobody is there."""
    return replace(_address(client), setting="client=")


def _address(client: Any) -> Address:
    if isinstance(client, _CLUSTERS):
        return Address("redis+cluster", tuple(_nodes(client)))
    pool = client.connection_pool
    options = pool.connection_kwargs
    db = int(options.get("db") or 0)
    if isinstance(pool, _SENTINEL_POOLS):
        return Address("redis+sentinel", _sentinels(pool.sentinel_manager), db=db, service=pool.service_name)
    if options.get("path"):
        return Address("unix", path=options["path"], db=db)
    is_tls = issubclass(pool.connection_class, _TLS)
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
    if isinstance(client, _CLUSTERS):
        return _cluster_like(client, world, changed)
    pool = client.connection_pool
    options = _options(pool.connection_kwargs, world) | changed
    kinds: dict[str, Any] = {"connection_class": _connection_class(pool.connection_class, options, client, world)}
    kind = world.base.ConnectionPool
    if limit_s is None:  # reads that wait in the server have their own connections, as many as there are
        kinds["max_connections"] = pool.max_connections
        if isinstance(pool, _BLOCKING_POOLS):
            kind = world.base.BlockingConnectionPool
            kinds["timeout"] = pool.timeout
    if isinstance(pool, _SENTINEL_POOLS):
        made = world.sentinel.SentinelConnectionPool(
            pool.service_name, _manager(pool, world), check_connection=pool.check_connection, **kinds, **options
        )
    else:
        made = kind(**kinds, **options)
    own, base = type(client), world.base.Redis
    # A class that is made as redis-py's is keeps what it adds to commands: tracing, say.
    face = own if issubclass(own, base) and own.__init__ is base.__init__ else base
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
    if world.has(client):
        return found
    provider = options.get("credential_provider")
    asks = getattr(type(provider), "get_credentials", None)
    if found is not _ASYNC.connection(found.__name__):
        reason = f"connections of a class of your own ({found.__name__})"
    elif options.get("redis_connect_func"):
        reason = "connections with a redis_connect_func"
    elif provider is not None and asks is CredentialProvider.get_credentials:
        reason = "a credential provider without get_credentials()"
    else:
        return world.connection(found.__name__)
    raise ConfigError(
        f"no blocking client can be made like client=: it has {reason}", hint="give AsyncMaestro blocking_client= too"
    )


def _manager(pool: Any, world: _World) -> Any:
    """Return what finds the master: the client's own, or one like it."""
    manager = pool.sentinel_manager
    if isinstance(manager, world.sentinel.Sentinel):
        return manager
    options = _options(manager.sentinel_kwargs, world)
    return world.sentinel.Sentinel(_sentinels(manager), manager.min_other_sentinels, sentinel_kwargs=options)


def _cluster_like(client: Any, world: _World, changed: dict[str, Any]) -> Any:
    manager = client.nodes_manager
    found = manager.connection_kwargs
    options = _options(found, world) | changed | {"redis_connect_func": getattr(client, "user_on_connect_func", None)}
    kind = options.pop("connection_class", None)  # an asyncio client's; it says only whether it is TLS
    if kind is not None:
        kind = _connection_class(kind, options, client, world)
        options["ssl"] = issubclass(kind, _TLS)
    if world is _ASYNC:
        del options["redis_connect_func"]
    elif world.has(client):
        options["connection_pool_class"] = manager.connection_pool_class
    return world.new_cluster(
        startup_nodes=[world.cluster.ClusterNode(host, port) for host, port in _nodes(client)],
        retry=_retry(client.retry, world),
        address_remap=manager.address_remap,
        **options,
    )
