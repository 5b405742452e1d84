"""Say how the project's server is, and stop it with everything it was told on disk."""

from __future__ import annotations

import os
import signal
import time
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from maestro_state.errors import ServerUnavailable
from maestro_state.fs import locks
from maestro_state.fs.opening import open_file, open_folder
from maestro_state.local.embedded import origin, paths
from maestro_state.local.embedded.origin import has_data, vouch
from maestro_state.local.embedded.probe import Answer, open_server, ping, read_info
from maestro_state.local.embedded.supervision import stop_supervisor
from maestro_state.net.faults import ReplyError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

#: Seconds without any progress after which what is being stopped is given up on: a sweeper that was killed keeps the
#: next one out for thirty.
STOP_S = 45.0


@dataclass(frozen=True, slots=True)
class Status:
    """How the project's server is at this moment."""

    running: bool
    #: Address a client connects to, also while nothing runs.
    address: str
    pid: int | None = None
    server_version: str | None = None


def is_running(root: Path) -> bool:
    """Say whether a server answers, even one that is still reading its data."""
    return ping(paths.socket_address(root)) is not Answer.DOWN


def status(root: Path) -> Status:
    """Ask the server who it is; starts and creates nothing."""
    socket = paths.socket_address(root)
    address = f"unix://{socket}"
    try:
        with closing(open_server(socket)) as link:
            info = read_info(link.call("INFO", "server"))
    except (ReplyError, TimeoutError):
        return Status(True, address)  # up, and not able to say more yet
    except OSError:
        return Status(False, address)
    pid = info.get("process_id", "")
    version = info.get("valkey_version") or info.get("redis_version")
    return Status(True, address, int(pid) if pid.isdigit() else None, version)


def settle(root: Path, is_moving: Callable[[], bool]) -> None:
    """Have the supervisor bring everything to disk and exit; it is waited for while `is_moving` says it gets on."""
    with _server_folder(root) as folder:
        if folder is not None:
            stop_supervisor(folder, STOP_S, is_moving)


def stop(root: Path, timeout_s: float = STOP_S) -> None:
    """Stop supervisor and server and wait until both are gone. Repeatable; stopping nothing is fine.

    Raises ServerUnavailable when the server refuses or takes longer than `timeout_s`.
    """
    with _server_folder(root) as folder:
        if folder is None:
            return
        stop_supervisor(folder, timeout_s)
        stop_server(root, folder, time.monotonic() + timeout_s)
        stop_supervisor(folder, timeout_s)  # one that was just starting and took over
        sync_data(folder)


def vouch_for_data(root: Path) -> bool:
    """Accept server data that came from elsewhere as one's own; tell whether there was any."""
    with _server_folder(root) as folder:
        if folder is None or not has_data(folder):
            return False
        with _no_server(folder) as is_sure:
            if is_sure:
                vouch(folder, root)
            elif not origin.is_made_here(folder, root):  # its name changes with the mark: not under a running server
                raise ServerUnavailable(
                    "a server runs on this data", hint="maestro stack stop, then maestro trust again"
                )
        return True


def repair_log(root: Path) -> list[str]:
    """Have a log that stops being whole in its middle start from what is before; say what was done.

    For when somebody asked for it: whole commands after the damage are set aside with it. Nothing while a server runs.
    """
    from maestro_state.local.embedded.server import mend_log

    with _server_folder(root) as folder:
        if folder is None:
            return []
        with _no_server(folder) as is_sure:
            may_repair = is_sure and origin.is_made_here(folder, root)
            done = mend_log(folder, also_in_the_middle=True) if may_repair else None
            return [done] if done else []


def cut_off(root: Path) -> list[tuple[str, int]]:
    """List what was cut off the server's log, oldest first: paths below the project and sizes."""
    from maestro_state.local.embedded.log_repair import set_aside

    with _server_folder(root) as folder:
        found = [] if folder is None else set_aside(folder)
        return [(os.path.join(*paths.SERVER_FOLDER, name), size) for name, size in found]


@contextmanager
def _server_folder(root: Path) -> Iterator[int | None]:
    """Open the server's folder for the length of a block; None where there is none."""
    folder = paths.open_folder(root, paths.SERVER_FOLDER, create=False)
    try:
        yield folder
    finally:
        if folder is not None:
            os.close(folder)


@contextmanager
def _no_server(folder: int) -> Iterator[bool]:
    """Keep servers from starting for the length of a block; False while one runs."""
    lock = locks.try_lock(folder, paths.SERVER_LOCK)
    try:
        yield lock is not None
    finally:
        if lock is not None:
            os.close(lock)


def stop_server(root: Path, folder: int, deadline: float) -> None:
    """Ask the server to exit and wait until the kernel says it has."""
    before = status(root)
    asked = False
    pause_s = 0.002
    while locks.is_locked(folder, paths.SERVER_LOCK) or (before.running and is_running(root)):
        if before.running and not asked:
            asked = shut_down(paths.socket_address(root))
        elif not asked:
            asked = _signal_lost_server(folder, paths.data_path(root))
        elif before.pid is not None and status(root).pid not in (before.pid, None):
            return  # gone, and somebody has already started the next one
        if time.monotonic() > deadline:
            raise ServerUnavailable("the embedded server did not stop in time", hint="see .maestro/server/server.log")
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, 0.05)


def shut_down(socket: str) -> bool:
    """Send SHUTDOWN; False when nobody was there to hear it.

    Without an argument: the append-only file is flushed and synced, and no second copy is written.
    """
    try:
        with closing(open_server(socket)) as link:
            link.call("SHUTDOWN")
    except ReplyError as error:
        reason = "".join(char for char in str(error) if char.isprintable())[:300]
        raise ServerUnavailable(
            f"the embedded server refuses to stop: {reason}", hint="free disk space, then try again"
        ) from error
    except ConnectionError as error:
        # It answers by hanging up; a refused connection means there was nobody.
        return not isinstance(error, ConnectionRefusedError)
    except TimeoutError:
        return True
    except OSError:
        return False
    return True


def sync_data(folder: int) -> None:
    """Bring what the server has written to the disk itself; what cannot be synced now is tried again later."""
    with suppress(OSError):
        inner = open_folder(folder, origin.data_name(folder))
        try:
            for name in os.listdir(inner):
                file = open_file(inner, name)
                try:
                    os.fdatasync(file)
                finally:
                    os.close(file)
            os.fsync(inner)
        finally:
            os.close(inner)


def _signal_lost_server(folder: int, data: str) -> bool:
    """Ask a server whose socket was removed to exit, if it is certain which process that is."""
    pid = paths.noted_pid(folder, paths.SERVER_PID)
    # A pid from a file may be anybody's by now; the one that works in the data folder is the server.
    if pid is None or not _works_in(pid, data):
        return False
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        return False
    return True


def _works_in(pid: int, data: str) -> bool:
    try:
        return os.readlink(f"/proc/{pid}/cwd") == data
    except OSError:
        return False
