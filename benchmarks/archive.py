"""What the archive costs, beside the least any program could do with the same files."""

from __future__ import annotations

import gc
import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import redis

from benchmarks.rig import Rig, Row, rig
from maestro_state import Maestro
from maestro_state.fs.kernel import sync_filesystem
from maestro_state.state.calls.index import forget_session
from tests.support.stored import Filler

RUNS, ITEMS, MEGABYTES = 200, 100, 20
ROUNDS = 4


def timed(action: Callable[[], object]) -> float:
    """Return how long something takes, in milliseconds."""
    start = time.perf_counter()
    action()
    return (time.perf_counter() - start) * 1000


def in_turns(*actions: Callable[[], object], rounds: int = ROUNDS) -> list[float]:
    """Return the median time of each of several actions, done in turns: what else the machine does hits all alike."""
    gc.collect()
    gc.freeze()
    times: list[list[float]] = [[] for _ in actions]
    for _ in range(rounds):
        for action, taken in zip(actions, times, strict=True):
            taken.append(timed(action))
    gc.unfreeze()
    return [statistics.median(taken) for taken in times]


#: Sessions already filled, by their number of runs: the next ones of a kind are copied from them on the server.
_FILLED: dict[int, str] = {}


def fill(bench: Rig, runs: int = RUNS, items: int = ITEMS) -> str:
    """Start a session with 200 runs and 100 items, 20 MB in all."""
    terms, session = bench.maestro.server.terms, bench.maestro.sessions.start("bench")
    if runs in _FILLED:
        bench.copy(terms.keys.session(_FILLED[runs]), terms.keys.session(session.id))
        # The copy's last id is older than the one that the index has: as an entry of its own it is written anew.
        bench.maestro.server.run(forget_session(terms, session.id))
        return session.id
    filler = Filler(bench.tcp, terms.keys, session.id)
    size = MEGABYTES * 1_000_000 // (runs + items)
    for number in range(items):
        filler.item(number.to_bytes(4, "big") + os.urandom(size - 4))
    for number in range(runs):
        filler.run(number.to_bytes(4, "big") + os.urandom(size - 4), prompt=f"prompt {number}".encode(), chunks=8)
    _FILLED[runs] = bench.maestro.sessions.start("filled").id
    bench.copy(terms.keys.session(session.id), terms.keys.session(_FILLED[runs]))
    return session.id


def sync_all(folder: Path) -> None:
    """Write the file system to disk, as the flush does."""
    descriptor = os.open(folder, os.O_RDONLY)
    sync_filesystem(descriptor)
    os.close(descriptor)


def flushes(bench: Rig) -> Iterator[Row]:
    """Compare a full flush, a checkpoint and verify with copying, and hashing, the same files."""
    maestro, project, session_id = bench.maestro, bench.folder, fill(bench)
    archive = project / ".maestro/sessions" / session_id
    maestro.archive.checkpoint(session_id)
    kept = project / "kept"
    shutil.copytree(archive, kept)

    def copy_tree(number: int) -> None:
        subprocess.run(["cp", "-r", str(kept), str(project / f"copy-{number}")], check=True)
        sync_all(project)

    full, cp = [], []
    for number in range(ROUNDS):
        # Moved away, not removed: for seconds after a removal a file system is slow to make new files.
        archive.rename(project / f"before-{number}")
        sync_all(project)
        full.append(timed(lambda: maestro.archive.checkpoint(session_id)))
        sync_all(project)
        cp.append(timed(lambda number=number: copy_tree(number)))
    flush_ms, copy_ms = statistics.median(full), statistics.median(cp)
    yield Row("full flush, 20 MB", "cp -r + syncfs", flush_ms, copy_ms, "ms", 1.3)
    files = [str(path) for path in archive.rglob("*") if path.is_file()]
    verify_ms, hash_ms = in_turns(
        lambda: maestro.archive.verify(session_id),
        lambda: subprocess.run(["sha256sum", *files], check=True, capture_output=True),
    )
    yield Row(f"verify {len(files)} files", "sha256sum", verify_ms, hash_ms, "ms", 1.3)
    live = fill(bench)
    maestro.sessions.end(session_id)
    bench.tcp.delete(*maestro.server.terms.keys.session(session_id))
    archived_ms, live_ms = in_turns(
        lambda: maestro.sessions.status(session_id), lambda: maestro.sessions.status(live), rounds=12
    )
    yield Row("status, archived", "status, live", archived_ms, live_ms, "ms", 1.5)


