"""What has to be said and set before a fresh connection can be used.

Shared by the blocking and the asyncio wire client; opens nothing itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hiredis import pack_command

from maestro_state.errors import ConfigError
from maestro_state.net.faults import ReplyError, is_passing, refusal
from maestro_state.net.url import CLIENT_NAME

if TYPE_CHECKING:
    import ssl

    from maestro_state.net.url import Address


def greeting(address: Address) -> tuple[bytes, int]:
    """Return the commands of a fresh connection, packed, and how many replies they bring."""
    commands: list[tuple[Any, ...]] = []
    if address.password is not None:
        user = (address.username,) if address.username else ()
        commands.append((b"AUTH", *user, address.password))
    if address.db:
        commands.append((b"SELECT", address.db))
    if address.scheme != "unix" or address.client_name != CLIENT_NAME:
        # The name is for whoever looks at CLIENT LIST on a shared server; a private one has only us.
        commands.append((b"CLIENT", b"SETNAME", address.client_name))
    return b"".join(map(pack_command, commands)), len(commands)


def check_greeting(address: Address, replies: list[Any]) -> None:
    """Raise what the server had against the greeting; an answer that passes is raised as ReplyError."""
    for reply in replies:
        if not isinstance(reply, ReplyError):
            continue
        if is_passing(reply):
            raise reply
        if address.scheme != "unix" and reply is replies[-1] and reply.kind in ("NOPERM", "ERR"):
            continue  # a user without the right to name itself still works
        raise refusal(reply, address)


def tls_context(address: Address) -> ssl.SSLContext:
    """Return a TLS context that verifies the server."""
    import ssl

    try:
        context = ssl.create_default_context(cafile=address.ssl_ca_certs)
        context.check_hostname = address.ssl_check_hostname
        if address.ssl_certfile:
            context.load_cert_chain(address.ssl_certfile, address.ssl_keyfile)
    except OSError as error:
        # Not a fault of the network: trying again would not help.
        raise ConfigError(
            f"cannot use the TLS files of the server address: {error.strerror or error}",
            hint="check ssl_ca_certs, ssl_certfile and ssl_keyfile",
        ) from error
    return context
