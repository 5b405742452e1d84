"""Handing the asking terminal's environment to the workers of this machine: in memory, over a socket of this user's.

Who carries out runs listens in a folder that only this user can enter, under a name made from the server and the
namespace. Whoever asks for a run finds it there; where nobody listens, no worker of this machine takes part.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from maestro_state.errors import ServerUnavailable
from maestro_state.fs.private_socket import connect, listen, open_own_folder, peer_uid
from maestro_state.local.frames import Unpacked, packed
from maestro_state.vocabulary import OWN_SECRETS

if TYPE_CHECKING:
    from socket import socket

    from maestro_state.net.url import Address

#: Seconds a holder may take to answer, and to start.
_ANSWER_S = 10.0
_START_S = 30.0
_PREFIX, _SUFFIX = "w-", ".sock"


class Holder(NamedTuple):
    """One process that holds environments for its workers."""

    name: str
    line: socket


class Handover:
    """Finds who carries out runs on this machine, for one server and namespace."""

    def __init__(self, address: Address, namespace: str, root: str) -> None:
        self._address = address
        self._namespace = namespace
        self._root = root
        #: Whether the embedded stack is started where it is not there; for a command it is.
        self.awaits_stack = False

    def reach(self) -> list[Holder]:
        """Connect to everybody there is; none when no worker of this machine takes part."""
        holders = reach(self._address, self._namespace)
        if holders or not self._address.is_embedded:
            return holders
        from maestro_state.local.embedded import await_supervisor, heal, is_starting, supervisor_alive

        if self.awaits_stack:
            await_supervisor(self._root)
        heal(self._root)
        until_s = time.monotonic() + _START_S
        # It is on its way while it loads what workers need; once it listens for another namespace, it is there.
        while (
            not holders
            and (supervisor_alive(self._root) or is_starting(self._root))
            and not _listens_for_others(self._address, self._namespace)
            and time.monotonic() < until_s
        ):
            time.sleep(0.005)
            holders = reach(self._address, self._namespace)
        return holders


def key_of(address: Address, namespace: str) -> str:
    """Return what two processes have in common that mean the same server and namespace."""
    from hashlib import sha256

    local = {"127.0.0.1", "::1", "localhost"}
    hosts = sorted(f"{'localhost' if host in local else host}:{port}" for host, port in address.hosts)
    parts = (address.path or "", *hosts, str(address.db), namespace)
    return sha256("\0".join(parts).encode()).hexdigest()[:16]


def open_folder(address: Address, *, create: bool = False) -> int | None:
    """Open the folder of the sockets: the embedded server's own, else one of this user's; None when it is not there."""
    if address.is_embedded and address.path:
        base, outer, inner, _ = address.path.rsplit("/", 3)
        return _opened(base or "/", outer, inner)
    for base in _bases():
        names = (f"maestro-{os.geteuid()}", "workers")
        if create:
            _make(base, *names)
        folder = _opened(base, *names)
        if folder is not None:
            return folder
    return None


def _bases() -> list[str]:
    """Name the places for sockets, best first. Not by the environment alone: terminals differ in theirs."""
    own = f"/run/user/{os.geteuid()}"
    places = [os.environ.get("XDG_RUNTIME_DIR", ""), own, "/tmp"]  # noqa: S108  # its owner and mode are checked
    return [place for place in dict.fromkeys(places) if os.path.isabs(place) and os.path.isdir(place)]


def _make(base: str, *names: str) -> None:
    where = base
    for name in names:
        where = os.path.join(where, name)
        with suppress(OSError):  # there already, or not possible: opening it says so
            os.mkdir(where, 0o700)


def _opened(base: str, *names: str) -> int | None:
    try:
        return open_own_folder(base, *names)
    except OSError:
        return None


def listen_as(folder: int, key: str, holder: str) -> socket:
    """Listen as a holder; names that nobody listens at any more are removed."""
    for name in _socket_names(folder, key):
        if _is_abandoned(folder, name):
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)
    listener = listen(folder, _socket_name(key, holder))
    listener.setblocking(False)
    return listener


def unlist(folder: int, key: str, holder: str) -> None:
    """Remove the name of a holder that listens no more."""
    with suppress(OSError):
        os.unlink(_socket_name(key, holder), dir_fd=folder)


def is_own(line: socket) -> bool:
    """Tell whether a process of this user is at the other end."""
    return peer_uid(line) == os.geteuid()


def _socket_name(key: str, holder: str) -> str:
    return f"{_PREFIX}{key}-{holder}{_SUFFIX}"


def _socket_names(folder: int, key: str = "") -> list[str]:
    start = f"{_PREFIX}{key}-" if key else _PREFIX
    return [name for name in os.listdir(folder) if name.startswith(start) and name.endswith(_SUFFIX)]


def _is_abandoned(folder: int, name: str) -> bool:
    """Tell whether nobody listens at a name any more."""
    try:
        connect(folder, name, timeout_s=0).close()
    except (ConnectionRefusedError, FileNotFoundError):
        return True
    except OSError:
        return False
    return False


def reach(address: Address, namespace: str) -> list[Holder]:
    """Connect to everybody on this machine who carries out runs for a server and namespace."""
    folder = open_folder(address)
    if folder is None:
        return []
    found = []
    try:
        key = key_of(address, namespace)
        for name in _socket_names(folder, key):
            with suppress(OSError):  # nobody listens there any more, or somebody else does
                line = connect(folder, name, timeout_s=_ANSWER_S)
                found.append(Holder(name[len(_PREFIX) + len(key) + 1 : -len(_SUFFIX)], line))
    finally:
        os.close(folder)
    return found


def _listens_for_others(address: Address, namespace: str) -> bool:
    """Tell whether somebody carries out runs of this server, and only for other namespaces."""
    folder = open_folder(address)
    if folder is None:
        return False
    try:
        own = set(_socket_names(folder, key_of(address, namespace)))
        return not own and any(not _is_abandoned(folder, name) for name in _socket_names(folder))
    finally:
        os.close(folder)


def hand_over(holders: Sequence[Holder], session_id: str, run_id: str, environment: Mapping[str, str]) -> None:
    """Give each of them the environment of a run; raise ServerUnavailable when none has it."""
    variables = [os.fsencode(f"{name}={value}") for name, value in environment.items() if name not in OWN_SECRETS]
    message = packed(b"hand", session_id.encode(), run_id.encode(), *variables)
    if "taken" not in [_asked(holder.line, message) for holder in holders]:
        raise ServerUnavailable(
            "the workers of this machine did not take the run's environment", hint="run it again (maestro stack status)"
        )


def close_all(holders: Sequence[Holder]) -> None:
    """Close the connections."""
    for holder in holders:
        holder.line.close()


def _asked(line: socket, message: bytes) -> str:
    unpacked = Unpacked()
    answers: list[list[bytes]] = []
    try:
        line.sendall(message)
        while not answers:
            data = line.recv(4096)
            if not data:
                return ""
            answers = unpacked.feed(data)
    except OSError:
        return ""
    return answers[0][0].decode(errors="replace")
