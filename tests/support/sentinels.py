"""A master, its replica, and a sentinel that fails over by itself: the smallest set-up that outlives a server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.support.servers import Server, free_port, raw_call, valkey
from tests.support.waiting import wait_until

#: Milliseconds of silence after which the master counts as lost: none that a busy machine makes by itself,
PATIENT_MS = 3_600_000
#: and once it has been killed.
QUICK_MS = 500


class Watched(NamedTuple):
    """A master with its replica, and where the sentinel is asked for it."""

    url: str
    master: Server
    replica: Server
    sentinel: Server

    def lose_master(self) -> None:
        """Kill the master, and let the sentinel notice soon."""
        self.master.kill()
        said = raw_call(self.sentinel, "SENTINEL", "SET", "mymaster", "down-after-milliseconds", QUICK_MS)
        assert said == b"OK"

    def is_promoted(self) -> bool:
        """Tell whether the replica has become the master."""
        try:
            said = raw_call(self.replica, "INFO", "replication")
        except ConnectionError:  # in the middle of our question, or before it
            return False  # the sentinel hangs up on everybody when it promotes a server
        return b"role:master" in said  # type: ignore[operator]


@contextmanager
def watched_master(tmp_path: Path) -> Iterator[Watched]:
    """Run a master, its replica, and a sentinel that fails over by itself."""
    port, other, watching = free_port(), free_port(), free_port()
    replica_args = ["--replicaof", "127.0.0.1", str(port), "--repl-diskless-sync-delay", "0"]
    with (
        valkey(tmp_path, port=port, args=["--repl-diskless-sync-delay", "0"]) as master,
        valkey(tmp_path, port=other, args=replica_args) as replica,
    ):
        folder = tmp_path / "sentinel"
        folder.mkdir()
        settings = folder / "sentinel.conf"
        settings.write_text(
            f"port {watching}\nbind 127.0.0.1\nunixsocket {folder}/s\ndir {folder}\n"
            f"sentinel monitor mymaster 127.0.0.1 {port} 1\n"
            f"sentinel down-after-milliseconds mymaster {PATIENT_MS}\nsentinel failover-timeout mymaster 3000\n"
        )
        sentinel = Server(folder, watching, [], settings=settings)
        try:
            sentinel.start()
            wait_until(
                lambda: (
                    b"slaves=1" in raw_call(sentinel, "INFO", "sentinel")
                    and b"master_link_status:up" in raw_call(replica, "INFO", "replication")
                ),
                "the sentinel does not know the replica",
            )
            yield Watched(f"redis+sentinel://127.0.0.1:{watching}/mymaster", master, replica, sentinel)
        finally:
            sentinel.stop()
