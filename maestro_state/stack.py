"""The embedded stack of a project, seen from a command: is it there, stop it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from maestro_state.errors import Refused


class StackStatus(msgspec.Struct, frozen=True):
    """What `stack status` tells."""

    running: bool
    address: str
    pid: int | None
    workers: int
    server_version: str | None


class Stack:
    """The embedded server; a server of somebody else's is looked at, never stopped."""

    def __init__(self, root: Path, redis_url: str | None, namespace: str = "maestro") -> None:
        """Take the project's root, and the address of the other server if one is set."""
        self._namespace = namespace
        self._root = root
        self._redis_url = redis_url

    def status(self) -> StackStatus:
        """Tell whether the embedded server runs, and where."""
        self._refuse_foreign()
        from maestro_state.embedded import status

        found = status(self._root)
        workers = self._count_workers(found.address) if found.running else 0
        return StackStatus(found.running, found.address, found.pid, workers, found.server_version)

    def _count_workers(self, address: str) -> int:
        from maestro_state.connection import connect
        from maestro_state.errors import ServerUnavailable
        from maestro_state.keys import Keyspace

        connection = connect(address)
        try:
            names = connection.call("SMEMBERS", Keyspace(self._namespace).queue_workers)
            return sum(connection.calls([("EXISTS", name) for name in names]))
        except ServerUnavailable:
            return 0
        finally:
            connection.close()

    def stop(self) -> bool:
        """Stop the embedded server; tell whether it ran."""
        self._refuse_foreign()
        from maestro_state.embedded import is_running, stop

        was_running = is_running(self._root)
        stop(self._root)
        return was_running

    def _refuse_foreign(self) -> None:
        if self._redis_url:
            from maestro_state.connection.url import masked

            raise Refused(
                f"this project uses {masked(self._redis_url)}, not the embedded server",
                hint="maestro doctor looks at it",
            )