def checkpoints(bench: Rig) -> Iterator[Row]:
    """Compare a checkpoint after one more run with a full flush, and a long session's with a short one's."""
    maestro, project = bench.maestro, bench.folder
    sessions = {runs: fill(bench, runs) for runs in (RUNS, RUNS // 4)}
    taken: dict[int, list[float]] = {runs: [] for runs in sessions}
    full = []
    for session_id in sessions.values():
        maestro.archive.checkpoint(session_id)
    for _ in range(ROUNDS + 2):
        for runs, session_id in sessions.items():
            Filler(bench.tcp, maestro.server.terms.keys, session_id).run(os.urandom(60_000), chunks=8)
            sync_all(project)
            taken[runs].append(timed(lambda session_id=session_id: maestro.archive.checkpoint(session_id)))
        # A session of its own each time, and none of them removed: for seconds after that a file system is slow.
        other = fill(bench)
        sync_all(project)
        full.append(timed(lambda other=other: maestro.archive.checkpoint(other)))
    # The first two find cold caches.
    long_ms, short_ms = (statistics.median(taken[runs][2:]) for runs in sessions)
    yield Row("checkpoint after one run", "full flush", long_ms, statistics.median(full[2:]), "ms", 0.1)
    yield Row(f"… after {RUNS} runs", f"… after {RUNS // 4} runs", long_ms, short_ms, "ms")


def fill_index(maestro: Maestro, raw: redis.Redis, count: int) -> None:
    """Put live sessions on the server that were checkpointed and are not due."""
    terms = maestro.server.terms
    pipe = raw.pipeline(transaction=False)
    for number in range(count):
        session_id, now = f"other--{number:06}", maestro.server.now_ms()
        fields = {"state": "iniciada", "last_id": f"{now}-0", "archived_id": f"{now}-0", "created_at": now,
                  "last_activity": now, "touched_at": now, "ttl_ms": 10**9}  # fmt: skip
        pipe.hset(terms.keys.of_session(session_id, "session"), mapping=fields)
        pipe.pexpire(terms.keys.of_session(session_id, "session"), 10**9)
        summary = [f"{now}-0", session_id, "iniciada", now, now, 10**9, "u", None, None, f"{now}-0"]
        pipe.hset(terms.keys.of_index("summaries", session_id), session_id, msgspec.json.encode(summary))
        pipe.zadd(terms.keys.of_index("deadlines", session_id), {session_id: now + 10**9})
        pipe.zadd(terms.keys.of_index("recent", session_id), {session_id: now})
    pipe.execute()


def sweeps(alone: Rig, crowded: Rig) -> Iterator[Row]:
    """Compare sweeping ten due sessions where there are no others and among ten thousand, in turns."""
    fill_index(crowded.maestro, crowded.tcp, 10_000)

    def make_due(bench: Rig) -> None:
        keys = bench.maestro.server.terms.keys
        for number in range(10):
            session = bench.maestro.sessions.start(f"due{number}")
            key = keys.of_session(session.id, "session")
            bench.tcp.hset(key, "last_activity", 1)
            bench.tcp.zadd(keys.of_index("deadlines", session.id), {session.id: 1})
            bench.tcp.pexpire(key, 1000)

    taken: dict[str, list[float]] = {"alone": [], "crowded": []}
    for _ in range(2 * ROUNDS):
        for name, bench in (("alone", alone), ("crowded", crowded)):
            make_due(bench)
            sync_all(bench.folder)
            taken[name].append(timed(bench.maestro.archive.sweep))
    alone_ms, crowded_ms = (statistics.median(times) for times in taken.values())
    yield Row("sweep 10 due of 10 000", "10 due of 10", crowded_ms, alone_ms, "ms", 1.2)


def listing(maestro: Maestro, project: Path) -> Iterator[Row]:
    """Compare listing 10 000 archived sessions with reading one JSON file of them, which may be stale; and with a stat
    of each session.json beside that, which is the least that tells.
    """
    import json

    from maestro_state.local.project import IndexRow

    rows = [
        IndexRow(f"s--{number:06}", "s", "finalizada", "2026-01-01T00:00:00.000+00:00", "2099-01-01T00:00:00.000+00:00")
        for number in range(10_000)
    ]
    maestro.project.index_rebuild(rows)
    records = [project / ".maestro/sessions" / row.id / "session.json" for row in rows]
    for record, row in zip(records, rows, strict=True):
        record.parent.mkdir()
        record.write_bytes(msgspec.json.encode(row))
    index, paths = project / ".maestro/sessions/index.json", list(map(str, records))

    def read_and_stat() -> None:
        json.loads(index.read_bytes())
        for path in paths:
            os.stat(path)

    maestro.sessions.list(everything=True)  # reads the records, this once
    list_ms, read_ms, stat_ms = in_turns(
        lambda: maestro.sessions.list(everything=True),
        lambda: json.loads(index.read_bytes()),
        read_and_stat,
        rounds=4 * ROUNDS,
    )
    yield Row("list 10 000 archived", "json.loads and a stat each", list_ms, stat_ms, "ms", 1.5)
    yield Row("list 10 000 archived, beside a stale list", "json.loads of the index", list_ms, read_ms, "ms", None)


def measure() -> Iterator[Row]:
    """Yield the figures; listing first: what has just written archives of 20 MB has its memory in pieces."""
    with rig(pinned=False) as bench:
        yield from listing(bench.maestro, bench.folder)
    with rig(pinned=False) as bench:
        yield from flushes(bench)
        yield from checkpoints(bench)
    with rig(pinned=False) as alone, rig(pinned=False) as crowded:
        yield from sweeps(alone, crowded)
