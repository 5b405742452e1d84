"""redis-py's vocabulary in the words of this package: its exceptions as faults, its replies as they came.

Imported only where redis-py is in use anyway.
"""

from __future__ import annotations

from typing import Any

from redis import exceptions as theirs
from redis.sentinel import MasterNotFoundError

from maestro_state.net.faults import AnswerLateError, ConnectionLostError, ReplyError

#: redis-py drops the first word of the answers it has a class for; the first class that fits brings it back.
_WORDS: tuple[tuple[type[theirs.RedisError], str], ...] = (
    (theirs.BusyLoadingError, "LOADING"),
    (theirs.NoScriptError, "NOSCRIPT"),
    (theirs.ReadOnlyError, "READONLY"),
    (theirs.OutOfMemoryError, "OOM"),
    (theirs.NoPermissionError, "NOPERM"),
    (theirs.ExecAbortError, "EXECABORT"),
    (theirs.TryAgainError, "TRYAGAIN"),
    (theirs.ClusterDownError, "CLUSTERDOWN"),
    (theirs.ClusterCrossSlotError, "CROSSSLOT"),
    (theirs.MasterDownError, "MASTERDOWN"),
    (theirs.AuthenticationError, "NOAUTH"),
    (theirs.MovedError, "MOVED"),
    (theirs.AskError, "ASK"),
)
#: Everything that redis-py raises on purpose; its cluster exceptions have a root of their own.
LIBRARY_ERRORS = (theirs.RedisError, theirs.RedisClusterException)
#: Callbacks that redis-py's cluster client needs to find its way.
_KEPT = ("COMMAND", "CLUSTER")


def read_error(error: theirs.RedisError | theirs.RedisClusterException) -> ReplyError:
    """Return the server's answer behind an exception, or raise OSError when it is about the connection."""
    if type(error) is theirs.ClusterError:
        # It followed redirections, or was told to try again, as often as it does by itself: a slot is being moved.
        return ReplyError(f"TRYAGAIN {error}")
    word = getattr(error, "status_code", None)
    word = word or next((known for kind, known in _WORDS if isinstance(error, kind)), None)
    if word is None:
        if isinstance(error, theirs.TimeoutError):
            raise AnswerLateError(str(error)) from error
        if isinstance(error, (theirs.ConnectionError, theirs.SlotNotCoveredError)):
            raise ConnectionLostError(str(error)) from error
        if isinstance(error, theirs.RedisClusterException):
            if "cannot be connected" in str(error) or "not covered" in str(error):
                raise ConnectionLostError(str(error)) from error
            # Its text would repeat the arguments of the call.
            raised = ReplyError("ERR no node takes this command; its keys may be in several slots")
            raised.__cause__ = error
            return raised
    text = str(error)
    first = text.partition(" ")[0]
    if not (first.isupper() and first.isalpha()):
        text = f"{word or 'ERR'} {text}"
    raised = ReplyError(text)
    raised.__cause__ = error
    return raised


def is_closed_under(error: AttributeError) -> bool:
    """Tell whether a stream was gone when a call came to write to it.

    When one call on a cluster finds its node silent, redis-py's asyncio client closes the sockets of all the others.
    One that was about to greet its node then has no stream, and that is how it says so.
    """
    return error.name in ("write", "writelines", "drain") and error.obj is None


def sentinels_of(clients: list[Any]) -> list[Any]:
    """Return the clients by which others ask where their server is."""
    managers = [getattr(getattr(client, "connection_pool", None), "sentinel_manager", None) for client in clients]
    return [one for manager in managers if manager is not None for one in manager.sentinels]


def sentinel_answered(clients: list[Any], fault: OSError) -> bool:
    """Tell whether a sentinel was there when its master was not: then the address is right, and waiting makes sense."""
    watching = len(sentinels_of(clients[:1]))
    if isinstance(fault.__cause__, MasterNotFoundError):
        # It lists the sentinels it could not reach, each with a dash.
        return str(fault.__cause__).count(" - ") < watching
    return watching > 0


def keep_raw(client: Any) -> None:
    """Remove what turns replies into something else than the server sent; the protocol must be RESP2."""
    callbacks: dict[str, Any] = getattr(client, "response_callbacks", {})
    for name in [name for name in callbacks if not str(name).upper().startswith(_KEPT)]:
        del callbacks[name]
