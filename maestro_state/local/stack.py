"""The embedded stack of a project, seen from a command: is it there, stop it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from maestro_state.errors import Refused
from maestro_state.state.keys import Keyspace, named

if TYPE_CHECKING:
    from maestro_state.net import AnyConnection

_Answer = TypeVar("_Answer")


class StackStatus(msgspec.Struct, frozen=True):
    """What `stack status` tells."""

    running: bool
    address: str
    pid: int | None
    workers: int
    server_version: str | None
    serve: str | None = None  #: where the stack serves HTTP, if it does


class StackStopped(msgspec.Struct, frozen=True, omit_defaults=True):
    """What `stack stop` tells."""

    stopped: bool  #: whether it ran before
    unwritten: int = 0  #: sessions with changes that are only in the server's own file
    with_runs: tuple[str, ...] = ()  #: sessions in which runs were open: those that were going have ended


class Stack:
    """The embedded server; a server of somebody else's is asked about, never stopped."""

    def __init__(self, root: Path, redis_url: str | None, namespace: str = "maestro", serve_port: int = 0) -> None:
        self._namespace = namespace
        self._serve_port = serve_port
        self._root = root
        self._redis_url = redis_url

    def status(self) -> StackStatus:
        """Tell whether the embedded server runs, and where."""
        self._refuse_foreign()
        from maestro_state.local.embedded import status

        found = status(self._root)
        workers = self._count_workers(found.address) if found.running else 0
        serve = self._served() if found.running else None
        return StackStatus(found.running, found.address, found.pid, workers, found.server_version, serve)

    def _served(self) -> str | None:
        """Return where HTTP is served; None when nobody listens there."""
        if not self._serve_port:
            return None
        import socket

        try:
            socket.create_connection(("127.0.0.1", self._serve_port), timeout=1).close()
        except OSError:
            return None
        return f"http://127.0.0.1:{self._serve_port}"

    def _count_workers(self, address: str) -> int:
        def count(connection: AnyConnection) -> int:
            names = connection.call("SMEMBERS", Keyspace(self._namespace).queue_workers)
            return sum(connection.calls([("EXISTS", name) for name in names]))

        return self._ask(address, count, 0)

    def _count_unwritten(self, address: str) -> int:
        keys = Keyspace(self._namespace)
        dirty = [("ZCARD", named(index, "dirty")) for index in (*keys.shards, keys.work_index)]
        return self._ask(address, lambda connection: sum(connection.calls(dirty)), 0)

    def _with_open_runs(self, address: str) -> list[str]:
        keys = Keyspace(self._namespace)
        running = [("ZRANGE", named(index, "running"), 0, -1) for index in keys.shards]

        def read(connection: AnyConnection) -> list[str]:
            return sorted(one.decode() for ids in connection.calls(running) for one in ids)

        return self._ask(address, read, [])

    def _ask(self, address: str, question: Callable[[AnyConnection], _Answer], nothing: _Answer) -> _Answer:
        """Ask a server that may be going; one that is gone has nothing."""
        from maestro_state.errors import ServerUnavailable
        from maestro_state.net import connect

        connection = connect(address)
        connection.retry_s = 0.0
        try:
            return question(connection)
        except ServerUnavailable:
            return nothing
        finally:
            connection.close()

    def stop(self, progress: Callable[[int], None] = lambda _: None) -> StackStopped:
        """Stop the embedded server when everything is on disk; `progress` is told how many sessions are not yet.

        Takes as long as the disk gets on. What could not be written is counted in the answer: it is safe in the
        server's own file, and written the next time.
        """
        self._refuse_foreign()
        from maestro_state.local.embedded import await_supervisor, is_running, settle, status, stop

        if not is_running(self._root):
            stop(self._root)
            return StackStopped(False)
        address, known = status(self._root).address, -1
        with_runs = self._with_open_runs(address)

        def is_moving() -> bool:
            nonlocal known
            before, known = known, self._count_unwritten(address)
            if known and known != before:
                progress(known)
            return known != before

        settle(self._root, is_moving)
        unwritten = self._count_unwritten(address)
        if unwritten and await_supervisor(self._root):
            # There was none, or it was only just starting; one that could not write it tries once more.
            settle(self._root, is_moving)
            unwritten = self._count_unwritten(address)
        stop(self._root)
        return StackStopped(True, unwritten, tuple(with_runs))

    def _refuse_foreign(self) -> None:
        if self._redis_url:
            from maestro_state.net.url import masked

            raise Refused(
                f"this project uses {masked(self._redis_url)}, not the embedded server",
                hint="maestro doctor looks at it",
            )
