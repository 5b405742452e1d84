"""What can go wrong between Maestro and a server, and what each fault means. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from maestro_state.errors import MaestroError, ServerStorageError, ServerUnavailable

if TYPE_CHECKING:
    from maestro_state.net.url import Address

#: The server is starting, failing over, moving slots or in a long script: the call will be answered later.
_PASSING = frozenset({"LOADING", "READONLY", "MASTERDOWN", "TRYAGAIN", "CLUSTERDOWN", "BUSY", "UNBLOCKED"})
#: The server cannot take the write, and waiting does not help.
_STORAGE = frozenset({"OOM", "MISCONF", "NOREPLICAS"})
#: The server does not let us in.
_CLOSED = frozenset({"NOAUTH", "WRONGPASS", "NOPERM"})
#: The answer of a server that has no room for one more client, just before it hangs up.
_CROWDED = "ERR max number of clients reached"


class ReplyError(MaestroError):
    """The server answered with an error."""

    code = "server_reply"

    @property
    def kind(self) -> str:
        """Return the first word of the answer: NOSCRIPT, WRONGTYPE, ERR …"""
        return str(self).partition(" ")[0]


class ConnectionLostError(ConnectionError):
    """The server closed the connection in the middle of a call."""


class AnswerLateError(TimeoutError):
    """The server did not answer in time."""


#: What ends one try: the socket, or an answer that will be another one later.
Fault = OSError | ReplyError


def is_passing(error: ReplyError) -> bool:
    """Tell whether the same call may get a proper answer in a moment."""
    return error.kind in _PASSING or str(error).startswith(_CROWDED)


def refusal(error: ReplyError, address: Address) -> MaestroError:
    """Return what to raise for an error that repeating will not change."""
    kind = error.kind
    raised: MaestroError
    if kind == "NOREPLICAS" and address.is_embedded:  # by a setting of ours it refuses writes while its disk is full
        raised = ServerStorageError(
            f"{address} cannot store the write: its disk is full", hint="free disk space, then try again"
        )
    elif kind in _STORAGE:
        raised = ServerStorageError(
            f"{address} cannot store the write: {error}", hint="maestro doctor says what the server lacks"
        )
    elif kind in _CLOSED:
        what = "the account" if kind == "NOPERM" else "user name and password"
        rest = ", and MAESTRO_NAMESPACE, which its rights are for" if kind == "NOPERM" else ""
        raised = ServerUnavailable(
            f"{address} does not let Maestro in: {error}", hint=f"check {what} in {address.setting}{rest}"
        )
    else:
        return error
    raised.__cause__ = error
    return raised


def is_forbidden(error: MaestroError) -> bool:
    """Tell whether the server refused because this user may not do that, and is otherwise well."""
    return isinstance(error.__cause__, ReplyError) and error.__cause__.kind == "NOPERM"


def unreachable(address: Address, fault: Fault) -> ServerUnavailable:
    """Return the error that ends all trying, with the last fault as its cause."""
    if isinstance(fault, ReplyError):
        raised = ServerUnavailable(f"{address} is not ready: {fault}", hint="try again, or run maestro doctor")
    else:
        reason = fault.strerror or str(fault) or (type(fault).__doc__ or "").strip().rstrip(".")
        raised = ServerUnavailable(
            f"cannot reach {address}: {reason}", hint=f"start the server, or correct {address.setting}"
        )
    raised.__cause__ = fault
    return raised
