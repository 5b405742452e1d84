"""Shapes that others fill in; for type checkers only, so nothing imports it at run time."""

from __future__ import annotations

from typing import Any, Protocol

#: A command and its arguments.
Command = tuple[Any, ...]


class Script(Protocol):
    """What a script must offer to be run."""

    @property
    def sha(self) -> str:
        """SHA-1 of the body, in lower-case hex."""

    @property
    def body(self) -> str:
        """Lua source."""


class Holder(Protocol):
    """Somebody who holds sockets."""

    def forget(self) -> None:
        """Let go of every socket without a word on the wire."""
