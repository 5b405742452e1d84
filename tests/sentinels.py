"""A master, its replica, and a sentinel that fails over by itself: the smallest set-up that outlives a server."""

from __future__ import annotations

from contextlib import contextmanager

from tests.servers import Server, free_port, raw_call, valkey
from tests.waiting import wait_until


@contextmanager
def watched_master(tmp_path):
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
            "sentinel down-after-milliseconds mymaster 500\nsentinel failover-timeout mymaster 3000\n"
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
            yield f"redis+sentinel://127.0.0.1:{watching}/mymaster", master, replica
        finally:
            sentinel.stop()
