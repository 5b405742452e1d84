"""Build the redis-py clients that find their server themselves: Sentinel's master, a cluster's nodes.

redis-py's own repeats are kept to what its cluster client needs to learn a new layout; the rest is ours.
"""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any

from redis import Redis
from redis.asyncio.cluster import ClusterNode as AsyncClusterNode
from redis.asyncio.cluster import RedisCluster as AsyncRedisCluster
from redis.asyncio.retry import Retry as AsyncRetry
from redis.asyncio.sentinel import Sentinel as AsyncSentinel
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.retry import Retry
from redis.sentinel import Sentinel

from maestro_state.net.redis_py import AsyncLibraryConnection, LibraryConnection
from maestro_state.net.translation import keep_raw

if TYPE_CHECKING:
    from maestro_state.net.url import Address

#: Tries of a cluster client on its own, each with the layout read anew.
_LAYOUT_TRIES = 3
#: redis-py tells a server which library it is, by a command (CLIENT SETINFO) that no account may send, since servers
#: before 7.2 do not have it; its releases have two names for asking it not to.
_TELLS = "driver_info" in signature(Redis.__init__).parameters
_UNNAMED_LIBRARY: dict[str, Any] = {"driver_info": None} if _TELLS else {"lib_name": None, "lib_version": None}


class RawCluster(RedisCluster):
    """A cluster client whose nodes return replies as they came."""

    def get_redis_connection(self, node: ClusterNode) -> Redis:
        """Return a node's client; every command and every redirection asks here for it."""
        client = super().get_redis_connection(node)
        keep_raw(client)
        return client


def library_connection(address: Address, timeout_s: float) -> LibraryConnection:
    """Return a blocking connection to a Sentinel or Cluster address."""

    def make(limit_s: float | None) -> Any:
        options = client_options(address, limit_s or timeout_s, timeout_s)
        if address.scheme == "redis+cluster":
            nodes = [ClusterNode(host, port) for host, port in address.hosts]  # type: ignore[no-untyped-call]
            return RawCluster(startup_nodes=nodes, retry=Retry(NoBackoff(), _LAYOUT_TRIES), **options)
        retry = Retry(NoBackoff(), 0)
        watchers = {**watcher_options(address, timeout_s), "retry": retry}
        sentinel = Sentinel(list(address.hosts), sentinel_kwargs=watchers)  # type: ignore[no-untyped-call]
        return sentinel.master_for(  # type: ignore[no-untyped-call]
            address.service or "", db=address.db, retry=retry, **options
        )

    timeout_s = address.timeout_s or timeout_s
    return LibraryConnection(make, address=address)


def async_library_connection(address: Address, timeout_s: float) -> AsyncLibraryConnection:
    """Return an asyncio connection to a Sentinel or Cluster address."""

    def make(limit_s: float | None) -> Any:
        options = client_options(address, limit_s or timeout_s, timeout_s)
        if address.scheme == "redis+cluster":
            nodes = [AsyncClusterNode(host, port) for host, port in address.hosts]
            tries = AsyncRetry(NoBackoff(), _LAYOUT_TRIES)
            return AsyncRedisCluster(startup_nodes=nodes, retry=tries, **options)
        retry = AsyncRetry(NoBackoff(), 0)
        watchers = {**watcher_options(address, timeout_s), "retry": retry}
        sentinel = AsyncSentinel(list(address.hosts), sentinel_kwargs=watchers)  # type: ignore[no-untyped-call]
        return sentinel.master_for(address.service or "", db=address.db, retry=retry, **options)

    timeout_s = address.timeout_s or timeout_s
    return AsyncLibraryConnection(make, address=address)


def client_options(address: Address, read_s: float, connect_s: float) -> dict[str, Any]:
    """Return what every redis-py client of an address is made with."""
    return {
        "username": address.username,
        "password": address.password,
        "client_name": "maestro",
        **_UNNAMED_LIBRARY,
        "protocol": 2,
        # Explicit: the library's default would end a blocking read early.
        "socket_timeout": read_s,
        "socket_connect_timeout": connect_s,
        **_tls_options(address),
    }


def watcher_options(address: Address, timeout_s: float) -> dict[str, Any]:
    """Return what the clients of the sentinels themselves are made with."""
    return {
        "username": address.sentinel_username,
        "password": address.sentinel_password,
        **_UNNAMED_LIBRARY,
        "protocol": 2,
        "socket_timeout": timeout_s,
        "socket_connect_timeout": timeout_s,
        **_tls_options(address),
    }


def _tls_options(address: Address) -> dict[str, Any]:
    """Return the TLS part of a client's options."""
    if not address.tls:
        return {}
    return {
        "ssl": True,
        "ssl_ca_certs": address.ssl_ca_certs,
        "ssl_certfile": address.ssl_certfile,
        "ssl_keyfile": address.ssl_keyfile,
        "ssl_check_hostname": address.ssl_check_hostname,
    }
