"""The embedded stack of a project, seen from a command: is it there, stop it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from maestro_state.errors import Refused
from maestro_state.state.keys import NAMES, Keyspace

if TYPE_CHECKING:
    from maestro_state.net import AnyConnection


class StackStatus(msgspec.Struct, frozen=True):
    """What `stack status` tells."""

    running: bool
    address: str
    pid: int | None
    workers: int
    server_version: str | None


class StackStopped(msgspec.Struct, frozen=True, omit_defaults=True):
    """What `stack stop` tells."""

    stopped: bool  #: whether it ran before
    unwritten: int = 0  #: sessions with changes that are only in the server's own file


class Stack:
    """The embedded server; a server of somebody else's is asked about, never stopped."""

    def __init__(self, root: Path, redis_url: str | None, namespace: str = "maestro") -> None:
        self._namespace = namespace
        self._root = root
        self._redis_url = redis_url

    def status(self) -> StackStatus:
        """Tell whether the embedded server runs, and where."""
        self._refuse_foreign()
        from maestro_state.local.embedded import status

        found = status(self._root)
        workers = self._count_workers(found.address) if found.running else 0
        return StackStatus(found.running, found.address, found.pid, workers, found.server_version)

    def _count_workers(self, address: str) -> int:
        def count(connection: AnyConnection) -> int:
            names = connection.call("SMEMBERS", Keyspace(self._namespace).queue_workers)
            return sum(connection.calls([("EXISTS", name) for name in names]))

        return self._ask(address, count)

    def _count_unwritten(self, address: str) -> int:
        keys = Keyspace(self._namespace)
        dirty = [("ZCARD", index[NAMES["index"].index("dirty")]) for index in (keys.index, keys.work_index)]
        return self._ask(address, lambda connection: sum(connection.calls(dirty)))

    def _ask(self, address: str, question: Callable[[AnyConnection], int]) -> int:
        """Ask a server that may be going; one that is gone has nothing."""
        from maestro_state.errors import ServerUnavailable
        from maestro_state.net import connect

        connection = connect(address)
        connection.retry_s = 0.0
        try:
            return question(connection)
        except ServerUnavailable:
            return 0
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
        return StackStopped(True, unwritten)

    def _refuse_foreign(self) -> None:
        if self._redis_url:
            from maestro_state.net.url import masked

            raise Refused(
                f"this project uses {masked(self._redis_url)}, not the embedded server",
                hint="maestro doctor looks at it",
            )
