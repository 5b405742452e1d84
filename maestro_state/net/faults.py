"""What can go wrong between Maestro and a server, and what each fault means.

Pure: decides, never sleeps or connects. The blocking, the asyncio and the library shells ask the same
`RetryPolicy` after every fault, so that a lost server looks alike from everywhere. Every call Maestro makes is
safe to repeat (a change carries a command id), so repeating is the answer to all that passes.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from maestro_state.errors import MaestroError, ServerStorageError, ServerUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

#: Seconds a client that had been connected keeps trying.
RETRY_S: Final = 5.0
#: Seconds to wait for a connection or an answer.
TIMEOUT_S: Final = 5.0
#: Seconds that a blocking read may come later than it promised.
BLOCK_MARGIN_S: Final = 5.0

#: First and longest pause between two tries, in seconds.
_PAUSE_S = 0.01
_PAUSE_MAX_S = 0.5

#: The server is starting, failing over, moving slots or in a long script: the call will be answered later.
_PASSING = frozenset({"LOADING", "READONLY", "MASTERDOWN", "TRYAGAIN", "CLUSTERDOWN", "BUSY", "UNBLOCKED"})
#: The server cannot take the write, and waiting does not help.
_STORAGE = frozenset({"OOM", "MISCONF", "NOREPLICAS"})
#: The server does not let us in.
_CLOSED = frozenset({"NOAUTH", "WRONGPASS", "NOPERM"})
#: The answer of a server that has no room for one more client, just before it hangs up.
_CROWDED = "ERR max number of clients reached"


@dataclass(frozen=True, slots=True)
class Where:
    """A server as errors name it, and the setting that its address comes from."""

    text: str
    setting: str = "MAESTRO_REDIS_URL"
    #: The project's own server, which refuses writes by a setting of ours while its disk is full.
    is_embedded: bool = False

    def __str__(self) -> str:
        """Return its name alone."""
        return self.text


class ReplyError(MaestroError):
    """The server answered with an error."""

    code = "server_reply"

    @property
    def kind(self) -> str:
        """Return the first word of the answer: NOSCRIPT, WRONGTYPE, ERR …"""
        return str(self).partition(" ")[0]


class ConnectionLostError(OSError):
    """The server closed the connection in the middle of a call."""


class AnswerLateError(OSError):
    """The server did not answer in time."""


#: What ends one try: the socket, or an answer that will be another one later.
Fault = OSError | ReplyError


def is_passing(error: ReplyError) -> bool:
    """Tell whether the same call may get a proper answer in a moment."""
    return error.kind in _PASSING or str(error).startswith(_CROWDED)


def refusal(error: ReplyError, where: Where) -> MaestroError:
    """Return what to raise for an error that repeating will not change."""
    kind = error.kind
    raised: MaestroError
    if kind == "NOREPLICAS" and where.is_embedded:
        raised = ServerStorageError(
            f"{where} cannot store the write: its disk is full", hint="free disk space, then try again"
        )
    elif kind in _STORAGE:
        raised = ServerStorageError(
            f"{where} cannot store the write: {error}", hint="maestro doctor says what the server lacks"
        )
    elif kind in _CLOSED:
        raised = ServerUnavailable(
            f"{where} does not let Maestro in: {error}",
            hint=f"check user name, password and permissions in {where.setting}",
        )
    else:
        return error
    raised.__cause__ = error
    return raised


def is_forbidden(error: MaestroError) -> bool:
    """Tell whether the server refused because this user may not do that, and is otherwise well."""
    return isinstance(error.__cause__, ReplyError) and error.__cause__.kind == "NOPERM"


def unreachable(where: Where, fault: Fault) -> ServerUnavailable:
    """Return the error that ends all trying, with the last fault as its cause."""
    if isinstance(fault, ReplyError):
        raised = ServerUnavailable(f"{where} is not ready: {fault}", hint="try again, or run maestro doctor")
    else:
        reason = fault.strerror or str(fault) or (type(fault).__doc__ or "").strip().rstrip(".")
        raised = ServerUnavailable(
            f"cannot reach {where}: {reason}", hint=f"start the server, or correct {where.setting}"
        )
    raised.__cause__ = fault
    return raised


class RetryPolicy:
    """Decide after each fault of one call whether, and after what pause, it is tried again.

    A client that had been connected keeps trying for `retry_s` from the first fault on. One that never was
    gives up after a second try, so that a wrong address is known at once, except that answers such as LOADING
    prove the address right. Reviving the server, once per call, buys the whole `retry_s` too.
    """

    __slots__ = ("_clock", "_ends_at", "_pause_s", "_revived", "_tries", "_where", "known", "retry_s")

    def __init__(
        self, where: Where, *, known: bool, retry_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Start with the first fault of a call; `known` says that this client had been connected before."""
        self._where = where
        self.known = known
        self.retry_s = retry_s
        self._clock = clock
        self._ends_at: float | None = None
        self._pause_s = 0.0
        self._tries = 0
        self._revived = False

    def wants_revival(self, fault: Fault) -> bool:
        """Tell, once, that nobody listens at the address: the moment to start the server there."""
        if self._revived or not isinstance(fault, (ConnectionRefusedError, FileNotFoundError)):
            return False
        self._revived = self.known = True
        return True

    def pause_after(self, fault: Fault) -> float:
        """Return the seconds to wait before the next try, or raise ServerUnavailable when it is over."""
        now = self._clock()
        if self._ends_at is None:
            self._ends_at = now + self.retry_s
        self._tries += 1
        if isinstance(fault, ReplyError):
            self.known = True
        if now >= self._ends_at or (not self.known and self._tries > 1):
            raise unreachable(self._where, fault)
        pause_s = min(self._pause_s, self._ends_at - now)
        # The first repeat comes at once: most often it was an idle connection that the server had closed.
        self._pause_s = min(max(self._pause_s * 2, _PAUSE_S), _PAUSE_MAX_S)
        return pause_s
