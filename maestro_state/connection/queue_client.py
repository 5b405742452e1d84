"""The redis-py client that RQ works with: it waits for a server that is away instead of giving up.

RQ ends its worker when any command fails; a worker has to survive a restart of its server, so every command is
repeated, for as long as it takes, by the client itself.
"""

from __future__ import annotations

from redis import Redis
from redis.backoff import ExponentialBackoff, NoBackoff
from redis.retry import Retry
from redis.sentinel import Sentinel

from maestro_state.connection.discovery import client_options, watcher_options
from maestro_state.connection.url import Address
from maestro_state.errors import ConfigError

#: Seconds one answer may take; above the longest wait of RQ's blocking reads.
_ANSWER_S = 30.0
#: First and longest pause between two tries, in seconds.
_PAUSE_S, _PAUSE_MAX_S = 0.01, 0.5


def queue_client(address: Address) -> Redis:
    """Return RQ's client for a plain, TLS, unix or Sentinel address; connects when first used."""
    if address.scheme == "redis+cluster":
        raise ConfigError(
            "RQ does not work on Redis Cluster", hint="set MAESTRO_QUEUE_URL to a plain or Sentinel server"
        )
    options = client_options(address, _ANSWER_S, min(_ANSWER_S, 5.0)) | {"client_name": address.client_name}
    retry = Retry(ExponentialBackoff(cap=_PAUSE_MAX_S, base=_PAUSE_S), -1)
    if address.scheme == "redis+sentinel":
        watchers = watcher_options(address, 5.0)
        sentinel = Sentinel(list(address.hosts), sentinel_kwargs=watchers)  # type: ignore[no-untyped-call]
        found: Redis = sentinel.master_for(  # type: ignore[no-untyped-call]
            address.service or "", db=address.db, retry=retry, **options
        )
        return found
    if address.scheme == "unix":
        options.pop("socket_connect_timeout")
        return Redis(unix_socket_path=address.path, db=address.db, retry=retry, **options)
    host, port = address.hosts[0]
    return Redis(host=host, port=port, db=address.db, retry=retry, **options)


def stop_waiting(client: Redis) -> None:
    """From now on let a command fail at once: for whoever is leaving and would only say goodbye."""
    client.connection_pool.set_retry(Retry(NoBackoff(), 0))
