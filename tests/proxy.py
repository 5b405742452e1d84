"""A loopback proxy that loses replies: the server has run the command, the client never learns it."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.servers import Server


class LossyProxy:
    """Forwards bytes both ways; asks `loses(n)` for the n-th reply and hangs up instead of forwarding it."""

    def __init__(self, server: Server, loses: Callable[[int], bool]) -> None:
        self._server = server
        self._loses = loses
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"redis://127.0.0.1:{self._listener.getsockname()[1]}"
        self.replies = 0
        self.lost = 0
        #: While set, replies are swallowed and the connection stays open: the client sees silence.
        self.silent = threading.Event()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                upstream = socket.socket(socket.AF_UNIX)
                upstream.connect(self._server.socket)
                with self._lock:
                    self._open += [client, upstream]
                for target in (self._requests, self._answers):
                    thread = threading.Thread(target=target, args=(client, upstream))
                    self._threads.append(thread)
                    thread.start()

    def _requests(self, client: socket.socket, upstream: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(65536):
                upstream.sendall(data)
        self._hang_up(client, upstream)

    def _answers(self, client: socket.socket, upstream: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := upstream.recv(65536):
                with self._lock:
                    self.replies += 1
                    loses = self._loses(self.replies)
                    self.lost += loses
                if loses:
                    break
                if not self.silent.is_set():
                    client.sendall(data)
        self._hang_up(client, upstream)

    @staticmethod
    def _hang_up(*ends: socket.socket) -> None:
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Hang up on everybody."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            self._hang_up(*self._open)
        for thread in self._threads:
            thread.join(10)
        for end in self._open:
            end.close()


@contextlib.contextmanager
def lossy_proxy(server: Server, loses: Callable[[int], bool] = lambda number: False) -> Iterator[LossyProxy]:
    """Run a proxy in front of a server."""
    proxy = LossyProxy(server, loses)
    try:
        yield proxy
    finally:
        proxy.close()
