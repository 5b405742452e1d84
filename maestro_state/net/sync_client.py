"""The blocking wire client: calls, pipelines and scripts over hiredis, repeated when the connection breaks.

It exists because importing a full client library costs more than a whole command of the CLI. Holds sockets,
no state.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from hiredis import pack_command

from maestro_state.net.faults import (
    BLOCK_MARGIN_S,
    RETRY_S,
    TIMEOUT_S,
    Fault,
    ReplyError,
    RetryPolicy,
    Where,
    is_passing,
    refusal,
)
from maestro_state.net.fork import let_go_in_child
from maestro_state.net.packing import packed_parts
from maestro_state.net.sync_socket import Link, open_link
from maestro_state.net.url import masked

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator, Sequence

    from maestro_state.net.shape import Script
    from maestro_state.net.url import Address

#: Idle sockets kept; more calls than this at once still work, each extra one connecting anew.
_IDLE_MAX = 16


class Connection:
    """A server, reached over as many sockets as there are calls at once.

    Thread-safe, and usable in a forked child. Every command is repeated when its connection breaks or times
    out, so pass only what is safe to repeat. Errors: ReplyError as the server put it, ServerStorageError and
    ServerUnavailable where its meaning is known.
    """

    #: One command may name keys of several sessions.
    is_one_server = True

    def __init__(
        self, address: Address, *, revive: Callable[[], object] | None = None, timeout_s: float = TIMEOUT_S
    ) -> None:
        """Remember the address; the first call connects. `revive` starts a server that is not there."""
        self.address = address
        self.retry_s = RETRY_S
        self.timeout_s = address.timeout_s or timeout_s
        self._revive = revive
        self._where = Where(masked(address), address.setting, address.is_embedded)
        self._known = False
        self._context: ssl.SSLContext | None = None
        # list.append and list.pop are atomic: no lock, nothing that a fork could leave locked.
        self._idle: list[Link] = []
        self._idle_blocking: list[Link] = []
        let_go_in_child(self)

    def call(self, *args: Any) -> Any:
        """Run one command in one round trip and return its raw reply."""
        return self._ask(self._idle, pack_command(args), None)

    def calls(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Run commands in one write and return their replies in order.

        Not a transaction: all of them are run, then the first error reply, if any, is raised.
        """
        if not commands:
            return []
        replies = self._attempt(packed_parts(commands), len(commands), None)
        for reply in replies:
            if type(reply) is ReplyError:
                raise refusal(reply, self._where)
        return replies

    def replies(
        self, command: tuple[Any, ...] | None, following: Callable[[Any], tuple[Any, ...] | None]
    ) -> Iterator[Any]:
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

    def _send(self, command: tuple[Any, ...]) -> Link | None:
        """Send a command ahead; None when there is no socket for it: then it is run when its reply is wanted."""
        try:
            link = self._idle.pop()
        except IndexError:
            return None
        is_sent = False
        try:
            link.send(pack_command(command))
            is_sent = True
            return link
        except OSError:
            return None
        finally:
            if not is_sent:
                link.close()

    def _receive(self, link: Link | None, command: tuple[Any, ...]) -> Any:
        """Return the reply to a command that was sent, else run it; what goes wrong ahead is tried again, as ever."""
        if link is None:
            return self.call(*command)
        whole = False
        try:
            reply = link.receive()
            whole = True
        except OSError:
            return self.call(*command)
        finally:
            if whole:
                self._keep(self._idle, link)
            else:
                link.close()
        return self.call(*command) if type(reply) is ReplyError else reply

    def script(self, script: Script, keys: Sequence[Any], args: Sequence[Any]) -> Any:
        """Run a script by its digest, and by its body when the server does not know it yet."""
        try:
            return self.call("EVALSHA", script.sha, len(keys), *keys, *args)
        except ReplyError as error:
            if error.kind != "NOSCRIPT":
                raise
        return self.call("EVAL", script.body, len(keys), *keys, *args)

    def script_then(
        self, script: Script, keys: Sequence[Any], args: Sequence[Any], then: Sequence[tuple[Any, ...]], *, wait_ms: int
    ) -> list[Any]:
        """Run a script and commands behind it on one socket, all again when it breaks; the last may take `wait_ms`."""
        # By its body: a digest that the server does not know would make the commands behind it wait for nothing.
        commands = [("EVAL", script.body, len(keys), *keys, *args), *then]
        packed = b"".join([pack_command(command) for command in commands])
        replies = self._attempt([packed], len(commands), None, wait_ms / 1000 + BLOCK_MARGIN_S)
        return [self._checked(reply) for reply in replies]

    def block(self, *args: Any, block_ms: int) -> Any:
        """Run a command that waits up to `block_ms` in the server, on its own socket; 0 waits for ever."""
        limit_s = block_ms / 1000 + BLOCK_MARGIN_S if block_ms else 0.0
        return self._ask(self._idle_blocking, pack_command(args), limit_s)

    def close(self) -> None:
        """Close the idle sockets; a later call connects again."""
        self.forget()

    def forget(self) -> None:
        """Drop every idle socket."""
        for idle in (self._idle, self._idle_blocking):
            while idle:
                try:
                    link = idle.pop()
                except IndexError:
                    break  # another thread took the last one
                link.close()

    def _ask(self, idle: list[Link], packed: bytes, limit_s: float | None) -> Any:
        """Make the first try on a socket that is there, with as little around it as can be; nearly all end here."""
        try:
            link = idle.pop()
        except IndexError:
            return self._checked(self._attempt([packed], 1, None, limit_s)[0])
        whole = False
        try:
            if limit_s is not None:
                link.limit(limit_s)
            reply = link.ask(packed)
            whole = True
        except OSError as fault:
            return self._checked(self._attempt([packed], 1, fault, limit_s)[0])
        finally:
            # Also on KeyboardInterrupt: a socket with half a reply in it must never be used again.
            if whole:
                self._keep(idle, link)
            else:
                link.close()
        if type(reply) is ReplyError:
            if is_passing(reply):
                return self._checked(self._attempt([packed], 1, reply, limit_s)[0])
            raise refusal(reply, self._where)
        return reply

    def _attempt(
        self, packed: Sequence[bytes], count: int, fault: Fault | None, limit_s: float | None = None
    ) -> list[Any]:
        """Send until there are whole answers; `fault` is that of a try already made."""
        policy: RetryPolicy | None = None
        while True:
            if fault is not None:
                policy = policy or RetryPolicy(self._where, known=self._known, retry_s=self.retry_s)
                self._recover(policy, fault)
            try:
                replies = self._try(packed, count, limit_s)
            except OSError as broken:
                fault = broken
                continue
            except ReplyError as unready:
                fault = unready
                continue
            fault = next((r for r in replies if type(r) is ReplyError and is_passing(r)), None)
            if fault is None:
                return replies

    def _try(self, packed: Sequence[bytes], count: int, limit_s: float | None) -> list[Any]:
        """Make one try on an idle socket or a new one."""
        idle = self._idle if limit_s is None else self._idle_blocking
        try:
            link = idle.pop()
        except IndexError:
            link = self._open()
        whole = False
        try:
            if limit_s is not None:
                link.limit(limit_s)
            replies = link.exchange(packed, count)
            whole = True
            return replies
        finally:
            if whole:
                self._keep(idle, link)
            else:
                link.close()

    def _open(self) -> Link:
        """Connect."""
        if self.address.tls and self._context is None:
            from maestro_state.net.handshake import tls_context

            self._context = tls_context(self.address)
        link = open_link(self.address, self.timeout_s, self._where, self._context)
        self._known = True
        return link

    def _recover(self, policy: RetryPolicy, fault: Fault) -> None:
        """Wait as long as it makes sense after a fault, or raise ServerUnavailable."""
        # What broke one socket most likely broke all; and after READONLY the name may lead elsewhere by now.
        self.forget()
        if self._revive is not None and policy.wants_revival(fault):
            self._revive()
        pause_s = policy.pause_after(fault)
        if pause_s:
            time.sleep(pause_s)

    def _checked(self, reply: Any) -> Any:
        """Return a reply, or raise it if it is an error."""
        if type(reply) is ReplyError:
            raise refusal(reply, self._where)
        return reply

    @staticmethod
    def _keep(idle: list[Link], link: Link) -> None:
        """Keep a socket for the next call."""
        if len(idle) < _IDLE_MAX:
            idle.append(link)
        else:
            link.close()
