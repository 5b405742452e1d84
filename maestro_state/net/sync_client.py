"""The blocking wire client: calls, pipelines and scripts over hiredis.

It exists because importing a full client library costs more than a whole command of the CLI. Holds sockets,
no state.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from hiredis import pack_command

from maestro_state.net.faults import Fault, ReplyError, is_passing, refusal
from maestro_state.net.fork import let_go_in_child
from maestro_state.net.packing import packed_parts
from maestro_state.net.retry import TIMEOUT_S, block_limit_s
from maestro_state.net.sync_calls import Calls
from maestro_state.net.sync_socket import Link, open_link

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator, Sequence

    from maestro_state.net.interfaces import Command
    from maestro_state.net.url import Address

#: Idle sockets kept; more calls than this at once still work, each extra one connecting anew.
_IDLE_MAX = 16


class Connection(Calls):
    """A server, reached over as many sockets as there are calls at once. Thread-safe, and usable in a forked child."""

    def __init__(
        self, address: Address, *, revive: Callable[[], object] | None = None, timeout_s: float = TIMEOUT_S
    ) -> None:
        """Remember the address; the first call connects."""
        super().__init__(address, revive=revive)
        self.timeout_s = address.timeout_s or timeout_s
        self._context: ssl.SSLContext | None = None
        # list.append and list.pop are atomic: no lock, nothing that a fork could leave locked.
        self._idle: list[Link] = []
        self._idle_blocking: list[Link] = []
        let_go_in_child(self)

    def call(self, *args: Any) -> Any:
        """Run one command in one round trip and return its raw reply."""
        return self._ask(self._idle, args, None)

    def block(self, *args: Any, block_ms: int) -> Any:
        """Run a command that waits up to `block_ms` in the server, on its own socket; 0 waits for ever."""
        return self._ask(self._idle_blocking, args, block_limit_s(block_ms))

    def replies(self, command: Command | None, following: Callable[[Any], Command | None]) -> Iterator[Any]:
        """Run reads one after another, as `following` makes each of the reply before; yield their replies.

        The next one is sent before a reply is handed out: the server is at it while the caller uses what it has.
        """
        ahead: Link | None = None
        process = os.getpid()
        try:
            while command is not None:
                link, ahead = ahead, None
                if link is not None and process != os.getpid():
                    link.close()  # the parent's, and so is its reply
                    link = None
                process = os.getpid()
                reply = self._receive(link, command)
                command = following(reply)
                ahead = self._send(command) if command else None
                yield reply
        finally:
            if ahead is not None:
                ahead.close()  # its reply is still to come

    def _send(self, command: Command) -> Link | None:
        """Send a command ahead; None when there is no socket for it: then it is run when its reply is wanted."""
        packed = pack_command(command)
        try:
            link = self._idle.pop()
            link.send(packed)
        except (IndexError, OSError):
            return None
        return link

    def _receive(self, link: Link | None, command: Command) -> Any:
        """Return the reply to a command that was sent, else run it; what goes wrong ahead is tried again, as ever."""
        if link is None:
            return self.call(*command)
        try:
            reply = link.receive()
        except OSError:
            return self.call(*command)
        self._keep(self._idle, link)
        return self.call(*command) if type(reply) is ReplyError else reply

    def forget(self) -> None:
        """Close the idle sockets; a later call connects again."""
        for idle in (self._idle, self._idle_blocking):
            while idle:
                try:
                    link = idle.pop()
                except IndexError:
                    break  # another thread took the last one
                link.close()

    close = forget

    def _ask(self, idle: list[Link], command: Command, limit_s: float | None) -> Any:
        """Make the first try with as little around it as can be; nearly all end here."""
        packed = pack_command(command)
        try:
            try:
                link = idle.pop()
            except IndexError:
                link = self._open()
            if limit_s is not None:
                link.limit(limit_s)
            reply = link.ask(packed)
        except (OSError, ReplyError) as fault:
            return self._retried([command], limit_s, fault=fault)[0]
        self._keep(idle, link)
        if type(reply) is ReplyError:
            if is_passing(reply):
                return self._retried([command], limit_s, fault=reply)[0]
            raise refusal(reply, self.address)
        return reply

    def _try(self, commands: Sequence[Command], limit_s: float | None, together: Any) -> list[Any]:
        del together  # every try has a socket to itself
        packed = packed_parts(commands)
        idle = self._idle if limit_s is None else self._idle_blocking
        try:
            link = idle.pop()
        except IndexError:
            link = self._open()
        if limit_s is not None:
            link.limit(limit_s)
        replies = link.exchange(packed, len(commands))
        self._keep(idle, link)
        return replies

    def _open(self) -> Link:
        if self.address.tls and self._context is None:
            from maestro_state.net.handshake import tls_context

            self._context = tls_context(self.address)
        link = open_link(self.address, self.timeout_s, self._context)
        self._known = True
        return link

    def _after(self, fault: Fault) -> None:
        del fault
        # What broke one socket most likely broke all; and after READONLY the name may lead elsewhere by now.
        self.forget()

    @staticmethod
    def _keep(idle: list[Link], link: Link) -> None:
        """Keep a socket for the next call."""
        if len(idle) < _IDLE_MAX:
            idle.append(link)
        else:
            link.close()
