"""The redis-py client that RQ works with: it waits for a server that is away instead of giving up.

RQ ends its worker when any command fails; a worker has to survive a restart of its server, so every command is
repeated, for as long as it takes, by the client itself.
"""

from __future__ import annotations

from typing import Any

from redis import Redis
from redis.backoff import ExponentialBackoff
from redis.connection import UnixDomainSocketConnection
from redis.retry import Retry
from redis.sentinel import Sentinel

from maestro_state.errors import ConfigError
from maestro_state.fs.private_socket import connect_path
from maestro_state.net.discovery import client_options, watcher_options
from maestro_state.net.retry import PAUSE_MAX_S, PAUSE_S
from maestro_state.net.url import Address

#: Seconds one answer may take; above the longest wait of RQ's blocking reads.
_ANSWER_S = 30.0
#: Seconds one answer may take for a client without retries.
_NO_RETRY_S = 2.0


class _QueueRetry(Retry):
    """One for all connections of a client, so that it can run out in the middle of a command."""

    def __deepcopy__(self, memo: dict[int, Any]) -> _QueueRetry:
        """Stay the same one: redis-py gives each connection a copy, which nobody could reach any more."""
        del memo
        return self


class _OwnSocket(UnixDomainSocketConnection):
    """A connection to the project's own server, and to nobody else's."""

    def _connect(self) -> Any:
        line = connect_path(self.path, timeout_s=self.socket_connect_timeout)
        line.settimeout(self.socket_timeout)
        return line


def queue_client(address: Address, *, retries: bool = True) -> Redis:
    """Return RQ's client for a plain, TLS, unix or Sentinel address; connects when first used.

    Without `retries` a command fails at once, or when its answer does not come soon.
    """
    if address.scheme == "redis+cluster":
        raise ConfigError(
            "RQ does not work on Redis Cluster", hint="set MAESTRO_QUEUE_URL to a plain or Sentinel server"
        )
    answer_s = _ANSWER_S if retries else _NO_RETRY_S
    options = client_options(address, answer_s, min(answer_s, 5.0)) | {"client_name": address.client_name}
    retry = _QueueRetry(ExponentialBackoff(cap=PAUSE_MAX_S, base=PAUSE_S), -1 if retries else 0)
    if address.scheme == "redis+sentinel":
        watchers = watcher_options(address, 5.0)
        sentinel = Sentinel(list(address.hosts), sentinel_kwargs=watchers)  # type: ignore[no-untyped-call]
        found: Redis = sentinel.master_for(  # type: ignore[no-untyped-call]
            address.service or "", db=address.db, retry=retry, **options
        )
        return found
    if address.scheme == "unix":
        options.pop("socket_connect_timeout")
        client = Redis(unix_socket_path=address.path, db=address.db, retry=retry, **options)
        if address.is_embedded:
            client.connection_pool.connection_class = _OwnSocket
        return client
    host, port = address.hosts[0]
    return Redis(host=host, port=port, db=address.db, retry=retry, **options)


def stop_waiting(client: Redis) -> None:
    """Let commands fail at once, also one that waits already: for whoever exits and would only say goodbye.

    Takes no lock: it may be called by a signal that came in the middle of a command.
    """
    retry = client.get_retry()
    if retry is not None:
        retry.update_retries(0)
