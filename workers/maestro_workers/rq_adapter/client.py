"""RQ's connection: where the queue is, the redis-py client for it, and whether its account may carry out runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from redis.exceptions import NoPermissionError

from maestro_state.errors import ServerUnavailable
from maestro_state.local.embedded.paths import socket_address
from maestro_state.net.queue_client import queue_client, stop_waiting
from maestro_state.net.url import Address, parse_url

if TYPE_CHECKING:
    from maestro_state.local.settings import Settings

__all__ = ["Address", "addresses", "check_rights", "queue_client", "stop_waiting"]


def addresses(root: str, settings: Settings) -> tuple[str, Address]:
    """Return where the state is, and where the queue."""
    state = settings.redis_url or f"unix://{socket_address(root)}"
    # Named outright: a worker never starts the embedded server, which may have been stopped on purpose.
    return state, parse_url(settings.queue_url or state)


def check_rights(root: str, settings: Settings) -> None:
    """Raise when the account may not carry out runs: a terminal's may not."""
    _, address = addresses(root, settings)
    client = queue_client(address)
    try:
        with client.pipeline(transaction=True) as transaction:
            transaction.time()
            transaction.execute()
    except NoPermissionError as error:
        raise ServerUnavailable(
            f"user {address.username} of the queue's server may not carry out runs: {error}",
            hint="use a worker's account (maestro acl --worker NAME)",
        ) from error
    finally:
        client.close()
