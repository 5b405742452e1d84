"""How `maestro serve` was started."""

from __future__ import annotations

import msgspec

#: Names and addresses of this machine that nobody else reaches.
LOOPBACK = ("127.0.0.1", "::1", "localhost")


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line said."""

    host: str = "127.0.0.1"
    port: int = 4175
    require_auth: bool = False
    allow_hosts: tuple[str, ...] = ()  #: names beside loopback by which it may be asked
    allow_origins: tuple[str, ...] = ()  #: other sites whose pages may ask, with a token
    read_only: bool = False
    web: bool = True
    mcp: bool = True
    behind_proxy: bool = False  #: a proxy in front of it does TLS, and says for whom it asks
    tls: bool = False
    keeps_stack: bool = False  #: the embedded stack stays while this serves

    @property
    def is_loopback(self) -> bool:
        """Tell whether only this machine reaches it."""
        return self.host in LOOPBACK
