"""Whether anybody uses the embedded server, seen through one connection that stays open."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from maestro_state.local.embedded.disk_space import Room
from maestro_state.local.embedded.paths import socket_address
from maestro_state.local.embedded.probe import ReplyError, open_server, read_info
from maestro_workers.stack.log_rewrite import Tidying

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from maestro_state import Maestro
    from maestro_state.local.embedded.probe import Link

#: Clients whose name starts so are the supervisor and its services: their being connected is not use.
SERVICE_CLIENT = "maestro-stack"


@dataclass(slots=True)
class Usage:
    """Watches one server.

    Every use is a client that is here now or a connection made since the last poll. Commands are not counted:
    those of the services could not be told from anybody else's. A service keeps its connection open.
    """

    socket: Callable[[], str]
    _link: Link | None = None
    _connections: int | None = None
    _tidying: Tidying = field(default_factory=Tidying)
    _room: Room = field(default_factory=Room)

    def poll(self, *, is_discounted: bool = False) -> bool | None:
        """Return whether the server was used since the last poll, or None when there is no server.

        Discounted, connections made since then do not count: some were the stack's own.
        """
        try:
            link = self._connect()
            made = int(read_info(link.call("INFO", "stats")).get("total_connections_received", "0"))
            foreign = _foreign(link)
        except ReplyError:
            return True  # reading its data, or busy with a script: not idle
        except TimeoutError:
            self.close()  # a late answer would be taken for the next one
            return True
        except OSError:
            self.close()
            return None
        before, self._connections = self._connections, made
        return foreign or before is None or (made != before and not is_discounted)

    def has_clients(self) -> bool:
        """Say whether anybody but the stack itself is connected."""
        try:
            return _foreign(self._connect())
        except (ReplyError, OSError):
            return False

    def tidy(self, now_s: float) -> bool:
        """Have the server write its log anew if that is due; tell whether it was."""
        try:
            found = read_info(self._connect().call("INFO", "persistence"))
            sizes = int(found.get("aof_current_size", "0")), int(found.get("aof_base_size", "0"))
            if found.get("aof_rewrite_in_progress") != "0" or not self._tidying.is_due(now_s, *sizes):
                return False
            self._link.call("BGREWRITEAOF")  # type: ignore[union-attr]
        except TimeoutError:
            self.close()  # a late answer would be taken for the next one
            return False
        except (ReplyError, OSError, ValueError):
            return False  # the next poll shows what is wrong, or is in time
        return True

    def heed_room(self, folder: int) -> bool | None:
        """Have the server refuse writes while its disk is full; return whether it takes them when that changed."""
        try:
            return self._room.tend(folder, self._connect())
        except (ReplyError, OSError):
            return None  # the next poll shows what is wrong, or is in time

    def shut_down(self) -> None:
        """Stop the server this connection leads to, and no other one; raise ReplyError when it refuses."""
        if self._link is None:
            return
        try:
            with suppress(OSError):  # it answers by hanging up
                self._link.call("SHUTDOWN")
        finally:
            self.close()

    def kill(self) -> None:
        """End the server this connection leads to at once.

        For one whose folder was removed: stopping, it would tidy away the socket and the pid file that by now belong
        to the next server in that place.
        """
        if self._link is None:
            return
        try:
            with suppress(ReplyError, OSError):
                os.kill(int(read_info(self._link.call("INFO", "server"))["process_id"]), signal.SIGKILL)
        finally:
            self.close()

    def close(self) -> None:
        if self._link is not None:
            self._link.close()
        self._link = self._connections = None
        self._room = Room()  # the next server has been told nothing

    def _connect(self) -> Link:
        if self._link is None:
            self._link = open_server(self.socket(), name=SERVICE_CLIENT)
        return self._link


def _foreign(link: Link) -> bool:
    # By how each begins: the path of the socket is in it, and may have a line break.
    clients = link.call("CLIENT", "LIST").split(b"\nid=")
    return any(b" name=" + SERVICE_CLIENT.encode() not in client for client in clients)


def open_service(root: Path) -> Maestro:
    """Open Maestro for the stack's own use, over a connection that stays open: a new one would count as use.

    Never starts the server.
    """
    from maestro_state import Maestro

    return Maestro(root, redis_url=f"unix://{socket_address(root)}", client_name=SERVICE_CLIENT)
