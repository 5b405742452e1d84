# Generated from maestro_state/net/async_calls.py by `make generate`. Do not edit.
"""What every connection can be asked, and the one retry loop behind it; `sync_calls` is generated from this."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from maestro_state.net.faults import Fault, ReplyError
from maestro_state.net.retry import Caller, RetryPolicy, block_limit_s

if TYPE_CHECKING:
    from collections.abc import Iterator, Callable, Sequence

    from maestro_state.net.interfaces import Command, Script


class Calls(Caller):
    """A server as the rest of Maestro sees it; whoever derives from it makes one try.

    Every command is repeated when its connection breaks or times out, so pass only what is safe to repeat. Errors:
    ReplyError as the server put it, ServerStorageError and ServerUnavailable where its meaning is known.
    """

    def call(self, *args: Any) -> Any:
        """Run one command in one round trip and return its raw reply."""
        [reply] = self._retried([args])
        return reply

    def calls(self, commands: Sequence[Command]) -> list[Any]:
        """Run commands in one write (on a cluster one by one) and return their replies in order.

        Not a transaction: all of them are run, then the first error reply, if any, is raised.
        """
        return self._retried(commands) if commands else []

    def replies(self, command: Command | None, following: Callable[[Any], Command | None]) -> Iterator[Any]:
        """Run reads one after another, as `following` makes each of the reply before; yield their replies."""
        while command is not None:
            reply = self.call(*command)
            command = following(reply)
            yield reply

    def script(self, script: Script, keys: Sequence[Any], args: Sequence[Any]) -> Any:
        """Run a script by its digest, and by its body when the server does not know it yet."""
        try:
            return self.call("EVALSHA", script.sha, len(keys), *keys, *args)
        except ReplyError as error:
            if error.kind != "NOSCRIPT":
                raise
        return self.call("EVAL", script.body, len(keys), *keys, *args)

    def script_then(
        self, script: Script, keys: Sequence[Any], args: Sequence[Any], then: Sequence[Command], *, wait_ms: int
    ) -> list[Any]:
        """Run a script and commands behind it on one socket, all again when it breaks; the last may take `wait_ms`."""
        # By its body: a digest that the server does not know would make the commands behind it wait for nothing.
        commands = [("EVAL", script.body, len(keys), *keys, *args), *then]
        return self._retried(commands, block_limit_s(wait_ms), together=keys[0])

    def block(self, *args: Any, block_ms: int) -> Any:
        """Run a command that waits up to `block_ms` in the server, beside all other calls; 0 waits for ever."""
        [reply] = self._retried([args], block_limit_s(block_ms))
        return reply

    def _retried(
        self,
        commands: Sequence[Command],
        limit_s: float | None = None,
        *,
        together: Any = None,
        fault: Fault | None = None,
    ) -> list[Any]:
        """Send until there are whole answers; `fault` is that of a try already made."""
        policy: RetryPolicy | None = None
        while True:
            if fault is not None:
                self._after(fault)
                policy = policy or self._policy()
                if self._revive is not None and policy.wants_revival(fault):
                    self._revive()
                time.sleep(policy.pause_after(fault))
            try:
                replies = self._try(commands, limit_s, together)
            except (OSError, ReplyError) as broken:
                fault = broken
                continue
            self._known = True
            fault = self._passing(replies)
            if fault is None:
                return replies

    def _try(self, commands: Sequence[Command], limit_s: float | None, together: Any) -> list[Any]:
        """Make one try: OSError or ReplyError for what may pass. With `limit_s` apart from all other calls; those
        that belong `together` on one connection, where that key is.
        """
        raise NotImplementedError
