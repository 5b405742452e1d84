"""A server that lets in only whom its access list names, and the addresses of those it does."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from secrets import token_hex

from maestro_state.state.access import Account, access_list
from tests.support.servers import Server, free_port, valkey


@dataclass(frozen=True)
class Guarded:
    """A server with accounts."""

    server: Server
    accounts: dict[str, Account]

    def url(self, name: str) -> str:
        """Return the address as one user has it."""
        return f"redis://{name}:{self.accounts[name].password}@127.0.0.1:{self.server.port}"


@contextmanager
def guarded(folder, *accounts: tuple[str, str, str], args: tuple[str, ...] = ()):
    """Run a server with accounts, each (name, role, namespace), and passwords that no other test has."""
    made = {name: Account(name, role, f"{name}-secret-{token_hex(8)}") for name, role, _ in accounts}
    lines = [access_list(space, [made[name]]).splitlines() for name, _, space in accounts]
    users = folder / "users.acl"
    users.write_text("\n".join([lines[0][0], *(line for _, line in lines)]) + "\n")
    with valkey(folder, port=free_port(), args=["--aclfile", str(users), *args]) as server:
        yield Guarded(server, made)
