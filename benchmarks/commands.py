"""A command from Enter to prompt: on a running stack, and as the one that starts it; beside an empty click program and
the commands of peers.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from maestro_cli.entry import SOCKET

from benchmarks.rig import Rig, Row, race, rig, row

_EMPTY = "import click\n@click.command()\ndef empty(): pass\nempty()\n"
#: Peers' commands, and what ours may take of their time.
PEERS = {"rq info": 0.8, "llm --version": 0.3}
#: Times that a stack is started.
COLD = 5


def measure() -> Iterator[Row]:
    """Yield the figures."""
    # The whole stack, as users have it: its resident process runs the commands.
    with rig(pinned=False, with_worker=True) as bench:
        session = bench.session(20)
        while not (bench.folder / SOCKET).exists():
            time.sleep(0.05)
        reads = {
            "session status": ("session", "status", session),
            "session list": ("session", "list"),
            "session get": ("session", "get", "preferences", session),
            "messages": ("--session", session, "messages"),
            "runs": ("--session", session, "runs"),
            "context list": ("--session", session, "context", "list"),
        }
        adds = {"message add": ("--session", session, "message", "add", "--role", "user", "x")}
        yield from _warm(bench, reads, adds)
        yield _cold(bench, ("session", "status", session))


def _warm(bench: Rig, reads: dict[str, tuple[str, ...]], adds: dict[str, tuple[str, ...]]) -> Iterator[Row]:
    folder = Path(sys.executable).parent
    script = Path(tempfile.mkdtemp()) / "empty.py"
    script.write_text(_EMPTY)
    peers = {"rq info": ("info", "--url", f"redis://127.0.0.1:{bench.port}"), "llm --version": ("--version",)}
    there = {name: words for name, words in peers.items() if (folder / name.split()[0]).exists()}

    def runs(*words: str) -> object:
        return subprocess.run(words, cwd=bench.folder, stdout=subprocess.DEVNULL, check=True)

    figures = race(
        {
            "empty click program": lambda: runs(sys.executable, str(script)),
            **{name: lambda name=name, words=words: runs(str(folder / name.split()[0]), *words)
               for name, words in there.items()},
            **{name: lambda words=words: runs(str(folder / "maestro"), *words)
               for name, words in {**reads, **adds}.items()},
        },
        calls=1, rounds=9, timeout_s=4.0,
    )  # fmt: skip
    shutil.rmtree(script.parent)
    figures = {name: [took / 1000 for took in all_of_them] for name, all_of_them in figures.items()}
    for name in (*reads, *adds):
        for peer, limit in PEERS.items():
            wanted = limit if name in reads or peer == "rq info" else None
            if peer in there:
                yield row(f"maestro {name}", figures, name, peer, limit=wanted, unit="ms", peer=True)
            else:
                took = statistics.median(figures[name])
                yield Row(f"maestro {name}", peer, took, None, "ms", wanted, peer=True, note="not installed")
        yield row(f"maestro {name}", figures, name, "empty click program", aim=1.0, unit="ms")


def _cold(bench: Rig, words: tuple[str, ...]) -> Row:
    """Time the command that finds no server running, and the same one after it."""
    command = [str(Path(sys.executable).parent / "maestro"), *words]
    cold, warm = [], []
    for _ in range(COLD):
        bench.maestro.stack.stop()
        for times in (cold, warm):
            start = time.perf_counter()
            subprocess.run(command, cwd=bench.folder, stdout=subprocess.DEVNULL, check=True)
            times.append((time.perf_counter() - start) * 1000)
    figures = [statistics.median(times) for times in (cold, warm)]
    return Row("maestro session status, first of the day", "the same, stack running", *figures, "ms")
