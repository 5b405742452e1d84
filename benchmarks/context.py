"""Adding 1 000 files of 20 MB in all, beside reading and hashing them, and beside a bare HSET of their contents."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.rig import ROUNDS, Rig, Row, rig, row

FILES, SIZE = 1000, 20 * 1024

#: Files whose contents one bare call carries: as many bytes as one batch of ours.
_TOGETHER = 25


def measure() -> Iterator[Row]:
    """Yield the figures."""
    with rig(pinned=False) as bench:
        folder = bench.folder / "files"
        folder.mkdir()
        for number in range(FILES):
            (folder / f"{number:04d}.txt").write_bytes(os.urandom(SIZE))
        contents = _read_and_hash(folder)
        figures: dict[str, list[float]] = {"add": [], "reading and hashing them": [], "HSET of their contents": []}
        for number in range(ROUNDS // 2):
            # A new session each time: nothing of it is on the server yet.
            bench.maestro.sessions.start("files")
            figures["reading and hashing them"].append(_took(lambda: _read_and_hash(folder)))
            figures["add"].append(_took(lambda: bench.maestro.context.add("files", folder=bench.folder)))
            key = f"bench:{number}"
            figures["HSET of their contents"].append(_took(lambda key=key: _store(bench, key, contents)))
            bench.maestro.server.connection.call("DEL", key)
        for reference, limit in (("reading and hashing them", 2.0), ("HSET of their contents", None)):
            yield row("add 1 000 files, 20 MB", figures, "add", reference, limit=limit, unit="ms")


def _took(call: Callable[[], object]) -> float:
    start = time.perf_counter_ns()
    call()
    return (time.perf_counter_ns() - start) / 1_000_000


def _read_and_hash(folder: Path) -> list[tuple[str, bytes]]:
    contents = [path.read_bytes() for path in sorted(folder.iterdir())]
    return [(hashlib.sha256(content).hexdigest(), content) for content in contents]


def _store(bench: Rig, key: str, contents: list[tuple[str, bytes]]) -> None:
    for at in range(0, len(contents), _TOGETHER):
        pairs = contents[at : at + _TOGETHER]
        bench.maestro.server.connection.call("HSET", key, *(part for pair in pairs for part in pair))
